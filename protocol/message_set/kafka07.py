"""Clients of Kafka 0.7: how to tell their requests from all others, and what they understand of an answer. No I/O.

Kafka 0.7 (2011 to 2013) had the five requests that `wire` has, laid out alike. What differs is a message: in 0.7 it has no
offset of its own, since an offset was its position in bytes in the partition's log.

    magic 0     size 4 | magic 1 | crc 4 | payload                      size counts what follows it
                0        4         5       9
    magic 1     size 4 | magic 1 | attributes 1 | crc 4 | payload       attributes: codec, 0 none, 1 gzip, 2 snappy
                0        4         5              6       10
    since 0.8   offset 8                | size 4 | crc or epoch 4 | magic 1 | ...
                0                         8        12               16

The crc is CRC-32 of the payload alone. PRODUCE and MULTIPRODUCE had no answer, whatever became of them; partition −1 is any.

*On a message-set listener* PRODUCE and MULTIPRODUCE are told by the first message (`is_message_set`): where a set of today has
the upper half of an offset, 0 below 2³², one of 0.7 has a size of at least 5. FETCH, MULTIFETCH and OFFSETS are byte for byte the
same in both, and can't be told.

*On a Kafka listener* a request of 0.7 is told by its layout (`recognise`), once it is known to be none of Kafka's:

    byte        0            2               4                8                  10
    Kafka       api key 2  | version 2     | correlation 4  | clientIdLength 2 | client id …
    0.7         type 2     | topicLength 2 | topic …                                            PRODUCE, FETCH, OFFSETS
    0.7         type 2     | count 2       | topicLength 2  | topic …                           MULTIFETCH, MULTIPRODUCE

A FETCH or OFFSETS of 0.7 takes 20 + n bytes for a topic of n. From n = 6 on two bytes of the topic stand for the client id's
length: at least 0x2020 = 8,224, and so much is not there. Below that the version would be n, and no Fetch or LeaderAndIsr of
versions 1 to 5 has less than 26 bytes. Others can be a request of Kafka's by their bytes, so
what has been read as one is never looked at, unless bytes are left over behind it, which no client of Kafka's sends. Clients of
our own message-set protocol send the same FETCH, MULTIFETCH and OFFSETS: on a Kafka listener they are taken for 0.7's.

Sources: Kafka 0.7.2, kafka.api, kafka.message.Message, kafka.server.MessageSetSend. docs/adr/0068-clients-of-kafka-07.md has the
decision. Functions are pure and may be called from any thread; none raises.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ..errors import MalformedRequest
from .wire import (
    TYPE_SIZE,
    FetchBody,
    OffsetsBody,
    ProduceBody,
    RequestType,
    message_set_header,
    offsets_answer,
    parse_fetch,
    parse_multi_fetch,
    parse_multi_produce,
    parse_offsets,
    parse_produce,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview

UNKNOWN = -1
"""The error of 0.7 that no client tries to mend by itself: OFFSET_OUT_OF_RANGE (1), say, would have it begin anew, for ever."""
MOST_BODIES = 1000
"""Requests in a MULTIFETCH or MULTIPRODUCE that are looked at; one with more is not recognised."""
MAX_TOPIC_BYTES = 255
"""Bytes of a topic: `max.topic.name.length` of Kafka 0.7."""
CHECKED_BYTES = 64 << 10
"""A payload up to this size is held against its CRC; of a longer one the header has to do."""

_TYPE = struct.Struct(">h").unpack_from
_SIZE = struct.Struct(">i").unpack_from
_CRC = struct.Struct(">I").unpack_from
_SIZE_BYTES = 4
_MAGIC_AT, _ATTRIBUTES_AT = 4, 5
_CRC_AT = (5, 6)
"""Byte of the checksum in a message of magic 0 and 1; the payload follows it."""
_CODECS = 3
# An entry of Kafka 0.8 or later: its size is at 8 and counts from 12 on, its magic is at 16. The shortest is one of magic 0.
_ENTRY_SIZE_AT, _ENTRY_HEADER, _ENTRY_MAGIC_AT, _SHORTEST_ENTRY = 8, 12, 16, 14

_PRODUCES = (RequestType.PRODUCE, RequestType.MULTIPRODUCE)


class Kafka07Request(NamedTuple):
    """A request of a Kafka 0.7 client.

    Attributes:
        kind: one of the five that 0.7 had.
        topic: the first that it names; printable, at most MAX_TOPIC_BYTES long.
        answer: an error in the framing of 0.7, for the client to fail at once; empty for what had no answer.
    """

    kind: RequestType
    topic: str
    answer: bytes

    @property
    def is_produce(self) -> bool:
        """True for PRODUCE and MULTIPRODUCE, which are told from a message-set client's too."""
        return self.kind in _PRODUCES


