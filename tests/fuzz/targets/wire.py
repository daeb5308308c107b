"""What comes over the wire: frames, headers, requests, and the answers that our own clients read."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

from fuzz.target import target
from fuzz.targets.records import exact
from support.messages import message_classes, random_struct
from tidelog.protocol import primitives
from tidelog.protocol.errors import MalformedRequest, ProtocolError
from tidelog.protocol.framing import INCOMPLETE, READ_AHEAD_BYTES, UNPROVEN_FRAME_BYTES, frame_end, room_for_frame
from tidelog.protocol.headers import (
    RequestHeader,
    parse_request_header,
    parse_response_header,
    request_header_bytes,
    response_header_bytes,
)
from tidelog.protocol.message_set import wire as message_set
from tidelog.protocol.messages._hot import parse_fetch, parse_produce
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.protocol.primitives import MAX_STRING
from tidelog.protocol.records import varint
from tidelog.protocol.schema import ApiMessage, Message, decode, encode

MAX_FRAME = 1000

REQUESTS = {cls.API_KEY: cls for cls in message_classes() if issubclass(cls, ApiMessage) and "Request" in cls.__name__}
RESPONSES = {
    cls.API_KEY: cls for cls in message_classes() if issubclass(cls, ApiMessage) and "Response" in cls.__name__
}
OTHERS = [cls for cls in message_classes() if not issubclass(cls, ApiMessage)]
#: Kafka's broker decodes bytes into what it answers with; what a decoded message may cost is its objects' size.
_VERSION = struct.Struct(">hh")


def check_same_again(cls: type[Message], version: int, data: bytes, position: int = 0) -> Message:
    """What was read can be written, and is read the same again; compared as bytes, for a NaN is not itself."""
    message, end = decode(cls, version, data, position)
    assert position <= end <= len(data)
    try:
        written = encode(message, version)
    except ValueError as error:
        # A byte that is no UTF-8 was read as U+FFFD, which has three: a daemon closes the connection to which it would say that.
        assert "a string can have" in str(error)
        assert len(data) > MAX_STRING // 3
        return message
    again, end = decode(cls, version, written)
    assert end == len(written)
    assert encode(again, version) == written
    return message


def frames() -> Iterator[bytes]:
    yield struct.pack(">i", 3) + b"abc" + struct.pack(">i", 0) + struct.pack(">i", MAX_FRAME) + bytes(20)
    yield struct.pack(">i", MAX_FRAME + 1)
    yield struct.pack(">i", -1)


@target(MalformedRequest, seeds=frames)
def framing(data: bytes) -> None:
    position = 0
    while (following := frame_end(data, position, len(data), MAX_FRAME)) != INCOMPLETE:
        (size,) = struct.unpack_from(">i", data, position)
        assert following == position + 4 + size <= len(data)
        position = following
    room = room_for_frame(data, position, len(data), MAX_FRAME)
    assert len(data) - position < room <= max(2 * READ_AHEAD_BYTES + MAX_FRAME, UNPROVEN_FRAME_BYTES)


def request_frames() -> Iterator[bytes]:
    rng = random.Random("requests")
    for key, cls in REQUESTS.items():
        low, high = cls.VERSIONS
        for version in sorted({low, cls.FLEXIBLE_FROM or low, high}):
            header = request_header_bytes(RequestHeader(key, version, 7, "client"))
            yield header + encode(random_struct(rng, cls, version), version)[:1200]


@target(MalformedRequest, seeds=request_frames, large=1 << 20)
def request_header(data: bytes) -> None:
    header, end = parse_request_header(data)
    assert 8 <= end <= len(data)
    if len((header.client_id or "").encode()) > MAX_STRING:
        return  # what is no UTF-8 becomes three bytes, and no client sends such a header
    again, size = parse_request_header(request_header_bytes(header))
    assert again == header
    assert size <= end + 2 * len(data)  # what is no UTF-8 becomes three bytes


@target(ProtocolError, seeds=request_frames, large=1 << 20)
def requests(data: bytes) -> None:
    """Any API in any version: the header says which."""
    header, position = parse_request_header(data)
    cls = REQUESTS.get(header.api_key)  # type: ignore[call-overload]
    if cls is not None:
        check_same_again(cls, header.api_version, data, position)


def response_frames() -> Iterator[bytes]:
    rng = random.Random("responses")
    for key, cls in RESPONSES.items():
        for version in sorted({*cls.VERSIONS}):
            header = _VERSION.pack(key, version) + response_header_bytes(key, version, 7)
            yield header + encode(random_struct(rng, cls, version), version)[:1200]


@target(ProtocolError, seeds=response_frames)
def responses(data: bytes) -> None:
    """What a client of ours reads: API and version, which it knows, then header and body."""
    if len(data) < 4:
        return
    key, version = _VERSION.unpack_from(data)
    cls = RESPONSES.get(key)
    if cls is None:
        return
    low, high = cls.VERSIONS
    version = low + version % (high - low + 1)
    frame = data[4:]
    _, position = parse_response_header(frame, key, version)
    check_same_again(cls, version, frame, position)


def hot_frames() -> Iterator[bytes]:
    rng = random.Random("hot")
    cls: type[Message]
    for key, cls in ((0, ProduceRequest), (1, FetchRequest)):
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            for _ in range(2):
                header = request_header_bytes(RequestHeader(key, version, 7, None))
                whole = header + encode(random_struct(rng, cls, version), version)[:1500]
                yield from (whole, whole[:-1], whole[:-2])


def _is_utf8(frame: bytes) -> bool:
    """Whether nothing in it could be read differently by one who takes bad UTF-8 and one who does not."""
    return all(byte < 0x80 for byte in frame)


@target(seeds=hot_frames, large=1 << 20)
def hot_requests(data: bytes) -> None:
    """The compiled readers of Produce and Fetch against the declared ones."""
    try:
        header, position = parse_request_header(data)
    except MalformedRequest:
        if len(data) < 8 or data[0] or data[1] > 1 or data[2] or data[3] > 18:
            return
        header, position = RequestHeader(data[1], data[3], 0, None), -1
    if header.api_key > 1:
        return
    cls: type[Any] = (ProduceRequest, FetchRequest)[header.api_key]
    version = header.api_version
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        return
    parse: Any = (parse_produce, parse_fetch)[header.api_key]
    padded = bytearray(b"##" + data + b"#########")
    try:
        found = parse(padded, 2, 2 + len(data), version)
    except ValueError:
        found = None
    try:
        alone = parse(exact(b"##" + data), 2, 2 + len(data), version)
    except ValueError:
        alone = None
    assert alone == found, "what lies behind the request is looked at"
    try:
        expected = decode(cls, version, data, position)[0] if position >= 0 else None
    except MalformedRequest:
        expected = None
    if expected is None:
        # Tagged fields that nobody here wants to know are passed over; the declared reader looks into those it knows.
        assert found is None or version >= cls.FLEXIBLE_FROM, "the compiled reader takes what the declared one refuses"
        return
    if found is None:
        assert not _is_utf8(data), "the compiled reader refuses what is well formed"
        return
    assert found[0] == header.client_id
    if cls is ProduceRequest:
        assert found[1:4] == (expected.transactional_id, expected.acks, expected.timeout_ms)
        seen: Any = [
            (name, [(index, None if at < 0 else bytes(padded[at:end])) for index, at, end in parts])
            for name, parts in found[4]
        ]
        assert seen == [
            (
                topic.topic_id if version >= 13 else topic.name,
                [(one.index, None if one.records is None else bytes(one.records)) for one in topic.partition_data],
            )
            for topic in expected.topic_data
        ]
    else:
        assert found[1:3] == (expected.max_wait_ms, expected.min_bytes)
        assert [(name, [row[::2][:2] for row in rows]) for name, rows in found[7]] == [
            (
                topic.topic_id if version >= 13 else topic.topic,
                [(one.partition, one.fetch_offset) for one in topic.partitions],
            )
            for topic in expected.topics
        ]


def varint_bytes() -> Iterator[bytes]:
    yield from (b"\0", b"\x01", b"\xff\xff\xff\xff\x0f", b"\x80" * 9 + b"\x01", b"\x80" * 11)


@target(MalformedRequest, seeds=varint_bytes, max_input=40)
def varints(data: bytes) -> None:
    """Both readers agree: that of messages, which knows no signs, and that of records. Both widths of these do too."""
    unsigned, end = primitives.read_unsigned_varint(data, 0)
    value = (unsigned >> 1) ^ -(unsigned & 1)
    assert varint.read_varint(data, 0, len(data)) == varint.read_varlong(data, 0, len(data)) == (value, end)


def set_requests() -> Iterator[bytes]:
    yield message_set.fetch_request("topic", 1, 2, 3)[4:]
    yield message_set.multi_fetch_request([("a", 1, 2, 3), ("b", 1, 2, 3)])[4:]
    yield message_set.produce_request("topic", 1, b"set")[4:]
    yield message_set.multi_produce_request([("a", 1, b"x"), ("b", 2, b"")])[4:]
    yield message_set.offsets_request("topic", 1, -1, 9)[4:]
    yield message_set.authenticate_request("user", "secret")[4:]


@target(MalformedRequest, seeds=set_requests)
def message_set_requests(data: bytes) -> None:
    """The message-set protocol, the broker's side: type and body."""
    if len(data) < 2:
        return
    kind = int.from_bytes(data[:2], "big")
    end = len(data)
    if kind == message_set.RequestType.FETCH:
        assert message_set.fetch_request(*message_set.parse_fetch(data, 2, end))[4:] == data
    elif kind == message_set.RequestType.PRODUCE:
        body = message_set.parse_produce(data, 2, end)
        assert message_set.produce_request(body.topic, body.partition, data[body.start : body.end])[4:] == data
    elif kind == message_set.RequestType.MULTIFETCH:
        bodies = message_set.parse_multi_fetch(data, 2, end, 100)
        assert message_set.multi_fetch_request(bodies)[4:] == data
    elif kind == message_set.RequestType.MULTIPRODUCE:
        sets = message_set.parse_multi_produce(data, 2, end, 100)
        again = message_set.multi_produce_request([(s.topic, s.partition, data[s.start : s.end]) for s in sets])
        assert again[4:] == data
    elif kind == message_set.RequestType.OFFSETS:
        assert message_set.offsets_request(*message_set.parse_offsets(data, 2, end))[4:] == data
    elif kind == message_set.RequestType.AUTHENTICATE:
        who = message_set.parse_authenticate(data, 2, end)
        assert who.version or message_set.authenticate_request(who.user, who.password)[4:] == data


