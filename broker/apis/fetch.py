"""Fetch, API key 1, versions 0 to 18.

- 0 to 3 are for clients that know formats 0 and 1 only: see `legacy_fetch.py`. 1 tells how long a client was throttled, 3
  limits the whole answer.
- 4 is the first with message format V2 and isolation levels; 5 tells log start offsets; 7 brings sessions (KIP-227);
  9 fences by leader epoch; 10 allows zstd; 11 has rack ids; 12 is flexible; 13 names topics by id; 15 to 18 changed
  what only replicas send.
- From 4 on batches go as they stand in the log, messages of formats 0 and 1 too: every such client reads them. Before
  version 10, a topic with `compression.type=zstd` is refused, as in Kafka.
- The answer is a header and slices of segment files, sent with `sendfile`. The whole batch that contains the offset is
  returned, and never nothing when there is data: the first partition that has any gives at least one batch, whatever
  the limits are (KIP-74).
- A reader of committed data gets nothing from the last stable offset on, and is told which transactions in the answer
  were aborted, that it may leave their records out itself.
- Fewer than `min_bytes` bytes: the request waits in the purgatory, up to `max_wait_ms`. An error is answered at once, and so is a
  reader who is behind: an answer ends with its segment, and nothing that is still to come would make it longer. More than the
  answer may hold is not waited for either.
- Reads that could touch the disk are made by the I/O pool; see `storage` for what is known to be in memory.
- Very many partitions, in the request or in its session, are gone through in chunks: see `long_fetch`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ManyElements
from ...protocol.messages._hot import parse_fetch
from ...protocol.messages.fetch import FetchRequest
from ..partitions.fetch_session import FetchPartition
from ..produce_fetch.fetch_job import FIRST_OF_ALL_FORMATS, FetchJob, denied_topics, most_bytes
from ..requests.access import requires_each
from ..requests.context import RequestContext
from ..requests.registry import api
from ..runtime.cooperative import CHUNK_UNITS, MANY_ELEMENTS
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..network.outbound import Part
    from ..requests.services import Services


@api(
    ApiKey.FETCH,
    (0, 18),
    FetchRequest,
    requires=(requires_each(AclOperation.READ, ResourceType.TOPIC, "each in the request or its session"),),
    raw=True,
)
def fetch(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> list[Part] | Awaitable[list[Part]]:
    try:
        request = parse_fetch(buffer, start, end, version, MANY_ELEMENTS)
    except ManyElements:
        from ..produce_fetch.fetch_job import long_fetch

        return long_fetch(services, buffer, start, end, version, correlation_id, connection)
    client_id, max_wait, min_bytes, max_bytes, isolation, session_id, epoch, topics, forgotten = request
    context = services.fetch_sessions.resolve(
        session_id,
        epoch,
        [
            ((topic, part[0]), FetchPartition(part[1], part[2], part[5]))
            for topic, partitions in topics
            for part in partitions
        ],
        [(topic, index) for topic, indexes in forgotten for index in indexes],
        version >= 13,
    )
    if len(context.partitions) > CHUNK_UNITS:  # of a session, most of them
        from ..produce_fetch.fetch_job import fetch_in_chunks

        asker = RequestContext(services, connection, ApiKey.FETCH, version, correlation_id, client_id)
        return fetch_in_chunks(asker, context, isolation, max_bytes, max_wait, min_bytes)
    denied: Container[str | bytes] = ()
    if services.authorizer is not None:
        asker = RequestContext(services, connection, ApiKey.FETCH, version, correlation_id, client_id)
        denied = denied_topics(asker, context.partitions)
    most = most_bytes(services, max_bytes, client_id, connection)
    min_bytes = min(min_bytes, most)
    if version < FIRST_OF_ALL_FORMATS:
        from ..produce_fetch.legacy_fetch import OldFetchJob

        old = OldFetchJob(services, context, version, correlation_id, isolation, most, denied)
        return old.answer(max_wait, min_bytes, connection.client)
    return FetchJob(services, context, version, correlation_id, isolation, most, denied).run(max_wait, min_bytes)