def is_message_set(buffer: Buffer, start: int, end: int) -> bool:
    """True if buffer[start:end] begins with a message of Kafka 0.7, and not with an entry of a later one.

    One comparison for a set of today whose first offset is below 2³².
    """
    left = end - start
    if left < _SIZE_BYTES or not 1 <= (size := _SIZE(buffer, start)[0]) <= left - _SIZE_BYTES:
        return False
    magic = buffer[start + _MAGIC_AT]
    if magic >= len(_CRC_AT):
        return False
    payload = start + _CRC_AT[magic] + 4
    following = start + _SIZE_BYTES + size
    if payload > following or (magic == 1 and buffer[start + _ATTRIBUTES_AT] >= _CODECS):
        return False
    if _begins_with_entry(buffer, start, left):
        return False
    if following - payload > CHECKED_BYTES:
        return True
    with memoryview(buffer) as view:
        return zlib.crc32(view[payload:following]) == int(_CRC(buffer, payload - 4)[0])


def recognise(frame: Buffer, start: int, end: int) -> Kafka07Request | None:
    """The request of Kafka 0.7 in frame[start:end], which begins behind the frame's size; None if it is none.

    Not for what can be read as a request of Kafka's, which goes first: see the module. Takes time with the number of bodies,
    at most MOST_BODIES, and with the first payload, at most CHECKED_BYTES.
    """
    if end - start < TYPE_SIZE:
        return None
    try:
        kind = RequestType(_TYPE(frame, start)[0])
        bodies = _parse(kind, frame, start + TYPE_SIZE, end)
    except (MalformedRequest, ValueError):
        return None
    if not bodies or not all(map(_makes_sense, bodies)):
        return None
    first = bodies[0]
    if isinstance(first, ProduceBody) and not is_message_set(frame, first.start, first.end):
        return None
    return Kafka07Request(kind, first.topic, _answer(kind, len(bodies)))


def _begins_with_entry(buffer: Buffer, start: int, left: int) -> bool:
    if left < _ENTRY_HEADER + _SHORTEST_ENTRY:
        return False
    size = _SIZE(buffer, start + _ENTRY_SIZE_AT)[0]
    return _SHORTEST_ENTRY <= size <= left - _ENTRY_HEADER and buffer[start + _ENTRY_MAGIC_AT] <= 2


def _parse(
    kind: RequestType, frame: Buffer, position: int, end: int
) -> Sequence[FetchBody | ProduceBody | OffsetsBody]:
    if kind == RequestType.FETCH:
        return (parse_fetch(frame, position, end),)
    if kind == RequestType.OFFSETS:
        return (parse_offsets(frame, position, end),)
    if kind == RequestType.PRODUCE:
        return (parse_produce(frame, position, end),)
    if kind == RequestType.MULTIFETCH:
        return parse_multi_fetch(frame, position, end, MOST_BODIES)
    if kind == RequestType.MULTIPRODUCE:
        return parse_multi_produce(frame, position, end, MOST_BODIES)
    return ()


def _makes_sense(body: FetchBody | ProduceBody | OffsetsBody) -> bool:
    """Whether a client of 0.7 could have meant the values. Control characters in a topic, in particular, are none."""
    if not body.topic.isprintable() or not 1 <= len(body.topic.encode()) <= MAX_TOPIC_BYTES:
        return False
    if isinstance(body, ProduceBody):
        return body.partition >= -1
    number = body.max_size if isinstance(body, FetchBody) else body.max_number
    since = body.offset if isinstance(body, FetchBody) else body.time
    return body.partition >= 0 and since >= -2 and number >= 0


def _answer(kind: RequestType, count: int) -> bytes:
    """The error in the framing of 0.7. Clients of a MULTIFETCH read a set for each fetch, whatever the first error is."""
    if kind in _PRODUCES:
        return b""
    if kind == RequestType.OFFSETS:
        return offsets_answer(UNKNOWN, [])
    one = message_set_header(0, UNKNOWN)
    return one if kind == RequestType.FETCH else message_set_header(count * len(one), UNKNOWN) + count * one
