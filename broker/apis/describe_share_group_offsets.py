"""DescribeShareGroupOffsets, API key 90, versions 0 and 1: where share groups begin to read (KIP-932).

- 1 tells the lag: records that nobody of the group is done with (KIP-1226).
- Null topics: all that the group has state of; such a group is told once, however often it is named. A start offset of -1:
  nothing was delivered of the partition yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
    ResponseGroup,
    ResponsePartition,
    ResponseTopic,
)
from ..requests.access import requires_each, shows
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, ChunkedResult, Steps, batches, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType
from .share_group_heartbeat import check_enabled

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..share.groups import ShareGroups


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
    told: set[str] = set()
    for group in request.groups:
        yield 1
        if group.topics is None:
            if group.group_id in told:  # a request may have thousands of names, and a group as many partitions
                continue
            told.add(group.group_id)
        groups.append((yield from _describe(group, context)))
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _describe(group: RequestGroup, context: RequestContext) -> Steps[ResponseGroup]:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return ResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics: list[ResponseTopic] = []
    try:
        check_enabled(context.services)
        shares = context.services.share.get().groups
        wanted: Iterable[tuple[str, Sequence[int]]] = shares.topics_of(group.group_id)
        if group.topics is not None:
            wanted = ((topic.topic_name, topic.partitions) for topic in group.topics)
        for some in batches(wanted, SLICE_UNITS):
            yield len(some)
            names = (name for name, _ in some)
            shown = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names, quietly=group.topics is None)
            for name, partitions in some:
                if name in shown:
                    topics.append((yield from _offsets(shares, group.group_id, name, partitions)))
                elif group.topics is not None:
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    topics.append(ResponseTopic(topic_name=name, partitions=_failed(partitions, code)))
    except ProtocolError as error:
        return ResponseGroup(group_id=group.group_id, error_code=error.code, error_message=error.message)
    return ResponseGroup(group_id=group.group_id, topics=topics)


def _offsets(shares: ShareGroups, group_id: str, name: str, partitions: Sequence[int]) -> Steps[ResponseTopic]:
    result = ResponseTopic(topic_name=name)
    rows: list[ResponsePartition] = []
    for some in batches(partitions, SLICE_UNITS) if partitions else ([],):
        yield len(some)
        topic, offsets = shares.offsets(group_id, name, some)
        if topic is None:
            rows += _failed(some, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        result.topic_id = topic.topic_id.bytes
        rows += [
            ResponsePartition(
                partition_index=index, start_offset=at.start_offset, leader_epoch=at.leader_epoch, lag=at.lag
            )
            for index, at in offsets.items()
        ]
    result.partitions = rows
    return result


def _failed(partitions: Iterable[int], code: ErrorCode) -> list[ResponsePartition]:
    return [
        ResponsePartition(partition_index=index, start_offset=-1, error_code=code, error_message=code.text)
        for index in partitions
    ]
