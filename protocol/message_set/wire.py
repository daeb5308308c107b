"""Requests and answers of the message-set protocol: encode and decode, no I/O.

    request     0        4      6                   4 + size
                +--------+------+-------------------+
                | size   | type | body              |     size counts what follows it
                +--------+------+-------------------+
    place       topicLength 2 | topic | partition 4             in front of every body but those that count
    PRODUCE 0       place | setLength 4 | message set
    FETCH 1         place | offset 8 | maxSize 4
    MULTIFETCH 2    count 2 | FETCH body 1 … n
    MULTIPRODUCE 3  count 2 | PRODUCE body 1 … n
    OFFSETS 4       place | time 8 | maxNumber 4                time: −1 latest, −2 earliest, ms since 1970
    AUTHENTICATE 5  version 2 | userLength 2 | user | passwordLength 2 | password       the first, where the broker asks
                    0         2              4                                          version: 0

    answer      0        4       6                  4 + total
                +--------+-------+------------------+
                | total  | error | …                |     total counts what follows it
                +--------+-------+------------------+
    FETCH           MessageSetSend         total 4 | error 2 | message 1 … n
    MULTIFETCH      MultiMessageSetSend    total 4 | error 2 | MessageSetSend 1 … n
    PRODUCE         total 4 | error 2 | baseOffset 8                            −1 with an error
    MULTIPRODUCE    total 4 | error 2 | { error 2 | baseOffset 8 } 1 … n
    OFFSETS         total 4 | error 2 | count 4 | offset 8 1 … n
    AUTHENTICATE    total 4 | error 2 | version 2 | lifetime 8          the newest version that the broker knows; ms until
                    0         4         6           8             16    it must be said again, 0: never

All integers are big-endian and signed; a topic, a user and a password are UTF-8. There is no correlation id: answers come in
the order of the requests. Errors are Kafka's; behind one stands nothing, but −1 for PRODUCE, a count of 0 for OFFSETS, version
and lifetime for AUTHENTICATE. A request that can't be read is answered with INVALID_REQUEST.

The framing is that of reference documents of Kafka's log (MessageSetSend, MultiMessageSetSend) and Kafka 0.7's requests;
what is in a message set is in `entries`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ERRORS, ErrorCode, MalformedRequest, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview

LATEST = -1
"""Time in OFFSETS for the end of the log: the offset of the next record that readers will see."""
EARLIEST = -2
"""Time in OFFSETS for the first readable offset."""

_SIZE_AND_TYPE = struct.Struct(">ih")
_TYPE = struct.Struct(">h")
_LENGTH = struct.Struct(">h")
_COUNT = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_SET_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">ih")
_ERROR_AND_BASE_OFFSET = struct.Struct(">hq")
_OFFSET_COUNT = struct.Struct(">i")
_AUTHENTICATED = struct.Struct(">hhq")
_FETCH_TAIL = struct.Struct(">iqi")
_PRODUCE_TAIL = struct.Struct(">ii")

AUTHENTICATE_VERSION = 0
"""The newest version of the AUTHENTICATE body."""
TYPE_SIZE = _TYPE.size
SIZE_FIELD = 4
ERROR_SIZE = 2
HEADER_SIZE = _HEADER.size
MAX_TOTAL = (1 << 31) - 1
assert (SIZE_FIELD, HEADER_SIZE, _FETCH_TAIL.size, _ERROR_AND_BASE_OFFSET.size) == (4, 6, 16, 10)

#: Bytes of an answer behind `total`, where they don't depend on what was found.
AUTHENTICATE_ANSWER = _AUTHENTICATED.size
PRODUCE_ANSWER = _ERROR_AND_BASE_OFFSET.size
MULTI_PRODUCE_ANSWER_EACH = _ERROR_AND_BASE_OFFSET.size


class RequestType(IntEnum):
    """The type of a request, as Kafka 0.7 numbered them."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4
    AUTHENTICATE = 5
    """Our addition: Kafka 0.7 had no authentication."""


class FetchBody(NamedTuple):
    """Messages of one partition from `offset` on, `max_size` bytes at most."""

    topic: str
    partition: int
    offset: int
    max_size: int


class OffsetsBody(NamedTuple):
    """Offsets of one partition at `time` and before, `max_number` at most."""

    topic: str
    partition: int
    time: int
    max_number: int


class ProduceBody(NamedTuple):
    """A message set for one partition: where it stands in the request's buffer."""

    topic: str
    partition: int
    start: int
    end: int


class AuthenticateBody(NamedTuple):
    """Credentials of a client. `version` is that of this body; the rest of a body of another version is not read."""

    version: int
    user: str
    password: str


