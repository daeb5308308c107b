from __future__ import annotations

import struct

import pytest
from support.fake_filesystem import PowerCut
from support.logs import ROOT, World, append, batch, read_records
from support.mock_time import START_MS
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.inspect.verify import verify
from tidelog.storage.inspect.verify_report import RULES
from tidelog.storage.log import loader as log_loader
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.names import file_name

T = f"{ROOT}/t-0"
FAR = 2**31
OFFSETS = [0, 1, FAR - 1, FAR + 7, FAR + 8, 3 * FAR, 3 * FAR + 1]
"""Of one file: the first three fit the base offset 0, the others need bases of their own."""
BASES = [0, FAR, 3 * FAR]
FILE_MS = START_MS - 86_400_000


def path(base: int, suffix: str) -> str:
    return f"{T}/{file_name(base, suffix)}"


def at(offset: int) -> bytes:
    """A batch of one record, moved there: the base offset is not under the checksum."""
    data = batch(b"v%d" % offset, timestamp=START_MS + offset % 1000)
    data[:8] = offset.to_bytes(8, "big")
    return bytes(data)


def wide_log(offsets: list[int], *, is_last: bool, clean: bool) -> World:
    """A directory that an old cleaner left behind: one file for offsets that its indexes can't say."""
    world = World()
    world.start(index_interval_bytes=60)
    world.log()
    world.stop()
    system = world.fake
    entries, position, data = b"", 0, b""
    for offset in offsets:
        if position:
            entries += struct.pack(">ii", (offset + FAR) % (2 * FAR) - FAR, position)  # as Java's cast to int has it
        data += at(offset)
        position = len(data)
    system.put(path(0, ".log"), data)
    system.put(path(0, ".index"), entries)
    system.put(path(0, ".timeindex"), struct.pack(">qi", START_MS + 999, 0))
    system.set_modified_ms(path(0, ".log"), FILE_MS)
    index = TransactionIndex(system, path(0, ".txnindex"), 0)
    for first, last in ((0, 1), (1, FAR + 7), (3 * FAR, 3 * FAR + 1)):
        index.append(AbortedTxn(7, first, last, last))
    index.close()
    if not is_last:
        following = offsets[-1] + 1
        system.put(path(following, ".log"), at(following))
        system.put(path(following, ".index"), b"")
        system.put(path(following, ".timeindex"), struct.pack(">qi", START_MS + following % 1000, 0))
    end = offsets[-1] + (1 if is_last else 2)
    system.put(f"{ROOT}/cleaner-offset-checkpoint", b"0\n1\nt 0 %d\n" % end)
    if clean:
        system.put(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n1\nt 0 %d\n" % end)
        system.put(f"{ROOT}/.kafka_cleanshutdown", b"")  # another has stopped
    else:
        system.unlink(f"{ROOT}/.kafka_cleanshutdown")
    return world


def start(world: World) -> UnifiedLog:
    world.start()
    log = world.manager.get("t", 0)
    assert log is not None
    return log


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.damaged("its segment is made by hand, without the markers of its transactions")
def test_a_segment_that_spans_2_31_offsets_is_split_on_load(
    is_last: bool, clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-5413, 6264: an old cleaner joined segments whose offsets lie further apart than an index entry can say."""
    # The transactions are made up: only where their entries go is looked at.
    monkeypatch.setattr(log_loader, "check_transaction_indexes", lambda *_arguments: 0)
    world = wide_log(OFFSETS, is_last=is_last, clean=clean)
    expected = OFFSETS if is_last else [*OFFSETS, OFFSETS[-1] + 1]
    log = start(world)
    assert [segment.base_offset for segment in log.segments][:3] == BASES
    assert [record.offset for record in read_records(log, 0)] == expected
    assert (log.log_start_offset, log.log_end_offset) == (0, expected[-1] + 1)
    # Each is found from every offset, also those between.
    for offset in (1, 2, FAR - 1, FAR, FAR + 8, FAR + 9, 3 * FAR, 3 * FAR + 1):
        assert read_records(log, offset)[0].offset == min(o for o in expected if o >= offset)
    found = log.lookup_by_timestamp(START_MS + (FAR + 8) % 1000)
    assert found is not None
    assert found.offset == FAR + 8
    # A split is no change of what is there: file times stay.
    assert {world.fake.stat(path(base, ".log")).modified_ms for base in BASES[: 2 if is_last else 3]} == {FILE_MS}
    assert not [name for name in world.fake.paths() if name.endswith((".swap", ".cleaned", ".deleted"))]
    if clean:  # recovery makes them from the log, which has no transactions here
        entries = {b: TransactionIndex(world.fake, path(b, ".txnindex"), b).all() for b in BASES}
        assert {base: [txn.last_offset for txn in found] for base, found in entries.items()} == {
            0: [1],
            FAR: [FAR + 7],
            3 * FAR: [3 * FAR + 1],
        }
    # It is a log like any other from now on: nothing is done at the next start, and it takes records.
    append(log, b"next")
    for stop in (world.stop, world.kill):
        stop()
        world.fake.trace.clear()
        log = start(world)
        assert [record.offset for record in read_records(log, 0)] == [*expected, expected[-1] + 1]
        assert not [operation for operation in world.fake.trace if ".swap" in operation.path]


@pytest.mark.damaged("its segment is made by hand, without the markers of its transactions")
def test_a_split_that_is_cut_off_anywhere_is_finished_by_the_next_load() -> None:
    for clean in (True, False):
        call = 0
        while True:
            call += 1
            made = wide_log(OFFSETS, is_last=False, clean=clean)
            made.fake.sync_directory(T)
            made.fake.fail_at(call, PowerCut())
            try:
                made.start()
            except PowerCut:
                pass
            else:
                assert call > 20
                break
            made.kill()
            log = start(made)
            assert [record.offset for record in read_records(log, 0)] == [*OFFSETS, OFFSETS[-1] + 1], call
            assert not [name for name in made.fake.paths() if name.endswith((".swap", ".cleaned", ".deleted"))]


@pytest.mark.damaged("its segment is made by hand, without the markers of its transactions")
def test_verify_says_what_to_do_and_that_it_was_done() -> None:
    world = wide_log(OFFSETS, is_last=False, clean=True)
    before = [finding for finding in verify(world.fake, ROOT) if finding.rule == "segment-span"]
    assert before
    assert "start the daemon" in RULES["segment-span"].remedy
    start(world)
    world.stop()
    # What is left to say is that nobody has compacted this log, and that its transaction index is made up.
    assert {f.rule for f in verify(world.fake, ROOT) if RULES[f.rule].is_fault} <= {
        "batch-gap",
        "segment-gap",
        "txnindex-extra",
    }


@pytest.mark.damaged("its segment is made by hand, without the markers of its transactions")
def test_the_log_begins_where_it_began_even_when_nothing_in_the_file_fits_its_name() -> None:
    world = wide_log([FAR + 7, FAR + 8], is_last=False, clean=True)
    log = start(world)
    assert log.log_start_offset == 0
    assert [(segment.base_offset, segment.size > 0) for segment in log.segments][:2] == [(0, False), (FAR + 7, True)]
    assert [record.offset for record in read_records(log, 0)] == [FAR + 7, FAR + 8, FAR + 9]


def test_a_gap_that_no_segment_can_have_lost_is_no_loss() -> None:
    """Recovery takes a gap for the lost end of a segment; not one of 2^31 offsets, whatever the checkpoints say."""
    world = wide_log([0, 1, 3 * FAR], is_last=True, clean=False)
    assert [record.offset for record in read_records(start(world), 0)] == [0, 1, 3 * FAR]
    world.kill()
    world.fake.put(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n0\n")
    assert [record.offset for record in read_records(start(world), 0)] == [0, 1, 3 * FAR]


@pytest.mark.damaged("its segment is made by hand, without the markers of its transactions")
def test_bytes_behind_the_cut_are_checked_as_ever() -> None:
    world = wide_log(OFFSETS, is_last=True, clean=False)
    good = world.fake.contents()[path(0, ".log")]
    sizes = [header.size for header in iterate_batches(good)]
    world.fake.put(path(0, ".log"), good[: sum(sizes[:5])] + b"\xff" * 200)
    log = start(world)
    assert [record.offset for record in read_records(log, 0)] == OFFSETS[:5]
    assert log.log_end_offset == OFFSETS[4] + 1


@pytest.mark.damaged("its segment is made by hand, without the markers of its transactions")
def test_a_directory_without_room_is_left_as_it_was() -> None:
    world = wide_log(OFFSETS, is_last=False, clean=True)
    before = {name: data for name, data in world.fake.contents().items() if name.startswith(T)}
    full = OSError(28, "No space left on device")
    world.fake.fail_when(lambda call: full if call.kind == "append" and call.path.startswith(T) else None)
    with pytest.raises(DataDirectoryError, match="No space left"):
        world.start()
    after = {name: data for name, data in world.fake.contents().items() if name.startswith(T)}
    assert {n: d for n, d in after.items() if n.endswith(".log")} == {
        n: d for n, d in before.items() if n.endswith(".log")
    }
