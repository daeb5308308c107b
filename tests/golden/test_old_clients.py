"""Requests as clients of 2013 to 2018 sent them (tests/compat/old/record.py took them down): read whole, and written back."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import parse_request_header, request_header_bytes
from tidelog.protocol.messages._hot import parse_fetch, parse_produce
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.lz4_header import with_right_check
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import MAGIC_V2
from tidelog.protocol.schema import decode, encode
from tidelog.storage.log.validator import AppendRules, TargetFormat, validate_message_set

RULES = AppendRules(700, 3, -1, True, 0, 1 << 60, 1 << 20)
RECORDS = [(b"key", b"value"), (b"another", b"x" * 40), (b"last", b"y")]
_CODEC_AT = {0: 17, 1: 17, 2: 22}
_V0_WRAPPED_STREAM_AT = 26  # offset, size, crc, magic, attributes, null key, length


class Sent(NamedTuple):
    """One request, without its size."""

    client: str
    api: ApiKey
    version: int
    codec: str
    frame: bytes

    @property
    def name(self) -> str:
        return f"{self.client} {self.api.name} {self.version} {self.codec}"


def sent() -> list[Sent]:
    found = []
    for file in sorted((Path(__file__).parent / "old_clients").glob("*.txt")):
        for line in file.read_text().splitlines():
            api, version, codec, frame = line.split()
            found.append(Sent(file.stem, ApiKey[api], int(version), codec, bytes.fromhex(frame)))
    return found


SENT = sent()
PRODUCED = [one for one in SENT if one.api is ApiKey.PRODUCE]


def decoded(one: Sent) -> Any:
    header, body = parse_request_header(one.frame)
    assert (header.api_key, header.api_version) == (one.api, one.version)
    request, end = decode(loaded(load_apis()[one.api]).request, one.version, one.frame, body)
    assert end == len(one.frame)
    return request


@pytest.mark.parametrize("one", SENT, ids=lambda one: one.name)
def test_a_request_is_read_whole_and_written_back(one: Sent) -> None:
    entry = load_apis()[one.api]
    assert entry.min_version <= one.version <= entry.max_version, "it is answered"
    header, _ = parse_request_header(one.frame)
    request = decoded(one)
    if one.api is ApiKey.API_VERSIONS and one.version >= 3:
        return  # tagged fields of their own may follow
    assert request_header_bytes(header) + encode(request, one.version) == one.frame


@pytest.mark.parametrize("one", PRODUCED, ids=lambda one: one.name)
def test_what_was_produced(one: Sent) -> None:
    request = decoded(one)
    assert isinstance(request, ProduceRequest)
    frame = bytearray(b"before" + one.frame)
    _, _, acks, _, topics = parse_produce(frame, 6, len(frame), one.version)
    assert acks == request.acks
    records: list[tuple[bytes | None, bytes | None]] = []
    for topic, partitions in topics:
        assert topic == f"golden-{one.client}"
        for _, first, last in partitions:
            data = bytes(frame[first:last])
            magic = data[16]
            codec = Compression(data[_CODEC_AT[magic]] & 7)
            assert codec.name.lower() == one.codec
            if magic == 0 and codec is Compression.LZ4:
                # The check byte of the frame's header was computed over too much at the time.
                stream = data[_V0_WRAPPED_STREAM_AT:]
                assert with_right_check(stream) != stream
            if magic < MAGIC_V2:
                for target in range(3):
                    made = validate_message_set(frame, first, last, TargetFormat(target, None), RULES)
                    kept = bytes(made.data)
                    stored = [r for header in iterate_batches(kept) for r in iterate_records(kept, header.position)]
                    assert [record.offset for record in stored] == list(range(700, 700 + len(stored)))
                data = kept
            records += [
                (record.key, record.value)
                for header in iterate_batches(data)
                for record in iterate_records(data, header.position)
            ]
    # Some begin with what they have when the first is there, and send the rest in a request of its own.
    assert records == RECORDS[: len(records)]
    assert records


@pytest.mark.parametrize("one", [one for one in SENT if one.api is ApiKey.FETCH], ids=lambda one: one.name)
def test_what_was_fetched(one: Sent) -> None:
    request = decoded(one)
    assert isinstance(request, FetchRequest)
    parsed = parse_fetch(one.frame, 0, len(one.frame), one.version)
    assert parsed[1:5] == (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    wanted = [
        (topic.topic, [(p.partition, p.fetch_offset, p.partition_max_bytes) for p in topic.partitions])
        for topic in request.topics
    ]
    got = [(topic, [(row[0], row[2], row[5]) for row in partitions]) for topic, partitions in parsed[7]]
    assert got == wanted
    assert one.version >= 3 or request.max_bytes == 0x7FFFFFFF


def test_the_versions_that_kafka_4_dropped_are_among_them() -> None:
    versions = {(one.api.name, one.version) for one in SENT}
    assert versions >= {
        *(("PRODUCE", version) for version in range(4)),
        *(("FETCH", version) for version in range(5)),
        *(("METADATA", version) for version in range(3)),
        *((api, 0) for api in ("LIST_OFFSETS", "OFFSET_COMMIT", "OFFSET_FETCH", "JOIN_GROUP", "SYNC_GROUP")),
        ("OFFSET_COMMIT", 1),
        ("OFFSET_FETCH", 1),
        ("JOIN_GROUP", 1),
    }


def test_a_message_of_format_1_in_version_0() -> None:
    """pykafka's, told that the broker is of 0.10."""
    (one,) = [one for one in PRODUCED if one.client == "pykafka-0.10.2" and one.codec == "none"]
    request = decoded(one)
    ((topic,),) = [[topic] for topic in request.topic_data]
    assert (one.version, topic.partition_data[0].records[16]) == (0, 1)


def test_the_oldest_header_has_no_client_id() -> None:
    """ControlledShutdown 0, which brokers of 0.8 sent each other."""
    frame = struct.pack(">hhii", ApiKey.CONTROLLED_SHUTDOWN, 0, 9, 1001)
    header, body = parse_request_header(frame)
    assert (header.client_id, header.correlation_id, frame[body:]) == (None, 9, b"\0\0\x03\xe9")
