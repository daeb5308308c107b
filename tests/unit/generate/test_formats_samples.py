"""The samples are what they say: read back by readers that know nothing of the page."""

from __future__ import annotations

import pytest
from generate import formats_samples as samples
from generate.formats_samples import Field, Sample, annotate
from tidelog.broker.groups.store.records import OffsetKey, read_key, read_offset_value
from tidelog.protocol.records.legacy_record import iterate_legacy_records, read_legacy_record, unwrap
from tidelog.protocol.records.record_batch import iterate_records
from tidelog.storage.producers.snapshot import decode_snapshot
from tidelog.storage.producers.transaction_marker import TransactionMarker, parse_transaction_marker

ALL = {
    "batch": samples.batch(),
    "compressed": samples.compressed_batch(),
    "format 0": samples.message(0),
    "format 1": samples.message(1),
    "wrapper": samples.wrapper(),
    "inner": samples.inner(),
    "offset index": samples.lookups().offset_index,
    "time index": samples.lookups().time_index,
    "aborted": samples.aborted_transaction(),
    "snapshot": samples.snapshot(),
    "key": samples.offset_commit()[0],
    "value": samples.offset_commit()[1],
    "marker key": samples.marker()[0],
    "marker value": samples.marker()[1],
}


@pytest.mark.parametrize("name", ALL)
def test_every_byte_has_a_field(name: str) -> None:
    sample = ALL[name]
    assert sum(field.size for field in sample.fields) == len(sample.data)
    rows = annotate(sample).split("\n")
    assert b"".join(bytes.fromhex(row[6:53].strip()) for row in rows) == sample.data


def test_rows() -> None:
    text = annotate(Sample(bytes(range(20)), (Field("a", 1, "0"), Field("none", 0, "empty"), Field("rest", 19))))
    assert text.split("\n") == [
        f"0000  {'00':<47}  {'a':<22} 0",
        f"0001  {'':<47}  {'none':<22} empty",
        "0001  01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10  rest",
        "0011  11 12 13",
    ]


def values(sample: Sample) -> dict[str, str]:
    return {field.name: field.value for field in sample.fields}


def test_batches() -> None:
    first, second = iterate_records(ALL["batch"].data)
    assert (first.offset, first.key, first.value, first.headers) == (114514, b"city", b"Ulm", ((b"lang", b"de"),))
    assert (second.offset, second.timestamp, second.value) == (114515, samples.TIME + 64, None)
    assert values(ALL["batch"])["baseOffset"] == "114514"
    [record] = iterate_records(ALL["compressed"].data)
    assert record.value == b"tide " * 20


def test_messages() -> None:
    for name in ("format 0", "format 1"):
        [record] = iterate_legacy_records(read_legacy_record(ALL[name].data))
        assert (record.offset, record.key, record.value) == (114514, b"city", b"Ulm")
    wrapper = read_legacy_record(ALL["wrapper"].data)
    assert [record.offset for record in iterate_legacy_records(wrapper)] == [114514, 114515]
    assert unwrap(wrapper) == ALL["inner"].data


def test_other_files() -> None:
    found = samples.lookups()
    assert (found.found_at, found.time_found, found.size_of_67) == (656, 14, 64)
    [producer] = decode_snapshot(ALL["snapshot"].data)
    assert (producer.producer_id, producer.current_txn_first_offset) == (9001, 100)
    assert parse_transaction_marker(ALL["marker key"].data, ALL["marker value"].data) == TransactionMarker(False, 3)
    assert read_key(ALL["key"].data) == OffsetKey("g", "orders", 0)
    assert read_offset_value(ALL["value"].data)[:4] == (42, 5, "", samples.TIME)


def test_sizes() -> None:
    assert [samples.stored_bytes(magic, 1, 10) for magic in (0, 1, 2)] == [36, 44, 78]
    assert samples.stored_bytes(0, 1000, 100) == 126_000
    assert samples.stored_bytes(1, 1000, 100) == 134_000
