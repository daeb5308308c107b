"""Our codecs against those of others, over random contents: kio's, generated from Kafka 4's definitions version by
version, and kafka-python's, which reads the same definitions at run time and has older versions too. The newest release's own
definitions are the oracle in `tests/unit/protocol/test_kafka_messages.py`.

The same message must become the same bytes, and the same bytes the same message. The few fields that none of them knows, and
what Kafka keeps in internal topics, are held against golden bytes in tests/unit/protocol/messages. Then bytes that are
no messages: whatever comes, MalformedRequest is the worst, in bounded time and memory.
"""

from __future__ import annotations

import datetime
import io
import random
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import pytest
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from support.kafka_messages import golden, read_text
from support.messages import case_id, cases, fields_in, message_classes, random_struct
from support.slices import slice_of
from tidelog.protocol.errors import MalformedRequest
from tidelog.protocol.framing import INCOMPLETE, frame_end, room_for_frame
from tidelog.protocol.headers import parse_request_header
from tidelog.protocol.schema import INT64, ApiMessage, Field, Message, Struct, decode, encode

ROUNDS = 4

# What these versions have was dropped from the definitions that kafka-python reads.
UNKNOWN_TO_KAFKA_PYTHON = {
    ("DescribeConfigsResponse", 0),
    ("ListOffsetsRequest", 0),
    ("ListOffsetsResponse", 0),
    ("OffsetCommitRequest", 1),
}

# Nobody has version 0 of these, which is version 1 byte for byte.
SAME_AS_VERSION_1 = {
    (f"{api}{kind}", 0)
    for api in ("CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken", "RenewDelegationToken")
    for kind in ("Request", "Response")
}


def within_kios_limits(rng: random.Random, _: type[Struct], field: Field) -> Any:
    """kio knows error codes, moments and durations where the protocol has numbers."""
    if field.name.endswith("error_code"):
        return rng.randrange(-1, 134)
    if field.name == "transaction_start_time_ms":
        return rng.randrange(4_000_000_000_000)
    if field.name in ("log_append_time_ms", "retention_time_ms"):
        return rng.choice((-1, 0, rng.randrange(4_000_000_000_000)))
    if field.element is INT64 and field.name.endswith(("_ms", "_period")):
        return rng.choice((0, rng.randrange(4_000_000_000_000)))
    return ...


def within_kafka_pythons_limits(_: random.Random, cls: type[Struct], field: Field) -> Any:
    """kafka-python takes any ApiVersions response with an error for one of version 0."""
    return 0 if cls.__name__ == "ApiVersionsResponse" and field.name == "error_code" else ...


def kio_cases() -> list[tuple[type[Message], int, Any]]:
    found = []
    for cls, version in cases():
        name = cls.__name__
        if issubclass(cls, ApiMessage):
            kind = EntityType.request if name.endswith("Request") else EntityType.response
            module = cls.API_KEY.name.lower()
        else:
            kind = EntityType.data
            module = "".join(f"_{letter}" if letter.isupper() else letter for letter in name).lstrip("_").lower()
        if kind in schema_name_map.get(module, {}).get(version, {}):
            found.append((cls, version, load_entity_schema(module, version, kind)))
    return found


def kafka_python_cases() -> list[tuple[type[Message], int, Any]]:
    modules = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)
    found = []
    for cls, version in cases():
        if not issubclass(cls, ApiMessage) or (cls.__name__, version) in UNKNOWN_TO_KAFKA_PYTHON:
            continue
        theirs = next((getattr(module, cls.__name__) for module in modules if hasattr(module, cls.__name__)), None)
        if theirs is not None and version <= theirs.max_version:
            found.append((cls, version, theirs))
    return found


def plain(ours: object, version: int) -> object:
    """A message of ours as lists of values, in the order of the definition."""
    if isinstance(ours, Struct):
        return [plain(getattr(ours, field.name), version) for field in fields_in(type(ours), version)]
    if isinstance(ours, list | tuple):
        return [plain(item, version) for item in ours]
    return bytes(ours) if isinstance(ours, memoryview) else ours


