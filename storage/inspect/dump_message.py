"""Explains messages of formats 0 and 1 in a `.log` file, wrappers and what is in them (see `dump.py`).

The rulers are in `protocol/records/legacy_record.py`. A message stands where a batch does; a wrapper's inner messages
come as its records, with the offsets that they have in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.records.attributes import Compression
from ...protocol.records.exceptions import RecordError
from ...protocol.records.legacy_record import (
    LegacyRecord,
    iterate_legacy_messages,
    iterate_legacy_records,
    read_legacy_header,
    read_legacy_record,
    unwrap,
)
from ...protocol.records.record_batch import BatchHeader, Record
from ..segment.batch_walk import Found, computed_crc
from .dump import Part, Value, contents, contents_text, part_of, printable, time_name

_MAGIC_V0 = 0


def explain_message(found: Found, base_offset: int, *, records: bool, data: bool) -> Iterator[Part]:
    """Explain one message; with `records` the messages in a wrapper too, with `data` keys and values."""
    header = read_legacy_header(found.data, offset_in_file=found.position)
    crc = computed_crc(found.data, found.magic) if found.is_whole else header.crc
    problem = ""
    if crc != header.crc:
        problem = f"the bytes have the crc {crc}"
    elif header.base_offset < base_offset:
        problem = f"offset {header.base_offset} is below the segment's, {base_offset}"
    elif header.compression > Compression.LZ4:
        problem = f"format {found.magic} has no codec with the id {header.compression}"
    elif not found.is_whole:
        problem = "the message is too large to be read: only its header is explained"
    codec = Compression(header.compression).name.lower() if header.compression <= Compression.ZSTD else "unknown"
    fields: dict[str, Value] = {
        "offset": header.base_offset,
        "position": found.position,
        _time_name(header): header.max_timestamp,
        "size": found.size,
        "magic": found.magic,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": crc == header.crc,
    }
    yield part_of("batch", found.position, found.size, fields, problem)
    if records and found.is_whole:
        yield from _inner(found, header, data)


def _time_name(header: BatchHeader) -> str:
    return "NoTimestampType" if header.magic == _MAGIC_V0 else time_name(header.is_append_time)


def _inner(found: Found, header: BatchHeader, data: bool) -> Iterator[Part]:
    try:
        message = read_legacy_record(found.data)
        if not message.is_wrapper:
            [record] = iterate_legacy_records(message)
            crc = computed_crc(found.data, found.magic)
            yield _record(header, message, record, crc == message.crc, data, (found.position, found.size))
            return
        # The second walk knows the offsets and checks each message, the first has the checksums.
        inner = iterate_legacy_messages(unwrap(message))
        for raw, record in zip(inner, iterate_legacy_records(message), strict=True):
            yield _record(header, raw, record, True, data, (-1, 0))
    except RecordError as error:
        yield Part("record", -1, 0, f"| {printable(str(error))}", {}, f"can't be read: {error}")


def _record(
    header: BatchHeader, raw: LegacyRecord, record: Record, is_valid: bool, data: bool, place: tuple[int, int]
) -> Part:
    fields: dict[str, Value] = {
        "offset": record.offset,
        _time_name(header): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "isValid": is_valid,
        "crc": raw.crc,
    }
    part = part_of("record", *place, fields)
    text = f"| {part.text}"
    if data:
        text += contents_text(record.key, record.value)
        fields |= contents(record.key, record.value)
    return part._replace(text=text, fields=fields)
