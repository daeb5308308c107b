"""What a log is opened with: its directory's small files, and what checkpoints say."""

from __future__ import annotations

import logging

import pytest
from support.logs import ROOT, World, append
from tidelog.storage.log.opener import LastStop

PATH = f"{ROOT}/t-0"


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    append(world.log(), "a", "b", "c")
    return world


def test_a_log_is_what_it_was_after_a_clean_stop(world: World) -> None:
    before = world.log()
    world.start()
    after = world.log()
    assert (after.topic_id, after.log_end_offset, after.recovery_point) == (before.topic_id, 3, 3)
    assert after.leader_epoch == before.leader_epoch + 1


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
@pytest.mark.damaged("small files are damaged")
def test_a_damaged_small_file_is_said_and_the_log_is_opened_without_it(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.stop()
    world.file_system.write_atomically(f"{PATH}/{name}", b"\xff?")
    with caplog.at_level(logging.WARNING):
        log = world.start().get("t", 0)
    assert log is not None
    assert log.log_end_offset == 3
    assert log.topic_id is None if name == "partition.metadata" else log.topic_id is not None
    assert [record.message for record in caplog.records if name in record.message]


def test_records_above_the_recovery_point_are_durable_before_anybody_reads_them(world: World) -> None:
    world.kill()
    log = world.start(flush_messages=1).get("t", 0)
    assert log is not None
    assert (log.recovery_point, log.high_watermark) == (3, 3)


def test_of_a_log_that_is_made_now_nothing_was_left() -> None:
    assert LastStop() == (True, 0, 0, 0, None, False, None)