class MessageSetError(ProtocolError):
    """An error answer of the broker. `code` is Kafka's; UNKNOWN_SERVER_ERROR stands for one that has no name here."""

    def __init__(self, code: int, what: str) -> None:
        known = ERRORS.get(code)
        text = f"unknown error {code}" if known is None else f"{known.name} ({code}): {known.text}"
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR if known is None else known, f"{what}: {text}")


class MalformedAnswer(Exception):
    """The bytes are no answer to the request. The connection can't be used any more."""


# -- requests, the broker's side: MalformedRequest for what is not as the ruler says


def parse_fetch(buffer: Buffer, position: int, end: int) -> FetchBody:
    """Parse the one FETCH body in buffer[position:end]."""
    body, following = _fetch_body(buffer, position, end)
    _must_end(following, end)
    return body


def parse_multi_fetch(buffer: Buffer, position: int, end: int, most: int) -> list[FetchBody]:
    """Parse the FETCH bodies in buffer[position:end], of which there may be `most`."""
    count, position = _read_count(buffer, position, end, most)
    bodies = []
    for _ in range(count):
        body, position = _fetch_body(buffer, position, end)
        bodies.append(body)
    _must_end(position, end)
    return bodies


def parse_produce(buffer: Buffer, position: int, end: int) -> ProduceBody:
    """Parse the one PRODUCE body in buffer[position:end]; the set is not copied."""
    body, following = _produce_body(buffer, position, end)
    _must_end(following, end)
    return body


def parse_multi_produce(buffer: Buffer, position: int, end: int, most: int) -> list[ProduceBody]:
    """Parse the PRODUCE bodies in buffer[position:end], of which there may be `most`."""
    count, position = _read_count(buffer, position, end, most)
    bodies = []
    for _ in range(count):
        body, position = _produce_body(buffer, position, end)
        bodies.append(body)
    _must_end(position, end)
    return bodies


def parse_offsets(buffer: Buffer, position: int, end: int) -> OffsetsBody:
    """Parse the one OFFSETS body in buffer[position:end]."""
    body, following = _fetch_body(buffer, position, end)
    _must_end(following, end)
    return OffsetsBody(*body)


def parse_authenticate(buffer: Buffer, position: int, end: int) -> AuthenticateBody:
    """Parse the one AUTHENTICATE body in buffer[position:end]; only `version` where that is not 0. Errors quote nothing
    of it.
    """
    if end - position < _TYPE.size:
        raise MalformedRequest("the request ends before its version")
    (version,) = _TYPE.unpack_from(buffer, position)
    if version != AUTHENTICATE_VERSION:
        return AuthenticateBody(version, "", "")
    user, position = _read_text(buffer, position + _TYPE.size, end, _LENGTH.size, "user")
    password, position = _read_text(buffer, position, end, 0, "password")
    _must_end(position, end)
    return AuthenticateBody(version, user, password)


def _read_count(buffer: Buffer, position: int, end: int, most: int) -> tuple[int, int]:
    if end - position < _COUNT.size:
        raise MalformedRequest("the request ends before its count")
    (count,) = _COUNT.unpack_from(buffer, position)
    if not 0 <= count <= most:
        raise MalformedRequest(f"a count of {count}; 0 to {most} are taken in one request")
    return count, position + _COUNT.size


def _fetch_body(buffer: Buffer, position: int, end: int) -> tuple[FetchBody, int]:
    topic, position = _read_topic(buffer, position, end, _FETCH_TAIL.size)
    partition, offset, number = _FETCH_TAIL.unpack_from(buffer, position)
    return FetchBody(topic, partition, offset, number), position + _FETCH_TAIL.size


def _produce_body(buffer: Buffer, position: int, end: int) -> tuple[ProduceBody, int]:
    topic, position = _read_topic(buffer, position, end, _PRODUCE_TAIL.size)
    partition, length = _PRODUCE_TAIL.unpack_from(buffer, position)
    position += _PRODUCE_TAIL.size
    if not 0 <= length <= end - position:
        raise MalformedRequest(f"a message set of {length} bytes is announced, and {end - position} are there")
    return ProduceBody(topic, partition, position, position + length), position + length


def _read_topic(buffer: Buffer, position: int, end: int, tail: int) -> tuple[str, int]:
    """Read the topic at `position`, behind which `tail` bytes must follow."""
    return _read_text(buffer, position, end, tail, "topic")


def _read_text(buffer: Buffer, position: int, end: int, tail: int, what: str) -> tuple[str, int]:
    length = _LENGTH.unpack_from(buffer, position)[0] if end - position >= _LENGTH.size else -1
    position += _LENGTH.size
    if not 0 <= length <= end - position - tail:
        raise MalformedRequest(f"the request ends within its {what}, or before what follows it")
    try:
        return bytes(buffer[position : position + length]).decode(), position + length
    except UnicodeDecodeError:
        raise MalformedRequest(f"the {what} is not UTF-8") from None


