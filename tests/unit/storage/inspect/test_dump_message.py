"""Against Kafka's own dumps: golden/test_dump_golden. Here: where the bytes lie, and what is broken."""

from __future__ import annotations

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.legacy_record import append_legacy_record, build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.inspect.dump import explain
from tidelog.storage.inspect.part import Part

TIME = 1_500_000_000_000
PATH = f"/{100:020d}.log"
RECORDS = [Record(0, TIME + n, b"k%d" % n, b"value") for n in range(3)]


def parts_of(data: bytes) -> list[Part]:
    system = FakeFileSystem()
    system.put(PATH, data)
    return list(explain(system, PATH, data=True))


@pytest.mark.parametrize("magic", [0, 1])
def test_messages(magic: int) -> None:
    data = build_legacy_set(RECORDS, magic=magic, base_offset=100)
    parts = parts_of(data)
    assert [part.kind for part in parts] == ["batch", "record"] * 3
    assert [part.fields["offset"] for part in parts[::2]] == [100, 101, 102]
    # A message is its own record: both have the same bytes and the same checksum.
    assert [part[1:3] for part in parts[::2]] == [part[1:3] for part in parts[1::2]]
    assert [part.fields["crc"] for part in parts[::2]] == [part.fields["crc"] for part in parts[1::2]]
    assert sum(part.size for part in parts[::2]) == len(data)
    assert ("NoTimestampType: -1" if magic == 0 else f"CreateTime: {TIME}") in parts[0].text


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper(magic: int) -> None:
    head, *records = parts_of(build_legacy_set(RECORDS, magic=magic, base_offset=100, compression=Compression.GZIP))
    assert head.fields["offset"] == 102
    assert [part.fields["offset"] for part in records] == [100, 101, 102]
    assert {part[1:3] for part in records} == {(-1, 0)}
    assert records[1].fields["key"] == "k1"
    assert not any(part.problem for part in (head, *records))


def test_what_is_broken() -> None:
    whole = build_legacy_set(RECORDS[:1], magic=1, base_offset=100)
    turned = whole[:-1] + b"E"
    assert parts_of(turned)[0].problem.startswith("the bytes have the crc ")
    assert parts_of(turned)[1].fields["isValid"] is False
    assert parts_of(build_legacy_set(RECORDS[:1], magic=1))[0].problem == "offset 0 is below the segment's, 100"
    for attributes, value, problem in ((1, b"no gzip", ""), (4, b"?", "format 1 has no codec with the id 4")):
        out = bytearray()
        append_legacy_record(out, 1, 100, TIME, None, value, attributes)
        head, record = parts_of(bytes(out))
        assert head.problem == problem
        assert record.problem.startswith("can't be read: ")
