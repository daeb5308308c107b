"""Groups in their partitions: which ids are refused."""

from __future__ import annotations

import pytest
from support.groups import Groups
from tidelog.broker.coordinator.runtime import partition_for
from tidelog.protocol.errors import ErrorCode, ProtocolError


def code_of(shards, group_id, **options):
    with pytest.raises(ProtocolError) as caught:
        shards.find(group_id, **options)
    return caught.value.code


def test_finding_a_shard():
    harness = Groups(exists=False)
    shards, runtime = harness.groups._shards, harness.groups._runtime
    assert code_of(shards, "g") is ErrorCode.NOT_COORDINATOR
    harness.log.exists = True
    runtime.open()
    assert code_of(shards, "g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(shards, "") is ErrorCode.INVALID_GROUP_ID
    for shard in shards:
        shard.loaded = True
    assert shards.find("g").index == partition_for("g", 4)
    assert shards.find("", allow_empty_id=True).index == 0
    harness.close()
    assert code_of(shards, "g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
