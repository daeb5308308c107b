"""StreamsGroupTopologyDescriptionUpdate, API key 93, version 0: a member describes its application's topology (KIP-1331).

- UNSUPPORTED_VERSION as for heartbeats, and while group.streams.topology.descriptions.max.bytes is 0, in the words of a Kafka
  without a plug-in.
- A description that there is no room for is STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, and not asked for again; one that the
  disk refused is that too, and asked for later.
- An answer waits for the disk. The description is stored also where its client has gone meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ..groups.streams.description_push import DescriptionPush, streams_group
from ..groups.streams.descriptions import check_description, packed
from ..requests.access import requires_field
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType
from .streams_group_heartbeat import check_streams_enabled

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services


@api(
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    (0, 0),
    StreamsGroupTopologyDescriptionUpdateRequest,
    requires=(requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),),
    many_names=True,
    is_slow_change=True,
)
async def streams_group_topology_description_update(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    services = context.services
    try:
        check_streams_enabled(services)
        _check(request, services)
        # Some hundred thousand names at most, which the loop does not wait for.
        description = await services.long_changes.aside(partial(packed, request.topology_description))
        push = DescriptionPush(request.group_id, request.member_id, request.topology_epoch, description)
        await services.groups.keep_description(push)
    except ProtocolError as error:
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error.code, error_message=error.message)
    return StreamsGroupTopologyDescriptionUpdateResponse()


def _check(request: StreamsGroupTopologyDescriptionUpdateRequest, services: Services) -> None:
    """Raises ProtocolError for what Kafka looks at before the description itself, in its order."""
    descriptions = services.groups.descriptions
    if descriptions is None or not descriptions.is_enabled:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_VERSION, "The broker has no streams group topology description plugin configured."
        )
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not value.strip():
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    group = streams_group(services.groups.heartbeat_groups.read(request.group_id), request.group_id)
    check_description(group, request.member_id, request.topology_epoch)