def set_answers() -> Iterator[bytes]:
    yield b"\0" + message_set.message_set_header(3)[4:] + b"abc"
    yield b"\1" + message_set.message_set_header(8)[4:] + message_set.message_set_header(2) + b"ab"
    yield b"\2" + message_set.produce_answer(0, 7)[4:]
    yield b"\3" + message_set.multi_produce_answer([(0, 7)])[4:]
    yield b"\4" + message_set.offsets_answer(0, [1, 2])[4:]


@target(message_set.MalformedAnswer, message_set.MessageSetError, seeds=set_answers)
def message_set_answers(data: bytes) -> None:
    """The same, the client's side: which request it was, and the answer behind its size."""
    if not data:
        return
    answer = data[1:]
    if data[0] == 0:
        error, content = message_set.parse_fetch_answer(answer)
        assert message_set.message_set_header(len(content), error)[4:] + bytes(content) == answer
    elif data[0] == 1:
        sets = message_set.parse_multi_fetch_answer(answer, 1)
        assert sum(len(content) for _, content in sets) <= len(answer)
    elif data[0] == 2:
        assert message_set.produce_answer(0, message_set.parse_produce_answer(answer, "PRODUCE"))[4:] == answer
    elif data[0] == 3:
        rows = message_set.parse_multi_produce_answer(answer, 1)
        assert message_set.multi_produce_answer(rows)[4:] == answer
    else:
        offsets = message_set.parse_offsets_answer(answer, "OFFSETS")
        assert message_set.offsets_answer(0, offsets)[4:] == answer
