from __future__ import annotations

import errno
import os
from os import PathLike

import pytest
from support.fake_filesystem import FakeFile, FakeFileSystem
from support.logs import ROOT, TOPIC_ID, three_segments
from support.mock_time import MockTime
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, iterate_batches
from tidelog.storage.inspect.verify import verify
from tidelog.storage.inspect.verify_partition import RootFacts, verify_partition
from tidelog.storage.inspect.verify_report import RULES, Report
from tidelog.storage.log.partition_metadata import write_partition_metadata
from tidelog.storage.producers.state import ProducerStateManager

RECORD = Record(0, 1_700_000_000_000, b"key", b"value")
STOPPED = RootFacts(is_stopped=True, has_cleaner=True, recovery_point=2)


def world(*bases: int) -> FakeFileSystem:
    """Segments of one record each."""
    system = FakeFileSystem()
    for base in bases:
        system.put(f"/t-0/{base:020d}.log", build_batch([RECORD], base_offset=base))
        system.put(f"/t-0/{base:020d}.index", b"")
        entry = RECORD.timestamp.to_bytes(8, "big") + bytes(4)
        system.put(f"/t-0/{base:020d}.timeindex", entry)
    write_partition_metadata(system, "/t-0", TOPIC_ID)
    return system


def rules(system: FakeFileSystem, root: RootFacts = STOPPED) -> list[str]:
    report = Report()
    verify_partition(system, "/t-0", root, report)
    return [finding.rule for finding in report.drain()]


def test_facts() -> None:
    report = Report()
    facts = verify_partition(world(0, 1), "/t-0", STOPPED, report)
    assert (facts.topic_id, facts.end_offset) == (TOPIC_ID, 2)
    assert list(report.drain()) == []


def test_where_the_log_starts() -> None:
    assert RootFacts().first_offset(7) is None
    assert RootFacts(recovery_point=9).first_offset(7) == 7
    assert RootFacts(log_start=8).first_offset(7) == 8
    assert RootFacts(log_start=3).first_offset(7) == 7


def test_gaps_between_segments() -> None:
    system = world(0, 5)
    assert rules(system) == ["segment-gap"]
    assert rules(system, STOPPED._replace(cleaned=5)) == []
    assert rules(system, RootFacts()) == ["gap-unexplained"]  # nothing is known of the cleaner


def test_gaps_of_a_pass_that_was_cut_short() -> None:
    """Its checkpoint has not moved yet; what it put in place lies below the recovery point."""
    system = world(0, 5)
    behind = STOPPED._replace(cleaned=0, recovery_point=5)
    for state, expected in ((b'{"interrupted":true}', []), (b'{"interrupted":false}', ["segment-gap"])):
        system.put("/t-0/tidelog-cleaner.json", state)
        assert rules(system, behind) == expected
    for damaged in (b"[", b"[1]", b""):
        system.put("/t-0/tidelog-cleaner.json", damaged)
        assert rules(system, behind) == ["segment-gap"]
    system.put("/t-0/tidelog-cleaner.json", b'{"interrupted":true}')
    assert rules(system, behind._replace(recovery_point=1)) == ["segment-gap"]
    for end, expected in (("5", []), ("1", ["segment-gap"]), ('"5"', [])):  # the last is not understood
        system.put("/t-0/tidelog-cleaner.json", b'{"interrupted":true,"interrupted_end":%s}' % end.encode())
        assert rules(system, behind) == expected


def test_names() -> None:
    system = world(0)
    for name in ("00000000000000000000-0000000000.checkpoint", "quorum-state", "tidelog-cleaner.json"):
        system.put(f"/t-0/{name}", b"")
    assert rules(system) == []
    system.put("/t-0/x.tmp", b"")
    system.put("/t-0/0.log", b"")
    assert sorted(rules(system)) == ["foreign-file", "leftover"]


def test_an_empty_active_segment() -> None:
    system = world(0)
    system.put(f"/t-0/{1:020d}.log", b"")
    assert rules(system) == []


class Taking(FakeFileSystem):
    """Somebody else deletes the oldest segments: the `at`-th look at a file comes behind the first of `files`."""

    def __init__(self, at: int, files: list[str]) -> None:
        super().__init__()
        self.at, self.files = at, files
        self.looks = 0

    def _find(self, name: str) -> object:
        self.looks += 1
        if self.looks >= self.at and self.files:
            self.at += 1  # a file goes with each look from there on
            gone = self.files.pop(0)
            if super()._find(gone) is not None:
                self.unlink(gone)
        return super()._find(name)