def _must_end(position: int, end: int) -> None:
    if position != end:
        raise MalformedRequest(f"{end - position} bytes are left over behind the request")


# -- answers, the broker's side


def message_set_header(size: int, error: int = 0) -> bytes:
    """Header in front of `size` bytes of messages (MessageSetSend), or of MessageSetSends (MultiMessageSetSend)."""
    return _HEADER.pack(ERROR_SIZE + size, error)


def produce_answer(error: int, base_offset: int) -> bytes:
    """Encode the answer to PRODUCE."""
    return _SET_LENGTH.pack(PRODUCE_ANSWER) + _ERROR_AND_BASE_OFFSET.pack(error, base_offset)


def multi_produce_answer(rows: Sequence[tuple[int, int]]) -> bytes:
    """Encode the answer to MULTIPRODUCE: (error, base offset) for each set."""
    body = b"".join(_ERROR_AND_BASE_OFFSET.pack(*row) for row in rows)
    return message_set_header(len(body)) + body


def offsets_answer(error: int, offsets: Sequence[int]) -> bytes:
    """Encode the answer to OFFSETS."""
    size = _OFFSET_COUNT.size + 8 * len(offsets)
    return message_set_header(size, error) + struct.pack(f">i{len(offsets)}q", len(offsets), *offsets)


def authenticate_answer(error: int, lifetime_ms: int) -> bytes:
    """Encode the answer to AUTHENTICATE."""
    return _SET_LENGTH.pack(AUTHENTICATE_ANSWER) + _AUTHENTICATED.pack(error, AUTHENTICATE_VERSION, lifetime_ms)


def refusal_answer(kind: int, error: int) -> bytes:
    """Encode the whole answer that refuses a request of type `kind`, known or not."""
    if kind == RequestType.PRODUCE:
        return produce_answer(error, -1)
    if kind == RequestType.OFFSETS:
        return offsets_answer(error, [])
    if kind == RequestType.AUTHENTICATE:
        return authenticate_answer(error, 0)
    return message_set_header(0, error)


# -- requests, the client's side: ValueError for what has no form


def fetch_request(topic: str, partition: int, offset: int, max_size: int) -> bytes:
    """Encode a FETCH as a frame."""
    return _framed(RequestType.FETCH, _place(topic, partition) + _OFFSET_AND_SIZE.pack(offset, max_size))


def multi_fetch_request(fetches: Sequence[tuple[str, int, int, int]]) -> bytes:
    """Encode a MULTIFETCH of (topic, partition, offset, max size) as a frame."""
    return _framed(
        RequestType.MULTIFETCH,
        _count(fetches),
        *(
            _place(topic, partition) + _OFFSET_AND_SIZE.pack(offset, max_size)
            for topic, partition, offset, max_size in fetches
        ),
    )


def produce_request(topic: str, partition: int, message_set: bytes) -> bytes:
    """Encode a PRODUCE as a frame."""
    return _framed(RequestType.PRODUCE, _place(topic, partition), _SET_LENGTH.pack(len(message_set)), message_set)


def multi_produce_request(sets: Sequence[tuple[str, int, bytes]]) -> bytes:
    """Encode a MULTIPRODUCE of (topic, partition, message set) as a frame."""
    parts = [
        part
        for topic, partition, message_set in sets
        for part in (_place(topic, partition), _SET_LENGTH.pack(len(message_set)), message_set)
    ]
    return _framed(RequestType.MULTIPRODUCE, _count(sets), *parts)


def offsets_request(topic: str, partition: int, time: int, max_number: int) -> bytes:
    """Encode an OFFSETS as a frame."""
    return _framed(RequestType.OFFSETS, _place(topic, partition) + _OFFSET_AND_SIZE.pack(time, max_number))


def authenticate_request(user: str, password: str) -> bytes:
    """Encode an AUTHENTICATE as a frame. ValueError, which quotes neither argument."""
    parts = [text.encode() for text in (user, password)]
    if max(map(len, parts)) > 0x7FFF:
        raise ValueError("a user or a password whose length does not fit 15 bits")
    body = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    return _framed(RequestType.AUTHENTICATE, _TYPE.pack(AUTHENTICATE_VERSION), body)


def _place(topic: str, partition: int) -> bytes:
    name = topic.encode()
    if len(name) > 0x7FFF:
        raise ValueError(f"a topic of {len(name)} bytes; its length has to fit 15 bits")
    return _LENGTH.pack(len(name)) + name + _PARTITION.pack(partition)


