"""What the planted faults of test_verify don't show: where a snapshot may rightly differ from the log."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import BatchHeader, Record, read_batch_header
from tidelog.storage.index.transaction_index import AbortedTxn
from tidelog.storage.inspect.verify_producers import ProducerCheck
from tidelog.storage.inspect.verify_report import Report
from tidelog.storage.producers import state
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.snapshot import encode_snapshot
from tidelog.storage.producers.transaction_marker import TransactionMarker

TIME = 1_700_000_000_000
LOG = "/t-0/log"


def header(offset: int, producer_id: int = 7, epoch: int = 0, sequence: int = 0, **arguments: bool) -> BatchHeader:
    return read_batch_header(
        build_batch(
            [Record(0, TIME + offset, b"k", b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            **arguments,
        )
    )


def entry(offset: int, producer_id: int = 7, sequence: int = 0, **state: int) -> ProducerStateEntry:
    batches = (BatchMetadata(sequence, offset, 0, TIME + offset),)
    return ProducerStateEntry(producer_id, 0, state.get("coordinator", -1), TIME + offset, state.get("txn"), batches)


class World:
    def __init__(self, first: int, snapshots: dict[int, Sequence[ProducerStateEntry]], cleaned_below: int = 0) -> None:
        self.system = FakeFileSystem()
        self.report = Report()
        self.check = ProducerCheck(self.system, "/t-0", self.report, cleaned_below=cleaned_below)
        paths = []
        for offset, entries in snapshots.items():
            paths.append((offset, f"/t-0/{offset:020d}.snapshot"))
            self.system.put(paths[-1][1], encode_snapshot(entries))
        self.check.begin(first, paths)

    def found(self) -> list[str]:
        return [finding.rule for finding in self.report.drain()]


def test_the_state_begins_with_the_first_segments_snapshot() -> None:
    world = World(10, {10: [entry(5)], 20: [entry(5), entry(12, 8)]})
    world.check.add(header(12, 8), LOG)
    world.check.finish(20, is_stopped=True)
    assert world.found() == []


def test_a_snapshot_whose_segment_retention_has_just_taken_says_nothing_of_the_log() -> None:
    """Killed between the two deletions: the producer went on behind the offset that the snapshot is of."""
    world = World(10, {7: [entry(6)], 10: [entry(9, sequence=3)], 20: [entry(12, sequence=6)]})
    world.check.add(header(12, sequence=6), LOG)
    world.check.finish(20, is_stopped=True)
    assert world.found() == []


def test_without_it_unknown_producers_are_believed() -> None:
    world = World(10, {20: [entry(5)]})
    world.check.finish(20, is_stopped=True)
    assert world.found() == []
    world = World(0, {20: [entry(5)]})  # but a log from 0 on shows all
    world.check.finish(20, is_stopped=True)
    assert world.found() == ["snapshot-differs"]


def test_an_expired_producer_is_a_note_one_with_an_open_transaction_a_fault() -> None:
    for is_transactional, rule in ((False, "snapshot-lacks"), (True, "snapshot-differs")):
        world = World(0, {20: []})
        world.check.add(header(3, is_transactional=is_transactional), LOG)
        world.check.finish(20, is_stopped=True)
        assert world.found() == [rule]


def test_compaction_takes_batches_that_a_snapshot_knows() -> None:
    for cleaned_below, rules in ((15, []), (0, ["snapshot-differs"])):
        world = World(0, {20: [entry(12, sequence=9)]}, cleaned_below)
        world.check.reach(3)
        world.check.add(header(3), LOG)
        world.check.passed(4)
        world.check.reach(20)
        world.check.finish(20, is_stopped=True)
        assert world.found() == rules
    world = World(0, {20: [entry(3)]}, 15)  # never the other way
    world.check.add(header(12, sequence=9), LOG)
    world.check.finish(20, is_stopped=True)
    assert world.found() == ["snapshot-differs"]


def abort(world: World, offset: int, producer_id: int = 7) -> None:
    marker = TransactionMarker(False, 0)
    record = Record(offset, TIME, marker.key(), marker.value())
    world.check.add_control(header(offset, producer_id, is_control=True), [record], LOG)


def test_aborted_transactions() -> None:
    for entries, rules in (
        ([(0, AbortedTxn(7, 3, 9, 10))], []),
        ([], ["txnindex-missing"]),
        ([(0, AbortedTxn(7, 4, 9, 10))], ["txnindex-entry"]),
        ([(0, AbortedTxn(7, 3, 9, 10)), (34, AbortedTxn(7, 3, 11, 12))], ["txnindex-extra"]),
        ([(0, AbortedTxn(7, 3, 9, 10)), (34, AbortedTxn(7, 3, 30, 31))], []),  # behind what was read
    ):
        world = World(0, {})
        world.check.add(header(3, is_transactional=True), LOG)
        abort(world, 9)
        world.check.check_index("/t-0/txn", entries, 20)
        assert world.found() == rules


def test_open_transactions_of_a_snapshot_are_put_in_order_once_and_not_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20,000 of them took 25 s of a processor, also in the daemon, whose scrubber begins so."""
    sizes: list[int] = []

    def counted(items: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
        sizes.append(len(items))
        return sorted(items)

    monkeypatch.setattr(state, "sorted", counted, raising=False)
    world = World(100, {100: [entry(offset, offset, txn=offset) for offset in (70, 30, 50, 10)]})
    assert sum(sizes) <= 4
    oldest = world.check._state.oldest_transaction()
    assert oldest is not None
    assert oldest.first_offset == 10


def test_a_transaction_whose_beginning_is_gone() -> None:
    """Retention took its first records; or compaction all of them."""
    world = World(10, {})
    abort(world, 12)
    world.check.check_index("/t-0/txn", [(0, AbortedTxn(7, 3, 12, 13))], 20)
    assert world.found() == []
    world = World(0, {}, cleaned_below=15)
    world.check.passed(2)
    world.check.reach(12)
    abort(world, 12)
    world.check.check_index("/t-0/txn", [(0, AbortedTxn(7, 3, 12, 13))], 20)
    assert world.found() == []


def test_an_epoch_that_goes_back() -> None:
    world = World(0, {})
    world.check.add(header(3, epoch=4), LOG)
    world.check.add(header(4, epoch=3), LOG)
    assert world.found() == ["producer-epoch"]


def test_records_of_an_aborted_transaction_are_cleaned_before_its_marker() -> None:
    """The marker lies above the cleaner's checkpoint, in the active segment; the entry is as it was."""
    for entries, rules in (
        ([AbortedTxn(7, 0, 3, 4)], []),
        ([AbortedTxn(7, 1, 3, 4)], ["txnindex-extra"]),  # offset 1 is there, and no batch of it
        ([AbortedTxn(8, 0, 3, 4)], ["txnindex-extra"]),
        ([AbortedTxn(7, 0, 2, 4)], ["txnindex-extra"]),
        ([AbortedTxn(7, 0, 3, 5)], ["txnindex-extra"]),
        ([], []),  # nothing is left that it would hide
    ):
        world = World(0, {}, cleaned_below=2)
        world.check.reach(1)
        world.check.passed(3)
        world.check.reach(3)
        abort(world, 3)
        world.check.passed(4)
        world.check.check_index("/t-0/txn", list(enumerate(entries)), 4)
        assert world.found() == rules, entries


def test_another_transactions_first_batch_is_cleaned_which_the_entry_remembers() -> None:
    for stable, rules in ((1, []), (5, []), (3, ["txnindex-entry"]), (6, ["txnindex-entry"])):
        world = World(0, {}, cleaned_below=3)
        world.check.reach(2)
        world.check.add(header(2, is_transactional=True), LOG)
        world.check.passed(3)
        abort(world, 4)
        world.check.check_index("/t-0/txn", [(0, AbortedTxn(7, 2, 4, stable))], 5)
        assert world.found() == rules, stable


def test_a_fencing_marker_that_was_cleaned_leaves_a_snapshot_that_knows_no_batch() -> None:
    fenced = ProducerStateEntry(7, 1, 4, TIME + 9, None, ())
    for cleaned_below, rules in ((8, []), (0, ["snapshot-differs"])):
        world = World(0, {20: [fenced]}, cleaned_below)
        world.check.add(header(3), LOG)
        world.check.passed(4)
        world.check.reach(8)  # the marker was at one of 4 to 7
        world.check.finish(20, is_stopped=True)
        assert world.found() == rules


def test_a_marker_that_was_cleaned_leaves_its_coordinators_epoch() -> None:
    for coordinator, rules in ((4, []), (-1, [])):
        world = World(0, {20: [entry(8, sequence=1, coordinator=coordinator)]}, cleaned_below=8)
        world.check.add(header(3), LOG)
        world.check.passed(4)
        world.check.reach(8)
        world.check.add(header(8, sequence=1), LOG)
        world.check.passed(9)
        world.check.finish(20, is_stopped=True)
        assert world.found() == rules, coordinator


def test_an_emptied_control_batch_hides_the_marker_that_was_in_it() -> None:
    """Found by the simulator (seed 126): a marker that a second coordinator wrote once more, the last batch that was cleaned."""
    for cleaned_below, rules in ((5, []), (0, ["snapshot-differs"])):
        said = ProducerStateEntry(7, 0, 4, TIME + 4, None, (BatchMetadata(0, 3, 0, TIME + 3),))
        world = World(0, {5: [said]}, cleaned_below)
        world.check.add(header(3), LOG)
        world.check.passed(4)
        world.check.add_control(header(4), [], LOG)
        world.check.passed(5)
        world.check.finish(5, is_stopped=True)
        assert world.found() == rules


def test_an_emptied_control_batch_ends_the_transaction_whose_marker_it_had() -> None:
    """Found by the simulator (seed 3378): another one's abort behind it was held to be stable up to its first offset alone."""
    begun = ProducerStateEntry(8, 0, -1, TIME + 8, 8, (BatchMetadata(0, 8, 0, TIME + 8),))
    world = World(10, {10: [begun]}, cleaned_below=15)
    world.check.add(header(11, is_transactional=True), LOG)
    world.check.add_control(header(12, producer_id=8), [], LOG)
    abort(world, 13)
    world.check.passed(14)
    world.check.check_index("/t-0/txn", [(0, AbortedTxn(7, 11, 13, 14))], 14)
    assert world.found() == []


def test_a_transaction_that_retention_took_may_have_ended_where_compaction_took_its_marker() -> None:
    """Its records were below the log's first segment, so nothing kept the marker, and the producer went on."""
    for cleaned_below, rules in ((15, []), (0, ["snapshot-differs", "txnindex-entry"])):
        begun = ProducerStateEntry(7, 0, -1, TIME + 8, 8, (BatchMetadata(0, 8, 0, TIME + 8),))
        again = ProducerStateEntry(7, 0, -1, TIME + 15, 15, (BatchMetadata(1, 15, 0, TIME + 15),))
        world = World(10, {10: [begun], 16: [again]}, cleaned_below)
        world.check.reach(15)  # the marker was at one of 10 to 14
        world.check.add(header(15, sequence=1, is_transactional=True), LOG)
        world.check.passed(16)
        world.check.reach(16)
        abort(world, 16)
        world.check.passed(17)
        world.check.check_index("/t-0/txn", [(0, AbortedTxn(7, 15, 16, 17))], 17)
        world.check.finish(17, is_stopped=True)
        assert world.found() == rules


def test_a_transaction_that_began_below_the_first_segment_may_still_be_open_behind_a_gap() -> None:
    for shows_batch in (False, True):
        begun = ProducerStateEntry(7, 0, -1, TIME + 8, 8, (BatchMetadata(0, 8, 0, TIME + 8),))
        world = World(10, {10: [begun], 15: [begun]}, cleaned_below=15)
        world.check.reach(15)
        if shows_batch:
            world.check.add(header(15, sequence=1, is_transactional=True), LOG)
        world.check.passed(16)
        abort(world, 16)
        world.check.passed(17)
        world.check.check_index("/t-0/txn", [(0, AbortedTxn(7, 8, 16, 17))], 17)
        world.check.finish(17, is_stopped=True)
        assert world.found() == []
