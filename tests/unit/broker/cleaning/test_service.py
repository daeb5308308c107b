from __future__ import annotations

import logging
import math

import pytest
from support.cleaning import CleaningWorld, data_records, put
from support.fake_filesystem import FakeFileSystem
from support.patience import until
from tidelog.broker.cleaning.service import LogCleaner, pool_settings
from tidelog.config.loader import load_config
from tidelog.storage.io.filesystem import RealFileSystem


def test_settings_reach_the_pool() -> None:
    files = RealFileSystem()
    defaults = pool_settings(load_config(None, {}, []), files)
    assert (defaults.threads, defaults.dedupe_buffer_bytes, defaults.load_factor) == (1, 134_217_728, 0.9)
    assert (defaults.io_buffer_bytes, defaults.io_bytes_per_second, defaults.backoff_ms) == (524_288, math.inf, 15_000)
    given = pool_settings(
        load_config(
            None,
            {},
            ["log.cleaner.threads=3", "log.cleaner.io.max.bytes.per.second=1000000", "log.cleaner.backoff.ms=5"],
        ),
        files,
    )
    assert (given.threads, given.io_bytes_per_second, given.backoff_ms) == (3, 1_000_000.0, 5)


def test_passes_read_in_processes_where_files_are_the_machines_and_it_is_not_switched_off() -> None:
    config = load_config(None, {}, [])
    assert pool_settings(config, RealFileSystem()).in_processes
    assert not pool_settings(config, FakeFileSystem()).in_processes, "nobody else sees these files"
    off = load_config(None, {}, ["log.cleaner.process.enable=false"])
    assert not pool_settings(off, RealFileSystem()).in_processes


def made() -> CleaningWorld:
    world = CleaningWorld()
    world.start(segment_bytes=500)
    log = world.log()
    for number in range(50):
        put(log, f"k{number % 3}", "v")
    log.roll()
    return world


def test_it_cleans_when_enabled_and_takes_new_settings() -> None:
    world = made()
    config = load_config(None, {}, ["log.cleaner.dedupe.buffer.size=24000"])
    cleaner = LogCleaner(config, world.manager, world.file_system, world.time)
    cleaner.load()
    cleaner.start()
    try:
        until(lambda: any(one.passes for one in cleaner.manager.partitions()), "a pass")
        assert len(data_records(world.log())) == 3
        cleaner.use(load_config(None, {}, ["log.cleaner.dedupe.buffer.size=24000", "log.cleaner.threads=2"]))
        assert cleaner.pool.thread_count == 2
        assert (cleaner.manager.uncleanable(), cleaner.pool.dead_threads) == ([], 0)
    finally:
        cleaner.stop()


def test_switched_off_it_warns_and_cleans_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = made()
    cleaner = LogCleaner(
        load_config(None, {}, ["log.cleaner.enable=false"]), world.manager, world.file_system, world.time
    )
    with caplog.at_level(logging.WARNING):
        cleaner.start()
    assert "log.cleaner.enable is false" in caplog.text
    assert cleaner.pool.thread_count == 0
    cleaner.stop()
    assert len(data_records(world.log())) == 50
