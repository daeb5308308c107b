"""Requests of Kafka 0.7 packed by hand, from the layout of its sources: an oracle that shares nothing with ours.

kafka.network.BoundedByteBufferSend: size 4 | id 2 | body. kafka.utils.Utils.writeShortString: length 2 | bytes.
kafka.message.Message: magic 1 | attributes 1, from magic 1 on | crc 4 | payload, with size 4 in front of it in a set.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)


def message(payload: bytes, magic: int = 1, codec: int = 0) -> bytes:
    """A message as it stands in a set."""
    crc = struct.pack(">I", zlib.crc32(payload))
    body = bytes([0]) + crc + payload if magic == 0 else bytes([1, codec]) + crc + payload
    return struct.pack(">i", len(body)) + body


def compressed(messages: Sequence[bytes]) -> bytes:
    """A wrapper of messages, by gzip."""
    return message(gzip.compress(b"".join(messages), mtime=0), codec=1)


def short_string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def produce(topic: str, partition: int, messages: Sequence[bytes]) -> bytes:
    data = b"".join(messages)
    return short_string(topic) + struct.pack(">ii", partition, len(data)) + data


def fetch(topic: str, partition: int, offset: int, max_size: int) -> bytes:
    """Body of a FETCH; of an OFFSETS too, with a time and a number of offsets."""
    return short_string(topic) + struct.pack(">iqi", partition, offset, max_size)


def many(bodies: Sequence[bytes]) -> bytes:
    return struct.pack(">h", len(bodies)) + b"".join(bodies)


def request(kind: int, body: bytes) -> bytes:
    """What follows the size of a frame."""
    return struct.pack(">h", kind) + body
