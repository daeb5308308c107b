"""Batches that Apache Kafka wrote, read by the plain reader and by the kernel, against Kafka's own dump of them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from support import records_reference as reference
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records.compression import Compression
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records, read_batch_header

HERE = Path(__file__).parent / "records"

BATCH = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) count: (?P<record_count>\d+) "
    r"baseSequence: (?P<base_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) producerId: (?P<producer_id>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) "
    r"isTransactional: (?P<is_transactional>\w+) isControl: (?P<is_control>\w+) "
    r"deleteHorizonMs: OptionalLong(?:\[(?P<horizon>\d+)\]|\.empty) position: (?P<position>\d+) "
    r"(?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size>\d+) magic: (?P<magic>\d) "
    r"compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\](?P<rest>.*)",
    re.DOTALL,
)
NUMBERS = [
    "base_offset",
    "last_offset",
    "record_count",
    "base_sequence",
    "last_sequence",
    "producer_id",
    "producer_epoch",
    "partition_leader_epoch",
    "position",
    "max_timestamp",
    "size",
    "magic",
    "crc",
]


class DumpedBatch(NamedTuple):
    fields: dict[str, str]
    records: list[dict[str, str]]


def dumps() -> dict[str, list[DumpedBatch]]:
    """File name → batches, as Kafka told them."""
    files: dict[str, list[DumpedBatch]] = {}
    batches: list[DumpedBatch] = []
    for line in gzip.decompress((HERE / "dump.txt.gz").read_bytes()).decode().split("\n"):
        if line.startswith("Dumping "):
            batches = files[line.removeprefix("Dumping ")] = []
        elif line.startswith("baseOffset: "):
            match = BATCH.fullmatch(line)
            assert match, line
            batches.append(DumpedBatch(match.groupdict(), []))
        elif line.startswith("| offset: "):
            match = RECORD.fullmatch(line)
            assert match, line
            batches[-1].records.append(match.groupdict())
        else:
            assert line == "" or line.startswith("Log starting offset"), line
    return files


DUMPS = dumps()


def test_the_samples_are_what_the_dump_describes() -> None:
    assert sorted(DUMPS) == sorted(str(path.relative_to(HERE)) for path in HERE.rglob("*.log"))
    codecs = {batch.fields["codec"] for batches in DUMPS.values() for batch in batches}
    assert codecs == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert any(batch.fields["horizon"] for batches in DUMPS.values() for batch in batches)
    assert sum(len(batch.records) for batches in DUMPS.values() for batch in batches) > 900


@pytest.mark.parametrize("name", DUMPS)
def test_headers(name: str) -> None:
    data = (HERE / name).read_bytes()
    headers = list(iterate_batches(data))
    assert len(headers) == len(DUMPS[name])
    for header, dumped in zip(headers, DUMPS[name], strict=True):
        info = kernel.read_header(data, header.position, len(data))
        for seen in (header, info):
            for field in NUMBERS:
                assert getattr(seen, field) == int(dumped.fields[field]), field
            assert Compression(seen.compression).name.lower() == dumped.fields["codec"]
            assert seen.is_transactional == (dumped.fields["is_transactional"] == "true")
            assert seen.is_control == (dumped.fields["is_control"] == "true")
            assert seen.is_append_time == (dumped.fields["timestamp_type"] == "LogAppendTime")
            assert seen.has_delete_horizon == (dumped.fields["horizon"] is not None)
            if seen.has_delete_horizon:
                assert seen.base_timestamp == int(dumped.fields["horizon"])


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


@pytest.mark.parametrize("name", DUMPS)
def test_records(name: str) -> None:
    data = (HERE / name).read_bytes()
    for dumped in DUMPS[name]:
        position = int(dumped.fields["position"])
        records = list(iterate_records(data, position))
        assert kernel.decode_records(data, position, position + int(dumped.fields["size"])) == records
        assert len(records) == len(dumped.records)
        for record, expected in zip(records, dumped.records, strict=True):
            assert record.offset == int(expected["offset"])
            assert record.timestamp == int(expected["timestamp"])
            assert size_of(record.key) == int(expected["key_size"])
            assert size_of(record.value) == int(expected["value_size"])
            assert ",".join(key.decode() for key, _ in record.headers) == expected["headers"]
            if " payload: " in expected["rest"]:
                payload = expected["rest"].split(" payload: ", 1)[1]
                assert (record.value or b"").decode("utf-8", "replace").rstrip("\ufffd") == payload.rstrip("\ufffd")
            if " key: " in expected["rest"]:
                assert (record.key or b"").decode() == expected["rest"].split(" key: ")[1].split(" payload: ")[0]


@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.parametrize("scanner_class", [kernel.BatchScanner, reference.BatchScanner], ids=["kernel", "twin"])
def test_scan_rebuilds_kafkas_indexes(name: str, scanner_class: type[kernel.BatchScanner]) -> None:
    data = (HERE / name).read_bytes()
    base_offset = int(Path(name).stem)
    scanner = scanner_class(1024, base_offset)
    assert scanner.feed(data, 0, len(data), 0) == len(data)
    assert scanner.stopped is None
    assert scanner.valid_bytes == len(data)
    batches = DUMPS[name]
    assert scanner.batch_count == len(batches)
    assert scanner.record_count == sum(len(batch.records) for batch in batches)
    assert scanner.next_offset == int(batches[-1].fields["last_offset"]) + 1
    assert scanner.leader_epochs == [(0, int(batches[0].fields["base_offset"]))]
    stateful = [
        int(batch.fields["position"])
        for batch in batches
        if batch.fields["producer_id"] != "-1" or batch.fields["is_control"] == "true"
    ]
    assert [batch.position for batch in scanner.stateful_batches] == stateful
    index = (HERE / name).with_suffix(".index")
    # What the cleaner writes, it writes in larger pieces with an entry for each; the others grew batch by batch.
    if index.exists() and not name.startswith("compact"):
        assert bytes(scanner.offset_index_entries) == index.read_bytes()
        times = bytearray(scanner.time_index_entries)
        entry = scanner.max_timestamp.to_bytes(8, "big")
        if times[-12:-4] != entry:  # the one that closes the index, see the scanner's docstring
            times += entry + (scanner.offset_of_max_timestamp - base_offset).to_bytes(4, "big")
        assert bytes(times) == index.with_suffix(".timeindex").read_bytes()


@pytest.mark.parametrize("name", [name for name in DUMPS if not name.startswith(("compact", "txn", "log-append"))])
def test_the_produce_check_takes_what_clients_sent_to_kafka(name: str) -> None:
    data = (HERE / name).read_bytes()
    for header in iterate_batches(data):
        stored = data[header.position : header.position + header.size]
        batch = bytearray(stored)
        batch[0:8] = bytes(8)  # as the producer sent it
        batch[12:16] = b"\xff" * 4
        info = kernel.validate_and_assign(
            batch, 0, len(batch), header.base_offset, header.partition_leader_epoch, -1, False
        )
        assert batch == stored, "what we would store is what Kafka stored"
        assert info.crc == header.crc


@pytest.mark.parametrize("name", DUMPS)
def test_look_up_by_time_agrees_with_the_dump(name: str) -> None:
    data = (HERE / name).read_bytes()
    for dumped in DUMPS[name]:
        position = int(dumped.fields["position"])
        end = position + read_batch_header(data, position).size
        times = [(int(record["timestamp"]), int(record["offset"])) for record in dumped.records]
        for target in {time for time, _ in times} | {0}:
            expected = next((pair for pair in times if pair[0] >= target), None)
            assert kernel.find_timestamp(data, position, end, target) == expected
        assert kernel.find_timestamp(data, position, end, max(times)[0] + 1) is None
        assert kernel.max_timestamp_record(data, position, end) == max(times, key=lambda pair: pair[0])
