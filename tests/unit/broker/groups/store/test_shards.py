"""Groups in their partitions: which ids are refused."""

from __future__ import annotations

import asyncio

import pytest
from support.groups import MemoryCoordinatorLog, make_runtime
from support.mock_time import MockTime
from tidelog.broker.coordinator.runtime import partition_for
from tidelog.broker.groups.store.shards import Shard, Shards
from tidelog.protocol.errors import ErrorCode, ProtocolError


def code_of(shards, group_id, **options):
    with pytest.raises(ProtocolError) as caught:
        shards.find(group_id, **options)
    return caught.value.code


def test_finding_a_shard():
    loop = asyncio.new_event_loop()
    log = MemoryCoordinatorLog(loop, exists=False)
    runtime = make_runtime(log, Shard, MockTime())
    shards = Shards(runtime)
    assert code_of(shards, "g") is ErrorCode.NOT_COORDINATOR
    log.exists = True
    runtime.open()
    assert code_of(shards, "g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(shards, "") is ErrorCode.INVALID_GROUP_ID
    for shard in shards:
        shard.loaded = True
    assert shards.find("g").index == partition_for("g", 4)
    assert shards.find("", allow_empty_id=True).index == 0
    runtime.close()
    loop.close()
    assert code_of(shards, "g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
