"""Random requests of Kafka 0.7 are told; random requests of Kafka's clients and of our own message-set clients are not.

0.7's are written by an encoder of the tests (support/kafka07.py), Kafka's by our declared messages, which other oracles hold.
"""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import kafka07 as old
from support import message_sets as by_hand
from support.messages import message_classes, random_struct
from tidelog.protocol.headers import RequestHeader, request_header_bytes
from tidelog.protocol.message_set.kafka07 import CHECKED_BYTES, is_message_set, recognise
from tidelog.protocol.message_set.wire import RequestType
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import ApiMessage, encode

FIRST_KEYS = range(5)
"""API keys that have the number of a request of Kafka 0.7: Produce, Fetch, ListOffsets, Metadata, LeaderAndIsr."""
REQUESTS = [
    cls for cls in message_classes() if issubclass(cls, ApiMessage) and cls.__name__.endswith("Request")
]  # fmt: skip
TEXTS = ("", "a", "-", "ab", "a-client", "\0\0", "x" * 100, "consumer-1", "ü" * 40)

topics = st.text(st.sampled_from("abcXYZ019._-é日"), min_size=1, max_size=40)
partitions = st.sampled_from([0, 0, 1, 7, 300, 70_000])
payloads = st.binary(max_size=60) | st.sampled_from([b"", bytes(300), b"x" * 5000, bytes(CHECKED_BYTES + 10)])
positions = st.sampled_from([0, 1, 255, 256, 4096, 1 << 24, 1 << 32, 1 << 40, (1 << 63) - 1])
sizes = st.sampled_from([0, 1, 300, 1 << 20, (1 << 31) - 1])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return old.message(draw(payloads), magic=draw(st.integers(0, 1)))
    return old.compressed([old.message(payload) for payload in draw(st.lists(payloads, max_size=4))])


produces = st.builds(old.produce, topics, partitions | st.just(-1), st.lists(messages(), min_size=1, max_size=4))
fetches = st.builds(old.fetch, topics, partitions, positions, sizes)
offsets = st.builds(old.fetch, topics, partitions, st.sampled_from([-1, -2]) | positions, sizes)
old_requests = st.one_of(
    st.tuples(st.just(0), produces),
    st.tuples(st.just(1), fetches),
    st.tuples(st.just(2), st.lists(fetches, min_size=1, max_size=5).map(old.many)),
    st.tuples(st.just(3), st.lists(produces, min_size=1, max_size=5).map(old.many)),
    st.tuples(st.just(4), offsets),
)


def first_set(kind: int, body: bytes) -> tuple[int, int]:
    """Where the first message set stands in the body of a PRODUCE or MULTIPRODUCE."""
    at = 0 if kind == 0 else 2
    at += 2 + struct.unpack_from(">h", body, at)[0] + 4
    (length,) = struct.unpack_from(">i", body, at)
    return at + 4, at + 4 + length


def reads_as_an_entry(data: bytes) -> bool:
    """The documented doubt: a set of 0.7 whose bytes 8 to 17 are the size and magic of an entry of today."""
    if len(data) < 26:
        return False
    (size,) = struct.unpack_from(">i", data, 8)
    return 14 <= size <= len(data) - 12 and data[16] <= 2


@settings(max_examples=400, deadline=None)
@given(old_requests)
def test_requests_of_0_7_are_told_on_both_listeners(asked: tuple[int, bytes]) -> None:
    kind, body = asked
    frame = old.request(kind, body)
    found = recognise(bytearray(b"?" + frame + b"?"), 1, 1 + len(frame))
    if kind in (0, 3):
        start, end = first_set(kind, body)
        doubt = reads_as_an_entry(body[start:end])
        assert is_message_set(body, start, end) is not doubt
        assert (found is None) is doubt
        if doubt:
            return
    assert found is not None
    assert found.kind == kind
    at = 4 if kind in (2, 3) else 2
    assert old.short_string(found.topic) == frame[at : at + 2 + len(found.topic.encode())]
    if found.is_produce:
        assert found.answer == b""
    else:  # whole, and an error that no client of 0.7 tries to mend
        total, error = struct.unpack_from(">ih", found.answer)
        assert (total, error) == (len(found.answer) - 4, -1)
        if kind == RequestType.MULTIFETCH:
            count = struct.unpack_from(">h", body)[0]
            assert found.answer[6:] == count * struct.pack(">ih", 2, -1)


