"""ShareFetch, API key 78, versions 1 and 2: a member of a share group gets records, and says what became of others.

- 2 knows acknowledgements that renew (KIP-1222): a request with `is_renew_ack` fetches nothing. It has an acquire mode
  (KIP-1206): 0 gives whole log batches, 1 no more than `max_records`.
- A session is opened with epoch 0 and closed with -1; in between only what changes is named and answered. When all sessions
  are taken, the answer waits `max_wait_ms`, so that a client that comes again at once does not burn either side.
- Very many partitions are read beside the loop, and gone through in parts, between which others have their turn.
- The answer holds the batches that have the records that were acquired; `acquired_records` says which of them those are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.headers import parse_request_header
from ...protocol.messages.share_fetch import ShareFetchRequest
from ...protocol.schema import decode
from ..metadata.features import SHARE_VERSION
from ..requests.access import requires_each, requires_request
from ..requests.bulk_lane import LONG_BYTES
from ..requests.context import RequestContext
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, ChunkedResult, Turns, batches, run_at_once, run_in_chunks
from ..runtime.error_codes import error_code
from ..runtime.exceptions import ConnectionAborted
from ..security.acl.model import AclOperation, ResourceType
from ..share.acknowledgements import RENEW_FROM, Refused, check_member
from ..share.fetch import ShareFetchJob, forget_names, release_rows
from ..share.fetch_response import share_fetch_steps

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..network.outbound import Part
    from ..requests.bulk_lane import Permit
    from ..requests.services import Services


@api(
    ApiKey.SHARE_FETCH,
    (1, 2),
    ShareFetchRequest,
    requires=(
        requires_request(AclOperation.READ, ResourceType.GROUP, "of the request"),
        requires_each(AclOperation.READ, ResourceType.TOPIC, "each in the request or its session"),
    ),
    raw=True,
)
def share_fetch(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> Awaitable[list[Part]]:
    size = end - start
    if size > LONG_BYTES:
        with services.long_requests.admit(connection, size) as permit:
            frame = bytes(memoryview(buffer)[start:end])
            task = services.loop.create_task(_long(services, frame, version, correlation_id, connection, permit))
            task.add_done_callback(permit.release)  # also where the client leaves before it has begun
        return task
    client_id, request = _read(
        bytes(memoryview(buffer)[start:end]), version
    )  # the buffer is used again while this waits
    return _answer(services, request, version, correlation_id, client_id, connection)


def _read(frame: bytes, version: int) -> tuple[str | None, ShareFetchRequest]:
    """The client's id and the request. Any thread."""
    try:
        header, body = parse_request_header(frame)
        request, _ = decode(ShareFetchRequest, version, frame, body)
    except ProtocolError as error:
        raise ConnectionAborted(f"malformed SHARE_FETCH v{version}: {error}") from None
    return header.client_id, request


async def _long(
    services: Services, frame: bytes, version: int, correlation_id: int, connection: Connection, permit: Permit
) -> list[Part]:
    """`_answer`, for a request with very many partitions: read beside the loop and in work one at a time. The answer may wait for
    records, and others are in work meanwhile."""
    client_id, request = await services.long_requests.aside(partial(_read, frame, version))
    del frame
    return await _answer(services, request, version, correlation_id, client_id, connection, permit.release)


async def _answer(
    services: Services,
    request: ShareFetchRequest,
    version: int,
    correlation_id: int,
    client_id: str | None,
    connection: Connection,
    waits: Callable[[], object] = lambda: None,
) -> list[Part]:
    """The answer. `waits` is called before it waits for anything but its turn."""
    context = RequestContext(services, connection, ApiKey.SHARE_FETCH, version, correlation_id, client_id)
    if request.group_id is not None and not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return _failed(services, version, correlation_id, code, code.text)
    readable = cache(lambda name: context.allows(AclOperation.READ, ResourceType.TOPIC, name))
    try:
        if services.features.level(SHARE_VERSION) < 1:
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "share.version is 0")
        key = check_member(request.group_id, request.member_id)
        if version >= RENEW_FROM and request.is_renew_ack:
            _check_renewal(request)
        most = min(request.max_bytes, services.fetch_max_bytes)
        if services.quotas.active:
            most = min(most, services.quotas.most_fetched(client_id, connection.user))
        job = ShareFetchJob(services.share.get(), key, request, version, most, readable)
        turns = Turns(context)
        try:
            topics = await job.run(connection, turns, waits)
        finally:
            services.counters.fetched_bytes += job.fetched_bytes
    except Refused as error:
        return _failed(services, version, correlation_id, ErrorCode.INVALID_REQUEST, str(error))
    except Exception as error:
        code, message = error_code(error)
        if code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            forget_names(request)
            error.__traceback__ = None  # its frames have them too
            waits()
            await services.purgatory.wait((), request.max_wait_ms, lambda last: True if last else None)
        return _failed(services, version, correlation_id, code, message)
    lock_ms = services.share.get().settings.limits(key.group).lock_ms
    try:
        for rows in topics.values():
            for some in batches(rows, SLICE_UNITS):
                if turns.spent(len(some)):
                    await turns.next()
                for row in some:
                    for code in {row.error, row.acknowledge_error} - {ErrorCode.NONE}:
                        services.counters.errors[ApiKey.SHARE_FETCH, code] += 1
        written = share_fetch_steps(version, correlation_id, ErrorCode.NONE, None, lock_ms, topics)
        frame = run_in_chunks(written, context)
        return await frame if isinstance(frame, ChunkedResult) else frame
    except BaseException:
        for rows in topics.values():
            release_rows(rows)
        raise


def _failed(services: Services, version: int, correlation_id: int, code: ErrorCode, message: str) -> list[Part]:
    services.counters.errors[ApiKey.SHARE_FETCH, code] += 1
    return run_at_once(share_fetch_steps(version, correlation_id, code, message, 0, {}))


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raise Refused for a renewal that asks for records too."""
    fields = {
        "max_bytes": request.max_bytes,
        "min_bytes": request.min_bytes,
        "max_records": request.max_records,
        "max_wait_ms": request.max_wait_ms,
    }
    if wrong := [name for name, value in fields.items() if value]:
        raise Refused(f"a request that renews fetches nothing: {', '.join(wrong)} must be 0")
