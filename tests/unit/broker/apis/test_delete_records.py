from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.logs import ROOT, World, append
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.delete_records import delete_records
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.schema import decode, encode
from tidelog.storage.exceptions import KafkaStorageError


@asynccontextmanager
async def world_with_records(directory: Path, machine: World) -> AsyncIterator[TopicWorld]:
    """A topic `t` with one partition that has ten records in five batches."""
    async with topic_world(directory, machine.start()) as world:
        await world.topics.create("t", 1, {})
        for _ in range(5):
            append(machine.log(), "a", "b")
        yield world
    machine.stop()


async def ask(
    world: TopicWorld, offset: int, topic: str = "t", partition: int = 0, version: int = 2
) -> tuple[int, int]:
    parts = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=parts)], timeout_ms=1)
    response = await delete_records(request, world.context(version))
    decoded, _ = decode(DeleteRecordsResponse, version, encode(response, version))
    ((row,),) = [answer.partitions for answer in decoded.topics]
    assert (decoded.topics[0].name, row.partition_index) == (topic, partition)
    return row.error_code, row.low_watermark


async def test_a_slow_directory_is_waited_for_in_its_thread(tmp_path: Path) -> None:
    """The log's lock may be its writer's for as long as the disk takes."""
    machine = World()
    async with world_with_records(tmp_path, machine) as world:
        partition = world.partitions.get("t", 0)
        assert partition is not None
        machine.manager.paces[0][1].note(1.0)
        assert await ask(world, 4) == (ErrorCode.NONE, 4)
        assert await ask(world, 11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert partition.offload.submitted == 2
        world.partitions.close()
        world.partitions.join_writers()


@pytest.mark.parametrize("version", range(3))
async def test_the_start_moves_up_and_never_back(tmp_path: Path, version: int) -> None:
    async with world_with_records(tmp_path, World()) as world:
        assert await ask(world, 3, version=version) == (ErrorCode.NONE, 3)
        assert await ask(world, 2, version=version) == (ErrorCode.NONE, 3)
        assert await ask(world, -1, version=version) == (ErrorCode.NONE, 10)


async def test_what_was_answered_holds_after_a_kill(tmp_path: Path) -> None:
    machine = World()
    async with world_with_records(tmp_path, machine) as world:
        await ask(world, 3)
        assert b"t 0 3" in machine.fake.read_bytes(f"{ROOT}/log-start-offset-checkpoint")


async def test_what_a_kill_would_bring_back_is_not_called_deleted(tmp_path: Path) -> None:
    """It was answered as done where the disk took nothing."""
    machine = World()
    async with world_with_records(tmp_path, machine) as world:
        machine.fake.fail_when(
            lambda step: OSError(28, "no space left on device") if "log-start-offset" in step.path else None
        )
        assert await ask(world, 3) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        machine.fake.heal()
        assert await ask(world, 3) == (ErrorCode.NONE, 3)
        assert b"t 0 3" in machine.fake.read_bytes(f"{ROOT}/log-start-offset-checkpoint")


async def test_a_start_that_no_file_takes_is_an_error_until_one_does(tmp_path: Path) -> None:
    """Who was told that records are gone must not see them again after a power cut."""
    machine = World()
    async with world_with_records(tmp_path, machine) as world:
        assert await ask(world, 2) == (ErrorCode.NONE, 2)
        machine.fake.fail_when(
            lambda step: OSError(errno.ENOSPC, "no room") if step.path.endswith("offset-checkpoint.tmp") else None
        )
        assert await ask(world, 3) == (ErrorCode.NONE, 3), "there is room for a note"
        machine.fake.fail_when(lambda step: OSError(errno.EIO, "a bad sector") if "-checkpoint" in step.path else None)
        assert await ask(world, 4) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        machine.fake.fail_when(lambda _: None)
        assert await ask(world, 4) == (ErrorCode.NONE, 4)
        for name, left in machine.fake.power_cut_states(seeds=10):
            assert World(left, damaged="").start().get("t", 0).log_start_offset == 4, name


@pytest.mark.parametrize("failing", ["/one", "/two"])
@pytest.mark.parametrize("what", ["-checkpoint", "log-start-offset", ""])
async def test_one_directory_that_fails_takes_no_answer_from_the_others(
    tmp_path: Path, failing: str, what: str
) -> None:
    machine = World(directories=("/one", "/two"))
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 6, {})
        homes: dict[int, str] = {}
        for index in range(6):
            log = machine.manager.get("t", index)
            assert log is not None
            append(log, "a", "b", "c")
            homes[index] = os.path.dirname(log.log_directory.path)
        assert set(homes.values()) == {"/one", "/two"}
        parts = [DeleteRecordsPartition(partition_index=index, offset=2) for index in homes]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=parts)], timeout_ms=1)

        async def codes() -> dict[int, tuple[int, int]]:
            (topic,) = (await delete_records(request, world.context(2))).topics
            return {row.partition_index: (row.error_code, row.low_watermark) for row in topic.partitions}

        machine.fake.fail_when(
            lambda step: OSError(errno.EIO, "gone") if step.path.startswith(failing) and what in step.path else None
        )
        expected = {
            index: (ErrorCode.KAFKA_STORAGE_ERROR, -1) if home == failing else (ErrorCode.NONE, 2)
            for index, home in homes.items()
        }
        assert await codes() == expected
        assert await codes() == expected, "asked again, it is no better"
        machine.fake.fail_when(None)
        assert await codes() == dict.fromkeys(homes, (ErrorCode.NONE, 2))
    machine.stop()


