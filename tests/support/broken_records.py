"""Payloads of one record that break the ruler in `record_batch`, and a batch to put them into."""

from __future__ import annotations

import struct

from tidelog.protocol.records.builder import build_batch, seal

GOOD = bytes.fromhex("0c 00 00 00 01 01 00")

BROKEN = {
    "empty": "",
    "no attributes": "00",
    "one byte less than claimed": "0c 00 00 00 01 01",
    "one byte less, headers": "12 00 00 00 01 01 02 00 02",
    "no header count": "0a 00 00 00 01 01",
    "no value length": "08 00 00 00 01",
    "no key length": "06 00 00 00",
    "no offset delta": "04 00 00",
    "no timestamp delta": "02 00",
    "key length -2": "0c 00 00 00 03 01 00",
    "value length -2": "0c 00 00 00 01 03 00",
    "header key length -2": "10 00 00 00 01 01 02 03 01",
    "header value length -2": "10 00 00 00 01 01 02 00 03",
    "key beyond the end": "0c 00 00 00 7e 01 00",
    "key up to the end": "0c 00 00 00 04 01 00",
    "key one beyond the end": "0c 00 00 00 06 01 00",
    "value one beyond the end": "0c 00 00 00 01 04 00",
    "header key one beyond the end": "0e 00 00 00 01 01 02 02",
    "header value one beyond the end": "10 00 00 00 01 01 02 00 02",
    "-1 headers": "0c 00 00 00 01 01 01",
    "63 headers in no bytes": "0c 00 00 00 01 01 7e",
    "2^31 - 1 headers": "14 00 00 00 01 01 fe ff ff ff 0f",
    "a null header key": "10 00 00 00 01 01 02 01 01",
    "a null key of the second header": "14 00 00 00 01 01 04 00 01 01 01",
    "a byte behind the headers": "0e 00 00 00 01 01 00 00",
    "a byte behind the record": "0c 00 00 00 01 01 00 00",
    "length -1": "01",
    "length of 32 bits": "fe ff ff ff 0f 00 00 00 01 01 00",
    "overlong offset delta": "16 00 00 80 80 80 80 80 00 01 01 00",
    "offset delta of 33 bits": "14 00 00 80 80 80 80 10 01 01 00",
    "overlong timestamp delta": "20 00 80 80 80 80 80 80 80 80 80 80 00 00 01 01 00",
    "timestamp delta of 65 bits": "1e 00 80 80 80 80 80 80 80 80 80 02 00 01 01 00",
    "overlong length": "8c 80 80 80 80 00 00 00 00 01 01 00",
}


def batch_around(payload: bytes, count: int = 1, attributes: int = 0) -> bytes:
    """A batch with a right checksum around whatever `payload` is."""
    data = bytearray(build_batch([], last_offset=max(count - 1, 0)))
    data[21:23] = struct.pack(">h", attributes)
    data[57:61] = struct.pack(">i", count)
    data += payload
    data[8:12] = struct.pack(">i", len(data) - 12)
    seal(data)
    return bytes(data)
