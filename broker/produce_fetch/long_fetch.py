"""Fetches of very many partitions, in turns: between two slices of one everybody else is served (ADRs 46, 47).

    long_fetch        the request itself has many: one at a time is read, with the other long requests that look at something
    fetch_in_turns    its session has many, or it was read by the above: rights, positions and rows in slices

Of what is in no session, so many partitions may wait together as may be in sessions (`FetchSessions.hold`); a request beyond
that is answered with what there is. Loop thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages._hot import parse_fetch
from ..partitions.fetch_session import FetchPartition
from ..requests.context import RequestContext
from ..runtime.cooperative import CHUNK_UNITS, batches
from ..runtime.exceptions import ConnectionAborted
from .fetch_job import FIRST_OF_ALL_FORMATS, FetchJob, is_denied, most_bytes

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..network.outbound import Part
    from ..partitions.fetch_session import FetchContext, PartitionKey
    from ..requests.bulk_lane import Permit
    from ..requests.services import Services


def long_fetch(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> Awaitable[list[Part]]:
    """The answer to the request in buffer[start:end], which is copied. RequestDeferred while another long one is read."""
    permit = services.long_requests.admit(connection, end - start)
    frame = bytes(memoryview(buffer)[start:end])
    task = services.loop.create_task(_read(services, frame, version, correlation_id, connection, permit))
    task.add_done_callback(permit.release)  # also where the client leaves before it has begun
    return task


async def _read(
    services: Services, frame: bytes, version: int, correlation_id: int, connection: Connection, permit: Permit
) -> list[Part]:
    try:
        request = parse_fetch(frame, 0, len(frame), version)  # 30 ms for the most there may be
    except ValueError as error:
        raise ConnectionAborted(f"malformed FETCH v{version}: {error}") from None
    client_id, max_wait, min_bytes, max_bytes, isolation, session_id, epoch, topics, forgotten = request
    asker = RequestContext(services, connection, ApiKey.FETCH, version, correlation_id, client_id)
    await asker.next_turn()
    parts = ((topic, part) for topic, partitions in topics for part in partitions)
    wanted: list[tuple[PartitionKey, FetchPartition]] = []
    for some in batches(parts, CHUNK_UNITS):
        wanted += [((topic, part[0]), FetchPartition(part[1], part[2], part[5])) for topic, part in some]
        await asker.next_turn()
    gone = [(topic, index) for topic, indexes in forgotten for index in indexes]
    context = services.fetch_sessions.resolve(session_id, epoch, wanted, gone, version >= 13)
    del request, topics, forgotten, parts, wanted, gone
    await asker.next_turn()
    return await fetch_in_turns(asker, context, isolation, max_bytes, max_wait, min_bytes, permit.release)


async def fetch_in_turns(
    asker: RequestContext,
    context: FetchContext,
    isolation: int,
    max_bytes: int,
    max_wait_ms: int,
    min_bytes: int,
    waits: Callable[[], object] = lambda: None,
) -> list[Part]:
    """The answer to a fetch of the partitions in `context`; `waits` is called when it begins to wait for data."""
    services, version = asker.services, asker.api_version
    denied: set[str | bytes] = set()
    if services.authorizer is not None:
        topics = dict.fromkeys(topic for topic, _ in context.partitions)
        for some in batches(topics, CHUNK_UNITS):
            denied.update(topic for topic in some if is_denied(asker, topic))
            await asker.next_turn()
    most = most_bytes(services, max_bytes, asker.client_id, asker.connection)
    min_bytes = min(min_bytes, most)
    if version < FIRST_OF_ALL_FORMATS:
        from .legacy_fetch import OldFetchJob

        old = OldFetchJob(services, context, version, asker.correlation_id, isolation, most, denied)
        return await old.answer_in_turns(max_wait_ms, min_bytes, asker, waits)
    job = FetchJob(services, context, version, asker.correlation_id, isolation, most, denied)
    return await job.run_in_turns(max_wait_ms, min_bytes, asker, waits)