@pytest.mark.parametrize("failing", ["/one", "/two"])
async def test_logs_that_failed_take_no_answer_from_those_of_another_directory(tmp_path: Path, failing: str) -> None:
    machine = World(directories=("/one", "/two"))
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 6, {})
        machine.fake.fail_when(
            lambda step: OSError(errno.EIO, "gone") if step.path.startswith(failing) and step.kind == "sync" else None
        )
        expected = {}
        for index in range(6):
            log = machine.manager.get("t", index)
            assert log is not None
            append(log, "a", "b", "c")
            is_failing = log.log_directory.path.startswith(failing)
            if is_failing and index > 1:  # one goes on until it is synced
                with pytest.raises(KafkaStorageError):
                    log.flush()
                assert log.failure is not None
            expected[index] = (ErrorCode.KAFKA_STORAGE_ERROR, -1) if is_failing else (ErrorCode.NONE, 2)
        parts = [DeleteRecordsPartition(partition_index=index, offset=2) for index in expected]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=parts)], timeout_ms=1)
        (topic,) = (await delete_records(request, world.context(2))).topics
        assert {row.partition_index: (row.error_code, row.low_watermark) for row in topic.partitions} == expected
        machine.fake.fail_when(None)
    machine.stop()


@pytest.mark.parametrize(
    ("offset", "topic", "partition", "code"),
    [
        (11, "t", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, "t", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, "t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, "t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, "none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, "__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_what_cant_be_deleted_is_refused(
    tmp_path: Path, offset: int, topic: str, partition: int, code: ErrorCode
) -> None:
    async with world_with_records(tmp_path, World()) as world:
        assert await ask(world, offset, topic, partition) == (code, -1)
        assert await ask(world, 0) == (ErrorCode.NONE, 0)


async def test_a_log_that_is_only_compacted_keeps_its_records(tmp_path: Path) -> None:
    async with world_with_records(tmp_path, World()) as world:
        await world.topics.alter("t", lambda _: {"cleanup.policy": "compact"})
        assert await ask(world, 3) == (ErrorCode.POLICY_VIOLATION, -1)


async def test_who_waits_for_deleted_records_looks_again(tmp_path: Path) -> None:
    async with world_with_records(tmp_path, World()) as world:
        waiter = Mock()
        partition = world.partitions.get("t", 0)
        assert partition is not None
        partition.waiters.add(waiter)
        await ask(world, 3)
        await ask(world, 3)
        waiter.wake.assert_called_once()