def header_of(rng: random.Random, key: int, version: int) -> bytes:
    """With numbers that read as text, as far as may be: what is nearest to a topic."""
    correlation_id = rng.choice(
        [
            rng.randrange(-(1 << 31), 1 << 31),
            1,
            int.from_bytes(rng.choices(b"abc-0", k=4), "big"),
            0x0001_6100,
            0x0002_6161,
        ]
    )
    client_id = rng.choice([None, *TEXTS, "x" * rng.choice([0x2D2D, 0x6161, 0x7FFF])])
    return request_header_bytes(RequestHeader(key, version, correlation_id, client_id))


@pytest.mark.parametrize("cls", [cls for cls in REQUESTS if cls.API_KEY in FIRST_KEYS], ids=lambda cls: cls.__name__)
def test_no_request_of_kafkas_is_taken_for_0_7(cls: type[ApiMessage]) -> None:
    """Any version, and those that nobody knows yet: what is refused for its version alone is told that, and nothing else."""
    rng = random.Random(cls.__name__)
    first, last = cls.VERSIONS
    for version in range(first, last + 1):
        for _ in range(40):
            body = encode(random_struct(rng, cls, version), version)
            frame = header_of(rng, cls.API_KEY, version) + body
            assert recognise(frame, 0, len(frame)) is None, (version, frame.hex())
            newer = frame[:2] + struct.pack(">h", rng.choice([last + 1, rng.randrange(last + 1, 300)])) + frame[4:]
            assert recognise(newer, 0, len(newer)) is None, newer.hex()


@pytest.mark.parametrize("key", range(5, 100))
def test_no_other_api_is_looked_at(key: int) -> None:
    body = old.fetch("topic", 0, 0, 1)
    assert recognise(old.request(key, body), 0, 2 + len(body)) is None


def test_a_fetch_of_0_7_is_shorter_than_any_of_kafkas_with_its_version() -> None:
    """What the module's docstring says of topics of 1 to 5 bytes, whose length stands where Kafka has the version."""
    for version in range(1, 6):
        header = request_header_bytes(RequestHeader(FetchRequest.API_KEY, version, 1, None))
        assert len(header) + len(encode(FetchRequest(), version)) >= 26 > 20 + version


@st.composite
def sets(draw: st.DrawFn) -> bytes:
    """What a client of the message-set protocol may produce, with any offset, which means nothing there."""
    data = st.none() | st.binary(max_size=30)
    records = [
        Record(n, 1_700_000_000_000, draw(data), draw(data), ()) for n in range(draw(st.integers(1, 4)))
    ]  # fmt: skip
    magic = draw(st.integers(0, 2))
    codec = draw(st.sampled_from(list(Compression)[: 5 if magic == 2 else 4]))
    made = (
        build_batch(records, compression=codec)
        if magic == 2
        else build_legacy_set(records, magic=magic, compression=codec)
    )
    upper = draw(st.sampled_from([0, -1, 5, 6, 9, len(made) - 4, len(made) - 5, 1 << 20]) | st.integers(0, 200))
    lower = draw(st.integers(0, (1 << 32) - 1) | st.sampled_from([0x00010000, 0x01000000, 0x00000000]))
    return struct.pack(">iI", upper, lower) + bytes(made[8:])


@settings(max_examples=400, deadline=None)
@given(sets(), topics, st.lists(sets(), max_size=2))
def test_no_set_of_a_message_set_client_is_taken_for_0_7(data: bytes, topic: str, more: list[bytes]) -> None:
    assert not is_message_set(data, 0, len(data))
    encoded = struct.pack(">h", len(topic.encode())) + topic.encode() + struct.pack(">ii", 0, len(data)) + data
    for frame in (
        old.request(by_hand.PRODUCE, encoded),
        old.request(by_hand.MULTIPRODUCE, old.many([encoded, *(by_hand.produce("t", 0, one) for one in more)])),
    ):
        assert recognise(frame, 0, len(frame)) is None


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 4))
def test_whatever_comes_nothing_is_raised(data: bytes, kind: int) -> None:
    recognise(old.request(kind, data), 0, 2 + len(data))
    is_message_set(data, 0, len(data))
