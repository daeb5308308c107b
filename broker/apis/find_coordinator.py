"""FindCoordinator, API key 10, versions 0 to 6: which node looks after a group. There is one node, so it does.

- 1 has key types, 4 asks for many keys at once (KIP-699), 6 knows share partitions (KIP-932).
- The first look-up for a group makes `__consumer_offsets`, that for a transactional id `__transaction_state`, that
  for a share partition (GROUP:TOPIC-ID:PARTITION) `__share_group_state`; the answer waits for it, where Kafka answers
  COORDINATOR_NOT_AVAILABLE and has the client come again. A request without keys makes none.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..metadata.features import SHARE_VERSION
from ..requests.access import DENIED, requires_each, requires_request
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, batches
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..groups.coordinator import GroupCoordinator
    from ..requests.context import RequestContext
    from ..share.coordinator import ShareCoordinator
    from ..transactions.coordinator import TransactionCoordinator

GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_FROM = 6
_FIRST_WITH_KEYS = 4
_GUARDS = {
    GROUP: ResourceType.GROUP,
    TRANSACTION: ResourceType.TRANSACTIONAL_ID,
    SHARE: ResourceType.CLUSTER,
}
NO_SHARE_KEY = "the key is not GROUP:TOPIC-ID:PARTITION"
NO_SHARE_GROUPS = "share groups are for version 6 and later, and where share.version is not 0"


@api(
    ApiKey.FIND_COORDINATOR,
    (0, 6),
    FindCoordinatorRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP, "each key of that type"),
        requires_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "each key of that type"),
        requires_request(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "for keys of share groups"),
    ),
    many_names=True,
)
def find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if len(request.coordinator_keys) > SLICE_UNITS:
        return _in_pieces(request, context)
    guard = _GUARDS.get(request.key_type)
    if context.services.authorizer is None or guard is None:
        return _find(request, context)
    if guard is ResourceType.CLUSTER:
        if context.allows(AclOperation.CLUSTER_ACTION, guard, CLUSTER_NAME):
            return _find(request, context)
        return _answer(request, context, DENIED[guard], None)
    keys = request.coordinator_keys if context.api_version >= _FIRST_WITH_KEYS else [request.key]
    allowed = context.allowed(AclOperation.DESCRIBE, guard, keys)
    denied = [key for key in keys if key not in allowed]
    if not denied:
        return _find(request, context)
    if len(denied) == len(keys):
        return _answer(request, context, DENIED[guard], None)
    return _mixed(request, context, denied, DENIED[guard])


async def _in_pieces(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Find several coordinators in chunks, so that others get their turn: each key is a question to the authorizer."""
    found: list[Coordinator] = []
    for keys in batches(request.coordinator_keys, SLICE_UNITS):
        if found:
            await context.next_turn()
        answer = find_coordinator(FindCoordinatorRequest(key_type=request.key_type, coordinator_keys=keys), context)
        found += (answer if isinstance(answer, FindCoordinatorResponse) else await answer).coordinators
    return FindCoordinatorResponse(coordinators=found)


async def _mixed(
    request: FindCoordinatorRequest, context: RequestContext, denied: list[str], code: ErrorCode
) -> FindCoordinatorResponse:
    """The answer for some keys, and `code` for the others."""
    refusable = frozenset(denied)
    rest = FindCoordinatorRequest(
        key_type=request.key_type, coordinator_keys=[key for key in request.coordinator_keys if key not in refusable]
    )
    found = _find(rest, context)
    answer = found if isinstance(found, FindCoordinatorResponse) else await found
    refused = [Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in denied]
    answer.coordinators = [*answer.coordinators, *refused]
    return answer


def _find(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Look up coordinators for the keys that the client may use. A request without keys creates no coordinator."""
    services = context.services
    if context.api_version >= _FIRST_WITH_KEYS and not request.coordinator_keys:
        return _answer(request, context, ErrorCode.NONE, None)
    if request.key_type == GROUP and not services.groups.is_open:
        return _make_topic(services.groups, request, context)
    if (
        _is_for_share_groups(request, context)
        and not services.share.get().coordinator.is_open
        and any(map(_is_share_key, request.coordinator_keys))
    ):
        return _make_topic(services.share.get().coordinator, request, context)
    if request.key_type == TRANSACTION and not services.transactions.get().is_open:
        return _make_topic(services.transactions.get(), request, context)
    return _answer(request, context, ErrorCode.NONE, None)


async def _make_topic(
    coordinator: GroupCoordinator | TransactionCoordinator | ShareCoordinator,
    request: FindCoordinatorRequest,
    context: RequestContext,
) -> FindCoordinatorResponse:
    try:
        await coordinator.ensure_topic()
    except Exception as error:
        return _answer(request, context, ErrorCode.COORDINATOR_NOT_AVAILABLE, error_code(error)[1])
    return _answer(request, context, ErrorCode.NONE, None)


def _answer(
    request: FindCoordinatorRequest, context: RequestContext, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    if request.key_type == SHARE and not _is_for_share_groups(request, context):
        code, message = ErrorCode.INVALID_REQUEST, NO_SHARE_GROUPS
    elif request.key_type not in (GROUP, TRANSACTION, SHARE):
        code, message = ErrorCode.INVALID_REQUEST, f"there is no key type {request.key_type}"
    found = code is ErrorCode.NONE
    node_id = context.services.logs.node_id if found else -1
    host, port = context.local_address if found else ("", -1)
    if context.api_version >= _FIRST_WITH_KEYS:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message)
                if request.key_type != SHARE or not found or _is_share_key(key)
                else Coordinator(
                    key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=NO_SHARE_KEY
                )
                for key in request.coordinator_keys
            ]
        )
    return FindCoordinatorResponse(error_code=code, error_message=message, node_id=node_id, host=host, port=port)


def _is_for_share_groups(request: FindCoordinatorRequest, context: RequestContext) -> bool:
    if request.key_type != SHARE or context.api_version < SHARE_FROM:
        return False
    return context.services.features.level(SHARE_VERSION) > 0


def _is_share_key(key: str) -> bool:
    from ..share.records import is_coordinator_key

    return is_coordinator_key(key)
