from __future__ import annotations

import struct

from support.fake_filesystem import FakeFileSystem
from tidelog.storage.inspect.dump import explain
from tidelog.storage.inspect.part import Part
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.snapshot import encode_snapshot


def parts_of(suffix: str, data: bytes) -> list[Part]:
    """The parts of a file of the segment at offset 100, checked to follow one another without a gap."""
    path = f"/{100:020d}{suffix}"
    system = FakeFileSystem()
    system.put(path, data)
    parts = list(explain(system, path))
    position = 0
    for part in parts:
        assert part.position == position
        position += part.size
    assert position == len(data)
    return parts


def told(suffix: str, data: bytes) -> list[tuple[str, str]]:
    return [(part.text, part.problem) for part in parts_of(suffix, data)]


def test_offset_index() -> None:
    data = struct.pack(">ii", 23, 656) + struct.pack(">ii", 256, 65536)
    assert told(".index", data) == [("offset: 123 position: 656", ""), ("offset: 356 position: 65536", "")]
    assert told(".index", data + bytes(16)) == [
        *told(".index", data),
        ("16 zero bytes from position 16 on", ""),
    ]
    assert told(".index", data + bytes(7)) == [*told(".index", data), ("7 zero bytes from position 16 on", "")]
    assert told(".index", data + b"\0\1\2") == [
        *told(".index", data),
        ("Found 3 invalid bytes at the end", "an entry has 8 bytes"),
    ]
    assert told(".index", bytes(64)) == [("64 zero bytes from position 0 on", "")]
    assert told(".index", b"") == []


def test_offset_index_that_does_not_rise() -> None:
    pack = struct.Struct(">ii").pack
    rises = "does not rise above the entry before it"
    for second in ((5, 10), (6, 10), (5, 11), (4, 20), (6, 9)):
        assert [part.problem for part in parts_of(".index", pack(5, 10) + pack(*second))] == ["", rises]
    assert [part.problem for part in parts_of(".index", pack(-5, 10))] == ["a number below 0"]
    # One damaged entry hides no other.
    data = pack(5, 10) + pack(-1, -1) + pack(7, 30)
    assert [part.problem for part in parts_of(".index", data)] == ["", "a number below 0", ""]


def test_time_index() -> None:
    pack = struct.Struct(">qi").pack
    data = pack(1_700_000_000_000, 3) + pack(1_700_000_000_001, 3)
    assert told(".timeindex", data) == [
        ("timestamp: 1700000000000 offset: 103", ""),
        ("timestamp: 1700000000001 offset: 103", ""),
    ]
    for second in ((1_700_000_000_000, 9), (1_700_000_000_005, 2)):
        assert parts_of(".timeindex", pack(1_700_000_000_000, 3) + pack(*second))[1].problem
    assert parts_of(".timeindex", data + b"\1")[-1].problem == "an entry has 12 bytes"


def test_transaction_index() -> None:
    pack = struct.Struct(">hqqqq").pack
    data = pack(0, 11, 90, 150, 101) + pack(0, 12, 120, 151, 152)
    assert told(".txnindex", data) == [
        ("version: 0 producerId: 11 firstOffset: 90 lastOffset: 150 lastStableOffset: 101", ""),
        ("version: 0 producerId: 12 firstOffset: 120 lastOffset: 151 lastStableOffset: 152", ""),
    ]
    assert parts_of(".txnindex", pack(1, 11, 90, 150, 101))[0].problem == "version 1 is unknown"
    assert parts_of(".txnindex", pack(0, 11, 151, 150, 101))[0].problem.startswith("can't end at 150")
    assert parts_of(".txnindex", data + data[:34])[2].problem.startswith("can't end at 150 behind 151")
    assert parts_of(".txnindex", data[:-1])[-1].problem == "an entry has 34 bytes"


def test_snapshot() -> None:
    entries = [
        ProducerStateEntry(7, 2, 5, 1_700_000_000_000, 42, (BatchMetadata(3, 60, 9, 1_700_000_000_000),)),
        ProducerStateEntry(8, 0, 4, 1_700_000_000_001, None),
    ]
    data = encode_snapshot(entries)
    header, *producers = parts_of(".snapshot", data)
    assert header.fields == {"version": 1, "crc": int.from_bytes(data[2:6], "big"), "isvalid": True, "producers": 2}
    # The sequence of the batch's first record lies 9 before 3: beyond the wrap.
    assert [part.text for part in producers] == [
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong[42] "
        "lastTimestamp: 1700000000000 firstSequence: 2147483642 lastSequence: 3 lastOffset: 60 offsetDelta: 9 "
        "timestamp: 1700000000000",
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700000000001",
    ]
    assert not any(part.problem for part in (header, *producers))
    assert producers[1].fields["currentTxnFirstOffset"] is None


def test_broken_snapshots() -> None:
    data = encode_snapshot([ProducerStateEntry(7, 2, 5, 1, None, (BatchMetadata(3, 100, 0, 1),))])
    assert parts_of(".snapshot", data)[1].problem == "offset 100 is not below the snapshot's"
    assert "the bytes have the crc" in parts_of(".snapshot", data[:-1] + b"\1")[0].problem
    assert parts_of(".snapshot", b"\0\2" + data[2:])[0].problem == "version 2 is unknown"
    assert parts_of(".snapshot", data[:5])[0].problem == "a header has 10 bytes"
    assert parts_of(".snapshot", data[:-1])[-1].problem == "an entry has 46 bytes"
