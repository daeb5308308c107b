"""DescribeShareGroupOffsets: what is told, how often, and in turns with others."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from tidelog.broker.apis.describe_share_group_offsets import describe_share_group_offsets
from tidelog.broker.runtime.cooperative import ChunkedResult
from tidelog.broker.share.groups import SharePartitionOffset
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    RequestGroup,
    RequestTopic,
    ResponseGroup,
)

ID = uuid.UUID(int=7)


class Context:
    """One group `g`, which has read both partitions of `t`; topic `secret` may not be seen."""

    def __init__(self) -> None:
        self.turns = 0
        self.looks = 0
        groups = SimpleNamespace(topics_of=lambda group_id: [("t", [0, 1])], offsets=self._offsets)
        features = SimpleNamespace(level=lambda feature: 1)
        share = SimpleNamespace(get=lambda: SimpleNamespace(groups=groups))
        self.services = SimpleNamespace(share=share, features=features)

    def _offsets(self, group_id: str, name: str, partitions: list[int]) -> Any:
        self.looks += len(partitions)
        if name != "t":
            return None, {}
        return SimpleNamespace(topic_id=ID), {index: SharePartitionOffset(index * 10, 1, 2) for index in partitions}

    def allows(self, *_: object, **__: object) -> bool:
        return True

    def allowed(self, operation: object, kind: object, names: Any, *, quietly: bool = False) -> set[str]:
        return {name for name in names if name != "secret"}

    async def next_turn(self) -> None:
        self.turns += 1

    async def ask(self, *groups: RequestGroup) -> list[ResponseGroup]:
        context: Any = self
        found = describe_share_group_offsets(DescribeShareGroupOffsetsRequest(groups=list(groups)), context)
        return list((await found if isinstance(found, ChunkedResult) else found).groups)


async def test_offsets_of_what_is_named_and_of_all() -> None:
    named = [RequestTopic(topic_name=name, partitions=[1]) for name in ("secret", "t", "none")]
    one, whole = await Context().ask(RequestGroup(group_id="g", topics=named), RequestGroup(group_id="g", topics=None))
    secret, t, none = one.topics
    assert [row.error_code for row in (*secret.partitions, *t.partitions, *none.partitions)] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert (t.topic_id, t.partitions[0].start_offset, t.partitions[0].lag) == (ID.bytes, 10, 2)
    assert [[row.partition_index for row in topic.partitions] for topic in whole.topics] == [[0, 1]]


async def test_a_group_of_which_all_is_asked_over_and_over_is_told_once() -> None:
    context = Context()
    (only,) = await context.ask(*(RequestGroup(group_id="g", topics=None) for _ in range(1000)))
    assert (only.group_id, context.looks) == ("g", 2)


async def test_very_many_partitions_are_looked_up_in_turns() -> None:
    """One group's were looked up in one go, and a request may name 10,000."""
    context = Context()
    named = [RequestTopic(topic_name=name, partitions=list(range(5000))) for name in ("t", "none")]
    (only,) = await context.ask(RequestGroup(group_id="g", topics=named))
    assert [len(topic.partitions) for topic in only.topics] == [5000, 5000]
    assert context.turns >= 90