def _count(things: Sequence[object]) -> bytes:
    if len(things) > 0x7FFF:
        raise ValueError(f"{len(things)} in one request; the count has to fit 15 bits")
    return _COUNT.pack(len(things))


def _framed(kind: RequestType, *body: bytes) -> bytes:
    size = TYPE_SIZE + sum(map(len, body))
    if size > MAX_TOTAL:
        raise ValueError(f"a request of {size} bytes; its size has to fit 31 bits")
    return b"".join((_SIZE_AND_TYPE.pack(size, kind), *body))


# -- answers, the client's side: what follows `total`; MalformedAnswer for what is not as the ruler says


def parse_fetch_answer(answer: Buffer) -> tuple[int, memoryview]:
    """Decode the answer to FETCH: (error, message set)."""
    return _read_error(answer), memoryview(answer)[ERROR_SIZE:]


def parse_multi_fetch_answer(answer: Buffer, count: int) -> list[tuple[int, memoryview]]:
    """Decode (error, message set) for each of the `count` fetches. MessageSetError when the whole was refused."""
    _raise_if_refused(answer, "MULTIFETCH")
    view = memoryview(answer)
    position = ERROR_SIZE
    sets: list[tuple[int, memoryview]] = []
    for _ in range(count):
        if len(view) - position < HEADER_SIZE:
            raise MalformedAnswer(f"{len(sets)} sets where {count} were asked for")
        total, error = _HEADER.unpack_from(view, position)
        position += SIZE_FIELD
        if not ERROR_SIZE <= total <= len(view) - position:
            raise MalformedAnswer(f"a set of {total} bytes where {len(view) - position} are left")
        sets.append((error, view[position + ERROR_SIZE : position + total]))
        position += total
    if position != len(view):
        raise MalformedAnswer(f"{len(view) - position} bytes are left over behind {count} sets")
    return sets


def parse_produce_answer(answer: Buffer, what: str) -> int:
    """Decode the base offset. MessageSetError, whose text begins with `what`."""
    _raise_if_refused(answer, what)
    if len(answer) != PRODUCE_ANSWER:
        raise MalformedAnswer(f"{len(answer)} bytes where a base offset was to come")
    return int(_ERROR_AND_BASE_OFFSET.unpack_from(answer)[1])


def parse_multi_produce_answer(answer: Buffer, count: int) -> list[tuple[int, int]]:
    """Decode (error, base offset) for each of the `count` sets. MessageSetError when the whole was refused."""
    _raise_if_refused(answer, "MULTIPRODUCE")
    if len(answer) != ERROR_SIZE + count * MULTI_PRODUCE_ANSWER_EACH:
        raise MalformedAnswer(f"{len(answer)} bytes where {count} base offsets were to come")
    return list(_ERROR_AND_BASE_OFFSET.iter_unpack(memoryview(answer)[ERROR_SIZE:]))


def parse_offsets_answer(answer: Buffer, what: str) -> list[int]:
    """Decode the offsets, newest first. MessageSetError, whose text begins with `what`."""
    _raise_if_refused(answer, what)
    rest = len(answer) - ERROR_SIZE - _OFFSET_COUNT.size
    count = _OFFSET_COUNT.unpack_from(answer, ERROR_SIZE)[0] if rest >= 0 else -1
    if rest != 8 * count:
        raise MalformedAnswer(f"{len(answer)} bytes where {count} offsets were to come")
    return list(struct.unpack_from(f">{count}q", answer, ERROR_SIZE + _OFFSET_COUNT.size))


def parse_authenticate_answer(answer: Buffer) -> int:
    """Decode the milliseconds until authentication must be repeated, 0: never. MessageSetError."""
    _raise_if_refused(answer, "AUTHENTICATE")
    if len(answer) != AUTHENTICATE_ANSWER:
        raise MalformedAnswer(f"{len(answer)} bytes where a lifetime was to come")
    return int(_AUTHENTICATED.unpack_from(answer)[2])


def _read_error(answer: Buffer) -> int:
    if len(answer) < ERROR_SIZE:
        raise MalformedAnswer(f"an answer of {len(answer)} bytes has no error code")
    return int(_TYPE.unpack_from(answer)[0])


def _raise_if_refused(answer: Buffer, what: str) -> None:
    error = _read_error(answer)
    if error:
        raise MessageSetError(error, what)


def multi_fetch_answer_limit(fetches: Sequence[tuple[str, int, int, int]]) -> int:
    """The largest `total` that the answer may have."""
    return ERROR_SIZE + sum(HEADER_SIZE + max(0, fetch[3]) for fetch in fetches)


def offsets_answer_limit(max_number: int) -> int:
    """The largest `total` that the answer may have."""
    return ERROR_SIZE + _OFFSET_COUNT.size + 8 * max(0, max_number)
