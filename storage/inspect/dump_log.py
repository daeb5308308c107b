"""Explains a `.log` file: its batches and messages, with `records` each record too, and bytes that are no batch (see
`dump.py`).

The rulers are in `protocol/records/record_batch.py`, and in `legacy_record.py` for formats 0 and 1: a message stands where a
batch does, and a wrapper's inner messages come as its records, with the offsets that they have in the log. KRaft's snapshots
(`.checkpoint`) are batches too and come here.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

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
from ...protocol.records.record_batch import (
    MAGIC_V2,
    NO_SEQUENCE,
    RECORDS_AT,
    BatchHeader,
    RawRecord,
    Record,
    iterate_raw_records,
    payload_of,
    read_batch_header,
    to_int64,
)
from ..io.filesystem import FileSystem, StrPath
from ..producers.transaction_marker import parse_transaction_marker
from ..segment.batch_walk import Found, Stretch, computed_crc, walk
from .part import (
    Decoder,
    Part,
    Value,
    content,
    contents,
    contents_text,
    optional,
    part_of,
    plain,
    printable,
    text_of,
    time_name,
)

_CONTROL_KEY = Struct(">hh")
_CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
_SEQUENCES = 0x7FFF_FFFF


def explain_log(
    file_system: FileSystem,
    path: StrPath,
    base_offset: int,
    *,
    records: bool = False,
    data: bool = False,
    decode: Decoder | None = None,
) -> Iterator[Part]:
    """Iterate over the batches of the segment that starts at `base_offset`; with `records` their records, with `data`
    keys and values, decoded by `decode` if given.
    """
    file = file_system.open(path, writable=False)
    try:
        for found in walk(file):
            if found.stretch is Stretch.BATCH:
                yield from _batch(found, base_offset, records or data or decode is not None, data, decode)
            elif found.stretch is Stretch.ZEROS:
                text = f"{found.size} zero bytes from position {found.position} on"
                problem = "" if found.position + found.size == file.size() else "zeros between batches"
                yield Part("unused", found.position, found.size, text, {"zeroBytes": found.size}, problem)
            else:
                yield _no_batch(found, file.size())
    finally:
        file.close()


def _no_batch(found: Found, file_size: int) -> Part:
    end = found.position + found.size
    where = "at the end" if end == file_size else f"at position {found.position}, batches go on at {end}"
    text = f"Found {found.size} invalid bytes {where}"
    return Part(found.stretch.value, found.position, found.size, text, {"bytes": found.size}, found.reason)


def _batch(found: Found, base_offset: int, records: bool, data: bool, decode: Decoder | None) -> Iterator[Part]:
    if found.magic < MAGIC_V2:
        yield from explain_message(found, base_offset, records=records, data=data)
        return
    # A header is taken from the batch's bytes; of a batch too large to hold only those 61 are there.
    header = batch_header(found)
    crc = computed_crc(found.data, found.magic) if found.is_whole else header.crc
    problem = _problem_of(header, crc, base_offset)
    if not found.is_whole:
        problem = problem or "the batch is too large to be read: only its header is explained"
    yield _batch_part(header, problem, is_valid=crc == header.crc)
    if records and found.is_whole:
        yield from _records(found, header, data, decode)


def batch_header(found: Found) -> BatchHeader:
    """Header of a batch of any format, with its position in the file."""
    if found.magic < MAGIC_V2:
        return read_legacy_header(found.data, offset_in_file=found.position)
    if found.is_whole:
        return read_batch_header(found.data)._replace(position=found.position)
    # `read_batch_header` wants the whole batch; with its length cut to the header it reads the fields.
    head = bytearray(found.data)
    head[8:12] = (RECORDS_AT - 12).to_bytes(4, "big")
    return read_batch_header(head)._replace(position=found.position, size=found.size)


def _problem_of(header: BatchHeader, crc: int, base_offset: int) -> str:
    if crc != header.crc:
        return f"the bytes have the crc {crc}"
    if header.base_offset < base_offset:
        return f"offset {header.base_offset} is below the segment's, {base_offset}"
    if header.last_offset_delta < 0:
        return f"the last offset delta is {header.last_offset_delta}"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records in {header.last_offset_delta + 1} offsets"
    if header.compression > Compression.ZSTD:
        return f"no codec has the id {header.compression}"
    return ""


def _batch_part(header: BatchHeader, problem: str, *, is_valid: bool) -> Part:
    horizon = header.base_timestamp if header.has_delete_horizon else None
    codec = Compression(header.compression).name.lower() if header.compression <= Compression.ZSTD else "unknown"
    fields: dict[str, Value] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": horizon,
        "position": header.position,
        time_name(header.is_append_time): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": is_valid,
    }
    shown = fields | {"deleteHorizonMs": optional(horizon)}
    text = " ".join(f"{name}: {plain(value)}" for name, value in shown.items())
    return Part("batch", header.position, header.size, text, fields, problem)


def _records(found: Found, header: BatchHeader, data: bool, decode: Decoder | None) -> Iterator[Part]:
    try:
        payload, start, end = payload_of(found.data, header._replace(position=0))
        is_plain = payload is found.data
        for raw in iterate_raw_records(payload, max(header.record_count, 0), start, end):
            at, size = (header.position + raw.start, raw.end - raw.start) if is_plain else (-1, 0)
            yield _record(header, raw, at, size, data, decode)
    except RecordError as error:
        yield Part("record", -1, 0, f"| {printable(str(error))}", {}, f"records can't be read: {error}")


def _record(header: BatchHeader, raw: RawRecord, at: int, size: int, data: bool, decode: Decoder | None) -> Part:
    is_append_time = header.is_append_time
    timestamp = header.max_timestamp if is_append_time else to_int64(header.base_timestamp + raw.timestamp_delta)
    has_sequence = header.base_sequence != NO_SEQUENCE
    names = [text_of(key) for key, _ in raw.headers]
    fields: dict[str, Value] = {
        "offset": to_int64(header.base_offset + raw.offset_delta),
        time_name(is_append_time): timestamp,
        "keySize": -1 if raw.key is None else len(raw.key),
        "valueSize": -1 if raw.value is None else len(raw.value),
        "sequence": (header.base_sequence + raw.offset_delta) & _SEQUENCES if has_sequence else NO_SEQUENCE,
        "headerKeys": list(names),
    }
    text = " ".join(f"{name}: {plain(value)}" for name, value in fields.items() if name != "headerKeys")
    text = f"| {text} headerKeys: [{printable(','.join(names))}]"
    problem = ""
    if raw.offset_delta > header.last_offset_delta or raw.offset_delta < 0:
        problem = f"its offset is not in its batch, which ends at {header.last_offset}"
    if header.is_control:
        control, problem = _control(raw, problem)
        fields |= control
        text += "".join(f" {name}: {value}" for name, value in control.items())
    elif decode is not None:
        key, value, problem = _decoded(decode, raw, problem)
        text += "" if key is None else f" key: {printable(key)}"
        text += "" if value is None else f" payload: {printable(value)}"
        fields |= {"key": key, "value": value}
    elif data:
        text += contents_text(raw.key, raw.value)
        fields |= contents(raw.key, raw.value)
        fields["headers"] = [{"key": text_of(key), **content("value", value)} for key, value in raw.headers]
    return Part("record", at, size, text, fields, problem)


def _decoded(decode: Decoder, raw: RawRecord, problem: str) -> tuple[str | None, str | None, str]:
    try:
        return *decode(_bytes(raw.key), _bytes(raw.value)), problem
    except ValueError as error:
        return text_of(raw.key or b""), text_of(raw.value or b""), f"can't be decoded: {error}"


def _control(raw: RawRecord, problem: str) -> tuple[dict[str, Value], str]:
    """Fields of a control record, and the problem with it ("" if none)."""
    try:
        marker = parse_transaction_marker(_bytes(raw.key), _bytes(raw.value))
    except RecordError as error:
        return {}, str(error)
    if marker is not None:
        kind = _CONTROL_TYPES[marker.is_commit]
        return {"endTxnMarker": kind, "coordinatorEpoch": marker.coordinator_epoch}, problem
    assert raw.key is not None
    _, number = _CONTROL_KEY.unpack_from(raw.key)
    name = _CONTROL_TYPES[number] if 0 <= number < len(_CONTROL_TYPES) else "UNKNOWN"
    return {"controlType": f"{name}({number})"}, problem


def _bytes(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)


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
        yield from _inner_messages(found, header, data)


def _time_name(header: BatchHeader) -> str:
    return "NoTimestampType" if header.magic == _MAGIC_V0 else time_name(header.is_append_time)


def _inner_messages(found: Found, header: BatchHeader, data: bool) -> Iterator[Part]:
    try:
        message = read_legacy_record(found.data)
        if not message.is_wrapper:
            [record] = iterate_legacy_records(message)
            crc = computed_crc(found.data, found.magic)
            yield _message_record(header, message, record, crc == message.crc, data, (found.position, found.size))
            return
        # The second walk knows the offsets and checks each message, the first has the checksums.
        inner = iterate_legacy_messages(unwrap(message))
        for raw, record in zip(inner, iterate_legacy_records(message), strict=True):
            yield _message_record(header, raw, record, True, data, (-1, 0))
    except RecordError as error:
        yield Part("record", -1, 0, f"| {printable(str(error))}", {}, f"can't be read: {error}")


def _message_record(
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
