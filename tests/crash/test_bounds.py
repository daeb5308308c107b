"""The documents' bound: with flush.messages=M never more than M messages are lost by a power cut, with flush.ms=S never more
than S milliseconds of them. The clock is an argument. And: every small file is written beside, synced and renamed, and moves are
atomic.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_filesystem import Operation
from support.logs import ROOT, World, append, batch, read_records


def cut_and_count(world: World, seed: int) -> int:
    """Where the log ends after a power cut now."""
    state = World(world.fake.power_cut(seed))
    state.log_config = world.log_config
    log = state.start().get("t", 0)
    if log is None:
        return 0
    end = log.log_end_offset
    records = read_records(log, log.log_start_offset, limit_offset=end)
    assert [record.offset for record in records] == list(range(log.log_start_offset, end))
    return end


@settings(max_examples=40, deadline=None)
@given(
    limit=st.integers(1, 12),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=25),
    segment_bytes=st.sampled_from([400, 1500, 100_000]),
    seed=st.integers(0, 1 << 30),
)
def test_flush_messages_bounds_the_loss_in_records(limit: int, sizes: list[int], segment_bytes: int, seed: int) -> None:
    """KAFKA-802: records, not batches. What was answered, and so what may be missed, is what is readable."""
    world = World()
    world.start(flush_messages=limit, segment_bytes=segment_bytes)
    log = world.log()
    for step, size in enumerate(sizes):
        append(log, *[b"%d" % number for number in range(size)])
        while log.needs_sync:
            log.complete_sync(log.flush())
        answered = log.high_watermark
        assert answered == log.log_end_offset
        lost = answered - cut_and_count(world, seed + step)
        assert lost < limit


@settings(max_examples=25, deadline=None)
@given(
    flush_ms=st.sampled_from([10, 500, 1999, 3000, 20_000]),
    pauses=st.lists(st.integers(0, 4000), min_size=5, max_size=25),
    seed=st.integers(0, 1 << 30),
)
def test_flush_ms_bounds_the_loss_in_time(flush_ms: int, pauses: list[int], seed: int) -> None:
    """At any moment everything older than S has outlived the power cut, whatever the appends' rhythm."""
    world = World()
    world.start(flush_ms=flush_ms, segment_bytes=1500)
    log = world.log()
    world.manager.start()
    times: list[int] = []
    for step, pause in enumerate(pauses):
        append(log, b"x" * 100)
        times.append(world.time.milliseconds())
        world.time.advance(milliseconds=pause)
        end = cut_and_count(world, seed + step)
        oldest_lost = times[end] if end < len(times) else world.time.milliseconds()
        assert world.time.milliseconds() - oldest_lost <= flush_ms
    world.stop()


def a_whole_life() -> list[Operation]:
    """The trace of rolls, retention, checkpoints, a topic's deletion and a clean stop."""
    world = World()
    world.start(segment_bytes=600, retention_bytes=1500)
    manager, noise = world.manager, random.Random(1)
    for number in range(12):
        data = batch(noise.randbytes(200), producer_id=1, producer_epoch=0, base_sequence=number)
        world.log().append_as_leader(data, 0, len(data))
        world.time.advance(0)
    manager.delete_old_segments()
    manager.checkpoint_recovery_points()
    manager.checkpoint_high_watermarks()
    world.log().increment_log_start_offset(11)
    manager.checkpoint_log_start_offsets()
    world.log("other")
    world.manager.delete("other", 0)
    world.stop()
    return list(world.fake.trace)


def test_moves_are_atomic_and_nothing_is_written_under_the_old_name() -> None:
    """KAFKA-1036, 3105: each is one rename, within one directory; what was open goes on under the new name."""
    trace = a_whole_life()
    moves = [(step, operation) for step, operation in enumerate(trace) if operation.kind == "rename"]
    assert {move.detail.rpartition(".")[2] for _, move in moves} >= {"deleted", "metadata", "properties"}
    assert any(move.detail.endswith("-delete") for _, move in moves)
    for step, move in moves:
        assert move.path.rpartition("/")[0] == move.detail.rpartition("/")[0]
        later = [operation for operation in trace[step + 1 :] if operation.path == move.path]
        made_anew = next((at for at, operation in enumerate(later) if operation.kind == "create"), len(later))
        assert [operation.kind for operation in later[:made_anew]] == []


def test_every_small_file_is_written_beside_synced_renamed_and_its_directory_synced() -> None:
    """KAFKA-9892, 16541, by the same trace."""
    trace = a_whole_life()
    small = {operation.path for operation in trace if operation.kind in ("create", "append")}
    small = {path for path in small if not path.endswith((".log", ".index", ".timeindex", ".lock"))}
    assert {path.rpartition("/")[2] for path in small} >= {
        "meta.properties.tmp",
        "recovery-point-offset-checkpoint.tmp",
        "log-start-offset-checkpoint.tmp",
        "replication-offset-checkpoint.tmp",
        "cleaner-offset-checkpoint.tmp",
        "partition.metadata.tmp",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000012.snapshot.tmp",
    }
    written_in_place = {path for path in small if not path.endswith(".tmp")}
    assert {path.removeprefix(f"{ROOT}/") for path in written_in_place} <= {".kafka_cleanshutdown"}
    for path in small - written_in_place:
        own = [operation for operation in trace if operation.path == path]
        for step in [i for i, operation in enumerate(own) if operation.kind == "append"]:
            assert [operation.kind for operation in own[step - 1 : step + 3]] == [
                "truncate",
                "append",
                "sync",
                "rename",
            ]
            assert own[step + 2].detail == path.removesuffix(".tmp")
    directory_of = {path: path.rpartition("/")[0] for path in small}
    for operation, following in pairwise(trace):
        if operation.kind == "rename" and operation.path in small:
            assert following == Operation("sync_directory", directory_of[operation.path])


@pytest.mark.parametrize("suffix", [".kafka_cleanshutdown"])
def test_the_clean_mark_is_durable_before_the_stop_returns_and_gone_before_the_first_log_is_read(suffix: str) -> None:
    world = World()
    world.start()
    append(world.log(), b"x")
    world.stop()
    for seed in range(20):
        assert f"{ROOT}/{suffix}" in world.fake.power_cut(seed).paths()
    world.start()
    for seed in range(20):
        assert f"{ROOT}/{suffix}" not in world.fake.power_cut(seed).paths()
