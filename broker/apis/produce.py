"""Produce, API key 0, versions 0 to 13.

- 0 to 2 carry message sets of formats 0 and 1, whichever of the two (pykafka puts format 1 into version 0); a batch of
  format 2 is taken there too, as in Kafka. 1 tells a throttle time, 2 the log append time. Converting a set takes long:
  see `conversion_thread.py`, as for a batch that goes to a topic of format 0 or 1. Kafka 4 lists these versions without
  answering them, since librdkafka compresses nothing when the list begins later (KAFKA-18659); here they are answered.
- 3 is the first with message format 2 alone, one batch a partition. 5 adds the log start offset to the answer, 7 allows
  zstd, 8 adds record errors, 9 is flexible, 12 belongs to transactions of version 2, 13 names topics by id (KIP-516).
- acks 1 and all are the same on one node: the answer is sent when the batch is in the log and, where `flush.messages`
  asks for it, on the disk. acks 0 has no answer; an error then closes the connection, as in Kafka, so that the client
  notices.
- A batch is appended from the buffer that it was received in; offsets are patched in place. While its log directory is
  slow (`append_offload.py`) a copy is appended in a thread, and the connection waits for that, with acks 0 too, however long:
  the request's timeout is for replicas, and not looked at.
- A request of very many partitions is gone through in chunks: see `long_produce`.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ManyElements
from ...protocol.messages._hot import parse_produce
from ...protocol.messages.produce import ProduceRequest
from ..produce_fetch.produce_job import FIRST_WITH_IDS, UNKNOWN, Denied, ProduceJob, ProduceReply, denied_topics
from ..requests.access import requires_each, requires_request
from ..requests.context import RequestContext
from ..requests.registry import api
from ..runtime.cooperative import MANY_ELEMENTS
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..produce_fetch.produce_admission import Admission
    from ..requests.services import Services


@api(
    ApiKey.PRODUCE,
    (0, 13),
    ProduceRequest,
    requires=(
        requires_request(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "where the request names one"),
        requires_each(AclOperation.WRITE, ResourceType.TOPIC),
    ),
    raw=True,
)
def produce(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> ProduceReply:
    try:
        request = parse_produce(buffer, start, end, version, MANY_ELEMENTS)
    except ManyElements:
        from ..produce_fetch.produce_job import long_produce

        return long_produce(services, buffer, start, end, version, correlation_id, connection)
    client_id, transactional_id, acks, _timeout, topics = request
    ids: list[bytes] | None = None
    if version >= FIRST_WITH_IDS:
        ids = [topic_id for topic_id, _ in topics]
        topics = [(services.partitions.name_of(topic_id) or UNKNOWN, partitions) for topic_id, partitions in topics]
    denied: Denied = None
    if services.authorizer is not None:
        context = RequestContext(services, connection, ApiKey.PRODUCE, version, correlation_id, client_id)
        denied = denied_topics(context, transactional_id, topics)
    job = ProduceJob(
        services.partitions,
        services.counters,
        version,
        correlation_id,
        client_id,
        acks,
        connection.client,
        connection.last_active,
    )
    if transactional_id is None:
        job.append(buffer, topics, ids, denied, None)
        return job.answer()
    from ..produce_fetch.produce_admission import admit, check_again

    job.check_again = partial(check_again, services, version, transactional_id)
    # Partitions that may not be written are not added to the transaction either.
    open_topics = topics if denied is None else [topic for topic in topics if topic[0] not in denied]
    admission = admit(services, buffer, open_topics, version, transactional_id)
    if admission.wait is None:
        job.append(buffer, topics, ids, denied, admission.refused)
        return job.answer()
    # The buffer is used again after the return: a copy waits.
    with memoryview(buffer) as view:
        kept = bytearray(view[start:end])
    moved = [
        (
            name,
            [(index, first - start, last - start) if first >= 0 else (index, first, last) for index, first, last in of],
        )
        for name, of in topics
    ]
    return _when_admitted(job, admission, kept, moved, ids, denied)


async def _when_admitted(
    job: ProduceJob, admission: Admission, buffer: bytearray, topics: Any, ids: list[bytes] | None, denied: Denied
) -> bytes | None:
    """Appends when the coordinator's log durably has it that the transaction writes there."""
    assert admission.wait is not None
    try:
        await asyncio.shield(admission.wait)
    except Exception as error:
        admission.refused.update(dict.fromkeys(admission.added, error_code(error)))
    if ids is not None:
        topics = job.still_named(topics, ids)
    job.since = perf_counter_ns()
    job.append(buffer, topics, ids, denied, admission.refused)
    done = job.answer()
    return await done if inspect.isawaitable(done) else done