def producing(system: FakeFileSystem, segments: int) -> FakeFileSystem:
    """Segments of one batch each, of an idempotent producer, with their snapshots."""
    state = ProducerStateManager("/t-0", system, MockTime())
    for base in range(segments):
        if base:
            state.update_map_end_offset(base)
            state.take_snapshot()
        data = build_batch([RECORD], base_offset=base, producer_id=7, producer_epoch=0, base_sequence=base)
        system.put(f"/t-0/{base:020d}.log", data)
        system.put(f"/t-0/{base:020d}.index", b"")
        system.put(f"/t-0/{base:020d}.timeindex", RECORD.timestamp.to_bytes(8, "big") + bytes(4))
        state.update(next(iterate_batches(data)))
    write_partition_metadata(system, "/t-0", TOPIC_ID)
    return system


def test_segments_that_retention_takes_meanwhile_are_no_gap() -> None:
    """Whatever it takes when, file by file, the log that is left has no fault."""
    root = RootFacts(has_cleaner=True, recovery_point=0)
    system = producing(Taking(1 << 30, []), 5)
    assert rules(system, root) == []
    looks = system.looks
    seen = set()
    for taken in (1, 3, 5):
        order = [
            f"/t-0/{base:020d}{suffix}"
            for base in range(taken)
            for suffix in (".log", ".index", ".timeindex", ".snapshot")
        ]
        for at in range(looks):
            system = producing(Taking(1 << 30, []), 5)
            system.looks, system.at, system.files = 0, at, list(order)
            found = rules(system, root)
            assert [rule for rule in found if RULES[rule].is_fault and rule != "no-segment"] == [], (taken, at)
            seen.update(found)
    assert "vanished" in seen


class Between(FakeFileSystem):
    """Its listing of a directory falls between the deletion of a segment's log and that of its indexes."""

    def __init__(self, is_over: bool) -> None:
        super().__init__()
        self.is_over, self.log = is_over, "/t-0/00000000000000000000.log"

    def list_directory(self, path: str | PathLike[str]) -> list[str]:
        if self.exists(self.log):
            self.unlink(self.log)
        names = super().list_directory(path)
        if self.is_over:
            for name in [name for name in names if name.startswith("00000000000000000000.")]:
                self.unlink(f"{path}/{name}")
        return names


@pytest.mark.parametrize(("is_over", "is_stopped", "expected"), [
    (True, False, ["vanished"] * 2), (False, False, ["orphan"] * 2), (False, True, ["orphan"] * 2),
])  # fmt: skip
def test_an_index_is_without_its_log_only_if_it_stays_so(is_over: bool, is_stopped: bool, expected: list[str]) -> None:
    root = RootFacts(has_cleaner=True, recovery_point=0, log_start=1, is_stopped=is_stopped)
    found = rules(producing(Between(is_over), 3), root)
    assert [rule for rule in found if rule in ("orphan", "vanished")] == expected


@pytest.mark.parametrize(("epoch", "expected"), [(0, []), (-1, [])])
def test_without_a_producer_id_its_epoch_means_nothing(epoch: int, expected: list[str]) -> None:
    """KafkaJS and its kin write 0, as Kafka's brokers take it."""
    system = FakeFileSystem()
    system.put("/t-0/00000000000000000000.log", build_batch([RECORD], producer_epoch=epoch))
    system.put("/t-0/00000000000000000000.index", b"")
    system.put("/t-0/00000000000000000000.timeindex", RECORD.timestamp.to_bytes(8, "big") + bytes(4))
    write_partition_metadata(system, "/t-0", TOPIC_ID)
    assert rules(system, RootFacts(has_cleaner=True, recovery_point=0)) == expected


@pytest.mark.parametrize(("number", "rule"), [(errno.EIO, "unreadable"), (errno.EACCES, "no-access")])
def test_a_part_that_can_not_be_read_is_a_fault_and_the_others_are_read(
    number: int, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = three_segments()
    real = FakeFile.pread

    def pread(file: FakeFile, length: int, offset: int) -> bytes:
        if file.path.endswith("3.log"):
            raise OSError(number, os.strerror(number))
        return real(file, length, offset)

    monkeypatch.setattr(FakeFile, "pread", pread)
    found = [finding for finding in verify(world.file_system, ROOT) if finding.is_fault]
    assert [(finding.rule, finding.path) for finding in found] == [(rule, f"{ROOT}/t-0/{3:020d}.log")]
    monkeypatch.undo()