def plain_of_kio(entity: Any, version: int, like: object) -> object:
    """kio's message in the same form; `like` is ours, which tells what kio's None stands for."""
    if isinstance(entity, tuple) or hasattr(type(entity), "__dataclass_fields__"):
        items = entity if isinstance(entity, tuple) else [getattr(entity, field.name) for field in fields(entity)]
        assert isinstance(like, list)
        assert len(items) == len(like)
        return [plain_of_kio(item, version, twin) for item, twin in zip(items, like, strict=True)]
    if isinstance(entity, KioErrorCode):
        return int(entity)
    if isinstance(entity, datetime.timedelta):
        return entity // datetime.timedelta(milliseconds=1)
    if isinstance(entity, datetime.datetime):
        return (entity - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(milliseconds=1)
    if entity is None and like in (-1, bytes(16)):
        return like
    return getattr(entity, "bytes", entity)


def test_version_0_is_version_1_where_nobody_else_has_it() -> None:
    for cls in message_classes():
        if (cls.__name__, 0) in SAME_AS_VERSION_1:
            message = random_struct(random.Random(1), cls, 0)
            assert encode(message, 0) == encode(message, 1)


def test_the_oracles_cover_what_the_broker_answers() -> None:
    by_kio = {(cls, version) for cls, version, _ in kio_cases()}
    by_kafka_python = {(cls, version) for cls, version, _ in kafka_python_cases()}
    released = {message.name: message.released for message in read_text(golden().read_text())}
    by_definition = {
        (cls, version) for cls, version in cases() if version in range_of(released.get(cls.__name__, (0, -1)))
    }
    uncovered = {
        (cls.__name__, version)
        for cls, version in cases()
        if issubclass(cls, ApiMessage) and (cls, version) not in by_kio | by_kafka_python | by_definition
    }
    assert uncovered == UNKNOWN_TO_KAFKA_PYTHON | SAME_AS_VERSION_1
    assert len(by_kio) > 270
    newest = {(cls, cls.VERSIONS[1]) for cls in message_classes() if issubclass(cls, ApiMessage)}
    assert newest <= by_definition | by_kio  # InitProducerId 6, which no release offers yet


def range_of(versions: tuple[int, int]) -> range:
    low, high = versions
    return range(low, high + 1)


@pytest.mark.parametrize(("cls", "version", "theirs"), kio_cases(), ids=case_id)
def test_kio_reads_and_writes_the_same(cls: type[Message], version: int, theirs: Any) -> None:
    rng = random.Random(f"kio {cls.__name__} {version}")
    read, write = entity_reader(theirs), entity_writer(theirs)
    for _ in range(ROUNDS):
        message = random_struct(rng, cls, version, within_kios_limits)
        data = encode(message, version)
        entity, size = read(data, 0)
        assert size == len(data)
        expected = plain(message, version)
        assert plain_of_kio(entity, version, expected) == expected
        out = io.BytesIO()
        write(out, entity)
        assert out.getvalue() == data
        assert decode(cls, version, data) == (message, len(data))


@pytest.mark.parametrize(("cls", "version", "theirs"), kafka_python_cases(), ids=case_id)
def test_kafka_python_reads_and_writes_the_same(cls: type[Message], version: int, theirs: Any) -> None:
    rng = random.Random(f"kafka-python {cls.__name__} {version}")
    for _ in range(ROUNDS):
        message = random_struct(rng, cls, version, within_kafka_pythons_limits)
        data = encode(message, version)
        again = theirs.decode(data, version=version)
        again._header = None  # its decoder forgets this, its encoder wants it
        assert bytes(again.encode(version=version)) == data


def request_cases() -> list[tuple[type[Message], int]]:
    """What clients can send to us, and what comes out of consumers' opaque bytes and of internal topics."""
    return [(cls, version) for cls, version in cases() if not cls.__name__.endswith("Response")]


LIES = (b"", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\xff\xff", b"\x80")
"""Lengths and counts that are not true."""


def mutations(rng: random.Random, data: bytes) -> list[bytes]:
    """`data` with bits flipped, cut off, lengths blown up, parts taken out or repeated; and no message at all."""
    found = [rng.randbytes(rng.randrange(60)), b"\xff" * rng.randrange(40), bytes(rng.randrange(40))]
    for _ in range(12):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            start = rng.randrange(len(changed) + 1)
            end = min(len(changed), start + rng.choice((0, 1, 1, 2, 4, 20)))
            what = rng.randrange(4)
            if what == 0:
                changed[start:end] = rng.randbytes(end - start)
            elif what == 1:
                changed[start:end] = rng.choice(
                    (b"", b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x80", b"\xff\xff")
                )
            elif what == 2:
                changed[start:start] = changed[start:end] * rng.randrange(4)
            else:
                del changed[start:]
        found.append(bytes(changed))
    return found


@pytest.mark.parametrize(("cls", "version"), request_cases(), ids=case_id)
def test_whatever_comes_is_a_message_or_malformed(cls: type[Message], version: int) -> None:
    rng = random.Random(f"fuzz {cls.__name__} {version}")
    for _ in range(4):
        for data in mutations(rng, encode(random_struct(rng, cls, version), version)):
            try:
                message, end = decode(cls, version, data)
            except MalformedRequest:
                continue
            assert 0 <= end <= len(data)
            # What was read can be said again, and means the same.
            assert decode(cls, version, encode(message, version))[0] == message


def test_headers_of_mutated_requests() -> None:
    rng = random.Random(2)
    whole = bytes.fromhex("0003 000c 0000002a 0004") + b"clie" + bytes.fromhex("02 00 01 61 07 02 6262") + b"body"
    for _ in range(400):
        for data in mutations(rng, whole):
            try:
                header, end = parse_request_header(data)
            except MalformedRequest:
                continue
            assert header.api_version >= 0
            assert 8 <= end <= len(data)


def test_frames_of_mutated_streams() -> None:
    rng = random.Random(3)
    for _ in range(150):
        stream = b"".join(size.to_bytes(4, "big") + rng.randbytes(size) for size in rng.choices((0, 1, 9, 60), k=4))
        for data in mutations(rng, stream):
            taken = 0
            for end in range(0, len(data) + 1, rng.randrange(1, 50)):
                size = int.from_bytes(data[taken : taken + 4], "big", signed=True)
                try:
                    following = frame_end(data, taken, end, 100)
                except MalformedRequest:
                    assert end - taken >= 4
                    assert not 0 <= size <= 100
                    break
                if following == INCOMPLETE:
                    assert end - taken < 4 + size or end - taken < 4
                    assert end - taken < room_for_frame(data, taken, end, 100)
                else:
                    assert following == taken + 4 + size <= end
                    taken = following


@pytest.mark.sliced
@pytest.mark.parametrize(("cls", "version"), request_cases(), ids=case_id)
def test_lengths_that_lie_cost_neither_time_nor_memory(cls: type[Message], version: int) -> None:
    """Each place of a message in turn claims two thousand million bytes or elements."""
    rng = random.Random(f"lengths {cls.__name__} {version}")
    data = encode(random_struct(rng, cls, version), version)[:100]
    inputs = [
        data[:at] + lie + data[at + len(lie) :] + bytes(2000)
        for at in range(len(data))
        for lie in slice_of(LIES[1:4], at + version)
    ]
    decode_all(cls, version, inputs[:1])  # compiles
    tracemalloc.start()
    started = time.process_time()
    try:
        decode_all(cls, version, inputs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert time.process_time() - started < 10


def decode_all(cls: type[Message], version: int, inputs: Sequence[bytes]) -> None:
    for data in inputs:
        try:
            decode(cls, version, data)
        except MalformedRequest:
            continue
