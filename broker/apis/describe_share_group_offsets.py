"""DescribeShareGroupOffsets, API key 90, versions 0 and 1: where share groups begin to read (KIP-932).

- 1 tells the lag: records that nobody of the group is done with (KIP-1226).
- Null topics: all that the group has state of. A start offset of -1: nothing was delivered of the partition yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
    RequestTopic,
    ResponseGroup,
    ResponsePartition,
    ResponseTopic,
)
from ..requests.access import requires_each, shows
from ..requests.context import EVERY_NAME
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType
from .share_group_heartbeat import check_enabled

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    (0, 1),
    DescribeShareGroupOffsetsRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC),
        shows(AclOperation.DESCRIBE, ResourceType.TOPIC, "where all are asked for"),
    ),
    many_names=True,
)
def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse | ChunkedResult[DescribeShareGroupOffsetsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> Steps[DescribeShareGroupOffsetsResponse]:
    groups = []
    for group in request.groups:
        groups.append(described := _describe(group, context))
        yield 1 + sum(1 + len(topic.partitions) for topic in described.topics)
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _describe(group: RequestGroup, context: RequestContext) -> ResponseGroup:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return ResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    shown = EVERY_NAME
    if group.topics is not None:
        shown = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.topic_name for topic in group.topics))
    wanted = (
        None
        if group.topics is None
        else [(topic.topic_name, topic.partitions) for topic in group.topics if topic.topic_name in shown]
    )
    try:
        check_enabled(context.services)
        rows = context.services.share.get().groups.offsets(group.group_id, wanted)
    except ProtocolError as error:
        return ResponseGroup(group_id=group.group_id, error_code=error.code, error_message=error.message)
    asked = dict(wanted or ())
    if wanted is None:
        names = [name for name, _, _ in rows]
        shown = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names, quietly=True)
        rows = [row for row in rows if row[0] in shown]
    topics = [_refused(topic) for topic in group.topics or () if topic.topic_name not in shown]
    for name, topic, offsets in rows:
        if topic is None:
            code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text
            partitions = [
                ResponsePartition(partition_index=index, start_offset=-1, error_code=code, error_message=message)
                for index in asked[name]
            ]
            topics.append(ResponseTopic(topic_name=name, partitions=partitions))
            continue
        partitions = [
            ResponsePartition(
                partition_index=index, start_offset=at.start_offset, leader_epoch=at.leader_epoch, lag=at.lag
            )
            for index, at in offsets.items()
        ]
        topics.append(ResponseTopic(topic_name=name, topic_id=topic.topic_id.bytes, partitions=partitions))
    return ResponseGroup(group_id=group.group_id, topics=topics)


def _refused(topic: RequestTopic) -> ResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartition(partition_index=index, start_offset=-1, error_code=code, error_message=code.text)
            for index in topic.partitions
        ],
    )
