"""Produces of very many partitions, in turns: between two slices of one everybody else is served (ADRs 46, 47).

One at a time is read and appended, with the other long requests that change something. A slice is appended as a request of its
own would be, its partitions in their order; there is one answer. Loop thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import ApiKey
from ...protocol.messages._hot import parse_produce
from ..partitions.format_conversion import CONVERTIBLE_BYTES
from ..requests.context import RequestContext
from ..runtime.cooperative import CHUNK_UNITS
from ..runtime.error_codes import error_code
from ..runtime.exceptions import ConnectionAborted
from .produce_job import FIRST_WITH_IDS, UNKNOWN, Denied, ProduceJob, denied_topics

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..requests.services import Services
    from .produce_admission import Refusals

Topics = list[tuple[Any, list[tuple[int, int, int]]]]


def long_produce(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> Awaitable[bytes | None]:
    """The answer to the request in buffer[start:end], which is copied. RequestDeferred while another long one is in work."""
    permit = services.long_changes.admit(connection, end - start)
    with memoryview(buffer) as view:
        frame = bytearray(view[start:end])
    task = services.loop.create_task(_append(services, frame, version, correlation_id, connection))
    task.add_done_callback(permit.release)  # also where the client leaves before it has begun
    return task


async def _append(
    services: Services, frame: bytearray, version: int, correlation_id: int, connection: Connection
) -> bytes | None:
    try:
        request = parse_produce(frame, 0, len(frame), version)  # 30 ms for the most there may be
    except ValueError as error:
        raise ConnectionAborted(f"malformed PRODUCE v{version}: {error}") from None
    client_id, transactional_id, acks, _timeout, topics = request
    del request
    context = RequestContext(services, connection, ApiKey.PRODUCE, version, correlation_id, client_id)
    await context.next_turn()
    job = ProduceJob(
        services.partitions, services.counters, version, correlation_id, client_id, acks, connection.client, 0
    )
    try:
        for some, goes_on in slices_of(topics):
            ids: list[bytes] | None = None
            if version >= FIRST_WITH_IDS:
                ids = [topic_id for topic_id, _ in some]
                some = [(services.partitions.name_of(topic_id) or UNKNOWN, partitions) for topic_id, partitions in some]
            denied: Denied = None
            if services.authorizer is not None:
                denied = denied_topics(context, transactional_id, some)
            refused = (
                None
                if transactional_id is None
                else await _refused(services, frame, some, version, transactional_id, denied)
            )
            job.since, job.convertible = perf_counter_ns(), CONVERTIBLE_BYTES
            job.append(frame, some, ids, denied, refused, goes_on)
            await context.next_turn()
    except BaseException:
        job.give_up()
        raise
    found = job.answer()
    return await found if inspect.isawaitable(found) else found


async def _refused(
    services: Services, frame: bytearray, topics: Topics, version: int, transactional_id: str, denied: Denied
) -> Refusals:
    """Partitions that the transaction refuses; returned once its coordinator durably has the others."""
    from .produce_admission import admit

    open_topics = topics if denied is None else [topic for topic in topics if topic[0] not in denied]
    admission = admit(services, frame, open_topics, version, transactional_id)
    if admission.wait is not None:
        try:
            await asyncio.shield(admission.wait)
        except Exception as error:
            admission.refused.update(dict.fromkeys(admission.added, error_code(error)))
    return admission.refused


def slices_of(topics: Topics) -> Iterator[tuple[Topics, bool]]:
    """`topics` in parts of up to `CHUNK_UNITS` topics and partitions, and whether a part goes on with the last topic of the one
    before."""
    some: Topics = []
    left, goes_on = CHUNK_UNITS, False
    for name, partitions in topics:
        at = 0
        while True:
            part = partitions[at : at + max(left - 1, 1)]
            some.append((name, part))
            at += len(part)
            left -= 1 + len(part)
            if left > 0:
                break  # the whole of the topic is in there
            yield some, goes_on
            some, left, goes_on = [], CHUNK_UNITS, at < len(partitions)
            if not goes_on:
                break
    if some:
        yield some, goes_on
