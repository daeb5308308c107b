"""What a stop leaves behind when the start did not come to its end."""

from __future__ import annotations

import pytest
from support.logs import ROOT, World, append
from tidelog.config.log_config import LogConfig
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.log_manager import LogManager

CLEAN_MARK = f"{ROOT}/.kafka_cleanshutdown"


def crashed() -> tuple[World, dict[str, bytes]]:
    """A world after `kill -9`, and its checkpoints."""
    world = World()
    world.start()
    append(world.log(), "a", "b")
    world.log().flush()
    append(world.log(), "c")
    world.manager.checkpoint_recovery_points()
    world.kill()
    return world, checkpoints(world)


def checkpoints(world: World) -> dict[str, bytes]:
    names = [name for name in world.file_system.list_directory(ROOT) if name.endswith("-checkpoint")]
    return {name: world.file_system.read_bytes(f"{ROOT}/{name}") for name in names}


def recovered(world: World) -> int:
    """Segments that the next start recovers."""
    return world.start().recovery_stats.segments_recovered


def test_a_stop_before_the_load_leaves_the_crash_to_the_next_start() -> None:
    """A damaged metadata.db ends a start between the two, say."""
    world, before = crashed()
    manager: LogManager = world._manager()
    manager.open()
    manager.shutdown()
    assert checkpoints(world) == before
    assert not world.file_system.exists(CLEAN_MARK)
    assert recovered(world) == 1
    world.stop()


def test_a_stop_after_a_load_that_failed_does_too() -> None:
    world, before = crashed()
    manager: LogManager = world._manager()

    def config_of(topic: str) -> LogConfig:
        raise DataDirectoryError(topic, "has no settings", "give it some")

    with pytest.raises(DataDirectoryError, match="has no settings"):
        manager.load(config_of)
    manager.shutdown()
    assert checkpoints(world) == before
    assert not world.file_system.exists(CLEAN_MARK)
    assert recovered(world) == 1
    world.stop()
    assert world.file_system.exists(CLEAN_MARK)
