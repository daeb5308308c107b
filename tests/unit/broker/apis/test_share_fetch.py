"""ShareFetch before it looks at partitions: how much one answer may have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.topic_world import topic_world
from tidelog.broker.apis import share_fetch
from tidelog.broker.quotas.quota import CLIENT_ID, CONSUMER_BYTE_RATE, USER
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.share_fetch import ShareFetchRequest


@pytest.mark.parametrize("user", ["alice", "bob"])
async def test_an_answer_has_no_more_than_the_quota_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    """A quota of a user was looked up for nobody: one answer could exceed what it allows for all windows."""
    asked: list[int] = []

    class Job:
        fetched_bytes = 0

        def __init__(self, share: object, key: object, request: object, version: int, most: int, *_: object) -> None:
            asked.append(most)

        async def run(self, *_: object) -> Any:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "as far as this test goes")

    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(USER, "alice")], {CONSUMER_BYTE_RATE: 100.0}, False)
        await world.quotas.alter([(CLIENT_ID, "c")], {CONSUMER_BYTE_RATE: 1000.0}, False)
        services: Any = SimpleNamespace(
            authorizer=None,
            features=SimpleNamespace(level=lambda _: 1),
            fetch_max_bytes=1 << 20,
            quotas=world.quotas,
            share=SimpleNamespace(get=lambda: None),
            counters=SimpleNamespace(fetched_bytes=0, errors=Counter()),
        )
        connection: Any = SimpleNamespace(user=user)
        monkeypatch.setattr(share_fetch, "ShareFetchJob", Job)
        request = ShareFetchRequest(group_id="g", member_id="m", max_bytes=1 << 20)
        await share_fetch._answer(services, request, 1, 7, "c", connection)
        assert asked == [1_100 if user == "alice" else 11_000]
