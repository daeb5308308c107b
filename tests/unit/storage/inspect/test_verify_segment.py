"""What the planted faults of test_verify don't show: which differences between a log and its indexes are none."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.inspect.verify_producers import ProducerCheck
from tidelog.storage.inspect.verify_report import Finding, Report
from tidelog.storage.inspect.verify_segment import SegmentCheck, Surroundings
from tidelog.storage.io.filesystem import StrPath
from tidelog.storage.log.leader_epoch import EpochEntry
from tidelog.storage.segment import batch_walk

TIME = 1_700_000_000_000
CLEAN = Surroundings(None, 0, 0, True, ())


def check(
    log: bytes,
    index: bytes = b"",
    time_index: bytes = b"",
    *,
    around: Surroundings = CLEAN,
    is_active: bool = True,
    system: FakeFileSystem | None = None,
) -> list[Finding]:
    system = system or FakeFileSystem()
    system.put(f"/t-0/{0:020d}.log", log)
    system.put(f"/t-0/{0:020d}.index", index)
    system.put(f"/t-0/{0:020d}.timeindex", time_index)
    report = Report()
    producers = ProducerCheck(system, "/t-0", report, cleaned_below=around.cleaned_below or 0)
    segment = SegmentCheck(system, "/t-0", 0, around, producers, report, is_active=is_active)
    segment.run()
    return list(report.drain())


def rules(*arguments: bytes, **settings: object) -> list[str]:
    return [finding.rule for finding in check(*arguments, **settings)]  # type: ignore[arg-type]


def batch(offset: int, *times: int, epoch: int = -1) -> bytes:
    records = [Record(n, TIME + time, b"k", b"v") for n, time in enumerate(times)]
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch)


FIRST, SECOND, THIRD = batch(0, 5, 1), batch(2, 3, 9), batch(4, 7, 7)
LOG = FIRST + SECOND + THIRD


def test_an_index_entry_for_several_batches() -> None:
    """Old brokers indexed an append by its last offset and first position: look-ups through it find the same records."""
    assert rules(LOG, struct.pack(">ii", 3, 0)) == []
    assert rules(LOG, struct.pack(">ii", 2, 0)) == ["index-offset"]
    assert rules(LOG, struct.pack(">ii", 9, 0)) == ["index-offset"]


def test_time_entries_in_the_middle_of_a_batch() -> None:
    """Old brokers named the record with the largest timestamp, newer ones the last of its batch."""
    for offset in (2, 3):
        assert rules(LOG, b"", struct.pack(">qi", TIME + 9, offset)) == []
    assert rules(LOG, b"", struct.pack(">qi", TIME + 9, 1)) == ["timeindex-entry"]
    assert rules(LOG, b"", struct.pack(">qi", TIME + 7, 5)) == ["timeindex-entry"]


def test_a_closed_segment_has_its_largest_timestamp() -> None:
    whole = struct.pack(">qi", TIME + 5, 1) + struct.pack(">qi", TIME + 9, 3)
    assert rules(LOG, b"", whole, is_active=False) == []
    assert rules(LOG, b"", whole[:12], is_active=False) == ["timeindex-last"]
    assert rules(LOG, b"", whole[:12], is_active=True) == []
    assert rules(b"", is_active=False) == []


RUNNING = CLEAN._replace(is_stopped=False)
POSITIONS = struct.pack(">ii", 3, len(FIRST)), struct.pack(">ii", 5, len(FIRST + SECOND))
TIMES = struct.pack(">qi", TIME + 5, 1), struct.pack(">qi", TIME + 9, 3)


def half_written(entry: bytes) -> Iterator[bytes]:
    """What a reader may see of an entry that is being written: fields from their first byte on, or from their last."""
    for length in range(1, len(entry)):
        yield entry[:length] + bytes(len(entry) - length)
        yield bytes(len(entry) - length) + entry[-length:]


class Changing(FakeFileSystem):
    """A file system on which readings of one file differ."""

    def __init__(self, path: str, *readings: bytes) -> None:
        super().__init__()
        self._path = path
        self._readings = iter(readings)

    def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
        return next(self._readings) if path == self._path else super().read_bytes(path, limit)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_half_an_entry_that_is_being_written_is_no_fault(kind: str) -> None:
    first, second = POSITIONS if kind == "index" else TIMES
    room = bytes(5 * len(first))
    told = set()
    for half in half_written(second):
        indexes = (first + half + room, b"") if kind == "index" else (b"", first + half + room)
        found = set(rules(LOG, *indexes, around=RUNNING))
        assert found <= {"unfinished-tail"}, half
        # After a clean stop nobody writes.
        assert bool(found) == any(not rule.startswith("unfinished") for rule in rules(LOG, *indexes)), half
        told |= found
    assert told


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_entry_that_is_written_while_it_is_read_is_no_fault(kind: str) -> None:
    """A reader that is slower than the writer sees half of one entry, and the next one."""
    first, second = POSITIONS if kind == "index" else TIMES
    room = bytes(5 * len(first))
    path = f"/t-0/{0:020d}.{kind}"
    for half in half_written(first):
        system = Changing(path, half + second + room, first + second + room)
        assert rules(LOG, around=RUNNING, system=system) == [], half
    # One that stays as it is was not being written.
    torn = bytes(len(first) - 1) + b"\1" + second + room
    assert rules(LOG, around=RUNNING, system=Changing(path, torn, torn)) != []


def test_an_index_that_is_cut_at_the_roll_between_two_readings_is_no_fault() -> None:
    entries, room = b"".join(POSITIONS), bytes(40)
    path = f"/t-0/{0:020d}.index"
    for readings in ((entries + room, entries), (entries, entries + room), (entries + room, b"")):
        assert rules(LOG, around=RUNNING, system=Changing(path, *readings)) == []


def test_gaps() -> None:
    log = FIRST + THIRD
    for cleaned_below, expected in ((None, ["batch-gap"]), (4, []), (2, ["batch-gap"]), (-1, ["gap-unexplained"])):
        assert rules(log, around=CLEAN._replace(cleaned_below=cleaned_below)) == expected


def test_leader_epochs() -> None:
    log = batch(0, 1, epoch=3) + batch(1, 1, epoch=5)
    for epochs, expected in (
        (((3, 0), (5, 1)), []),
        (((3, 0), (4, 1), (5, 1)), []),
        (((3, 0), (5, 2)), ["epochs-differ"]),
        (((3, 0),), ["epochs-differ"]),
        ((), ["epochs-differ", "epochs-differ"]),
        (None, []),
    ):
        entries = None if epochs is None else tuple(EpochEntry(*entry) for entry in epochs)
        assert rules(log, around=CLEAN._replace(epochs=entries)) == expected
    # A running daemon has not written the newest one yet; what is below the log's start has been cut off.
    running = CLEAN._replace(is_stopped=False, epochs=(EpochEntry(3, 0),))
    assert rules(log, around=running) == []
    assert rules(log, around=CLEAN._replace(log_start=1, epochs=(EpochEntry(5, 1),))) == []
    assert rules(log, around=CLEAN._replace(log_start=None, epochs=(EpochEntry(5, 1),))) == []


def test_a_batch_that_is_not_read_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "LARGEST_BATCH", 500)
    large = build_batch([Record(0, TIME, b"k", b"v" * 600)], base_offset=2)
    assert rules(FIRST + large + batch(3, 1)) == ["batch-too-large"]
    damaged = bytearray(large)
    damaged[-1] ^= 1
    assert rules(FIRST + bytes(damaged) + batch(3, 1)) == ["batch-too-large", "batch-crc"]
