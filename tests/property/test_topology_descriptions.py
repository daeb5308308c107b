"""Random descriptions, pushed in any order with restarts, deletions and disks that refuse: a describe tells the last one that was
taken, and nothing after its group has gone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.streams_broker import streams_world
from support.topology_descriptions import random_description
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.streams_group_describe import DescriptionStatus
from tidelog.protocol.messages.streams_group_topology_description_update import TopologyDescription

FAILED = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED


@pytest.mark.parametrize("seed", range(12))
async def test_a_describe_tells_the_last_one_that_was_taken(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    told: dict[str, TopologyDescription] = {}
    async with streams_world(tmp_path) as world:
        store: Any = world.world.store
        connect = store._connect
        joined: set[str] = set()

        def refuse() -> Any:
            raise OSError("full")

        for _ in range(40):
            name, step = rng.choice("abc"), rng.random()
            if name not in joined:
                await world.join(group_id=name)
                joined.add(name)
            elif step < 0.1:
                await world.restart()
            elif step < 0.2:
                await world.beat(group_id=name, member_epoch=-1)
                deleted = world.groups.groups.delete_group(name)
                assert (deleted if isinstance(deleted, ErrorCode) else await deleted) is ErrorCode.NONE
                joined.discard(name)
                told.pop(name, None)
            else:
                fails = step < 0.35
                description = random_description(rng)
                store._connect = refuse if fails else connect
                answer = await world.push(description, group_id=name)
                store._connect = connect
                assert answer.error_code == (FAILED if fails else 0)
                if not fails:  # or the one before is still there
                    told[name] = description
            for found in await world.describe(*joined, topology=True):
                expected = told.get(found.group_id)
                available = DescriptionStatus.NOT_STORED if expected is None else DescriptionStatus.AVAILABLE
                assert (found.topology_description_status, found.topology_description) == (available, expected)
        assert set(told) <= set(world.world.store.read().descriptions) <= joined
