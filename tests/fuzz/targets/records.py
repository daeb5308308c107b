"""Records: batches of formats 0, 1 and 2 through the compiled kernels and their plain twins, and what compresses them.

A random byte in a batch breaks its checksum, and nothing behind the checksum would ever be reached. So the first byte of an
input says what is mended before the decoder sees the rest: sizes and checksums, and whether what follows a header is plain
and has to be compressed first.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from fuzz.target import target
from support import cleaner_reference, conversion_reference
from support import records_reference as reference
from support.columns import rows_of
from tidelog.cleaner.kernel import _kernel as cleaner_kernel
from tidelog.cleaner.kernel.results import Stop
from tidelog.protocol.message_set.entries import read_message_set
from tidelog.protocol.message_set.wire import MalformedAnswer
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records import record_batch
from tidelog.protocol.records._columns import ColumnBuilder
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.compression import compress, decompress
from tidelog.protocol.records.conversion import convert_batch, down_convert, needs_conversion
from tidelog.protocol.records.exceptions import InvalidRecordError, RecordError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import is_intact, iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import RECORD_BATCH_OVERHEAD, BatchHeader, Record
from tidelog.storage.log.validator import AppendRules, TargetFormat, ValidatedRecords, moved, validate_message_set

MOST = 1 << 20
"""Bytes that a batch may hold once decompressed, in every target here."""
MEND, COMPRESS = 1, 2
"""Bits of the first byte."""
_LENGTH = struct.Struct(">i")
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT = 8, 16, 21
_BASE_OFFSET = struct.Struct(">q")


def mended(data: bytes) -> bytes:
    """Batches of format 2, end to end, whose sizes, magics and checksums are right, out of any bytes; a rest stays."""
    if not data:
        return b""
    how, rest = data[0], data[1:]
    if not how & MEND:
        return rest
    out = bytearray()
    while len(rest) >= RECORD_BATCH_OVERHEAD:
        (length,) = _LENGTH.unpack_from(rest, _LENGTH_AT)
        end = 12 + length
        if not RECORD_BATCH_OVERHEAD <= end <= len(rest):
            end = len(rest)
        batch = bytearray(rest[:end])
        rest = rest[end:]
        codec = batch[_ATTRIBUTES_AT + 1] & 7
        if how & COMPRESS and codec <= max(Compression):
            batch[RECORD_BATCH_OVERHEAD:] = compress(codec, bytes(batch[RECORD_BATCH_OVERHEAD:]))
        batch[_MAGIC_AT] = 2
        _LENGTH.pack_into(batch, _LENGTH_AT, len(batch) - 12)
        seal(batch)
        out += batch
    return bytes(out) + rest


def exact(data: bytes) -> Any:
    """The same in memory that ends with it. Behind bytes there is a NUL, where a sanitizer sees nobody read one byte too many."""
    return array("B", data) * 1


def outcome(call: Callable[[], Any]) -> Any:
    """What it returned, or the class of what it raised and the record that it names."""
    try:
        return call()
    except RecordError as error:
        faults = [fault.record_index for fault in getattr(error, "faults", ())]
        return type(error), getattr(error, "record_index", None), faults


def failed(result: Any) -> bool:
    return isinstance(result, tuple) and bool(result) and isinstance(result[0], type)


def fields(info: Any) -> tuple[int, ...]:
    return tuple(getattr(info, name) for name in BatchHeader._fields)


RECORDS = [
    Record(0, 1_600_000_000_000, b"k", b"v" * 20, ((b"h", b"1"), (b"", None))),
    Record(1, 1_599_999_999_999, None, None, ()),
    Record(2, 2**62, b"", b"", ()),
]


def cut_batches() -> Iterator[bytes]:
    """Whole by their headers, and without the end of their last record."""
    for data in batches():
        yield from (data, data[:-1], data[:-2])
    # A record that ends in mid-field, at the end of all: who reads on reads what is not his.
    header = bytes([MEND]) + bytes(build_batch(RECORDS))[:RECORD_BATCH_OVERHEAD]
    yield from (
        header + record for record in (b"\x80", b"\2\0", b"\4\0\x80", b"\4\0\0", b"\6\0\0\x80", b"\x0a\0\0\0\4a")
    )


def batches() -> Iterator[bytes]:
    for codec in Compression:
        batch = bytearray(build_batch(RECORDS, producer_id=5, producer_epoch=1, base_sequence=9))
        yield bytes([0]) + bytes(build_batch(RECORDS, compression=codec))
        batch[_ATTRIBUTES_AT + 1] |= codec
        yield bytes([MEND | COMPRESS]) + bytes(batch)
    yield bytes([MEND]) + bytes(build_batch(RECORDS[:1], is_control=True, delete_horizon=3))
    yield bytes([MEND]) + bytes(build_batch([], last_offset=4))
    stamped = build_batch(RECORDS[:2], timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=1_600_000_000_000)
    yield bytes([MEND]) + bytes(stamped)
    marker = Record(9, 5, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0))
    of = {"producer_id": 5, "producer_epoch": 1, "is_transactional": True}
    yield bytes([MEND]) + b"".join(
        (
            build_batch(RECORDS, base_sequence=0, **of),  # type: ignore[arg-type]
            build_batch([marker], base_offset=9, is_control=True, **of),  # type: ignore[arg-type]
            build_batch(RECORDS, base_offset=12),
        )
    )


@target(seeds=cut_batches, extra=8 * MOST, growth=2000)
def batch_kernel(data: bytes) -> None:
    """One batch of format 2, as it comes from a client and as it is read again: the kernel and its twin agree."""
    batch = mended(data)
    end, ends = len(batch), exact(batch)
    for arguments in (
        {"append_time_ms": -1, "require_keys": False, "from_client": True},
        {"append_time_ms": 1_600_000_000_001, "require_keys": True, "from_client": False, "latest_timestamp": 2**60},
    ):
        ours, twins = bytearray(b"#" + batch + b"#"), bytearray(b"#" + batch + b"#")

        def by_kernel(buffer: bytearray = ours, arguments: dict[str, Any] = arguments) -> Any:
            info = kernel.validate_and_assign(buffer, 1, 1 + end, 7, 3, max_decompressed=MOST, **arguments)
            return fields(info), info.records_max_timestamp, info.records_min_timestamp, info.max_timestamp_delta

        def by_twin(buffer: bytearray = twins, arguments: dict[str, Any] = arguments) -> Any:
            header, *seen = reference.validate_and_assign(buffer, 1, 1 + end, 7, 3, max_decompressed=MOST, **arguments)
            return fields(header), *seen

        found, expected = outcome(by_kernel), outcome(by_twin)
        assert found == expected, (found, expected)
        assert ours == twins
        assert not failed(found) or ours == b"#" + batch + b"#", "a refused batch was changed"
    assert outcome(lambda: fields(kernel.read_header(ends, 0, end))) == outcome(
        lambda: fields(reference.read_header(batch, 0, end))
    )
    expected = outcome(lambda: list(iterate_records(batch, 0, end, max_decompressed=MOST)))
    if end >= 17 and batch[_MAGIC_AT] == 2:
        found = outcome(lambda: kernel.decode_records(ends, 0, end, MOST))
        assert found == expected, (found, expected)
    strict = outcome(lambda: reference.find_timestamp(batch, 0, end, 1_600_000_000_000, -1, MOST))
    found = outcome(lambda: kernel.find_timestamp(ends, 0, end, 1_600_000_000_000, -1, MOST))
    assert failed(strict) or found == strict  # the twin looks at the whole batch even where the answer comes early
    assert outcome(lambda: kernel.max_timestamp_record(ends, 0, end, MOST)) == outcome(
        lambda: reference.max_timestamp_record(batch, 0, end, MOST)
    )


STATE = (
    "valid_bytes", "next_offset", "max_timestamp", "offset_of_max_timestamp", "first_timestamp", "batch_count", "record_count",
    "needed", "leader_epoch", "offset_index_entries", "time_index_entries", "leader_epochs", "stopped",
)  # fmt: skip


def logs() -> Iterator[bytes]:
    yield from cut_batches()
    for magic in (0, 1):
        records = [record._replace(headers=(), timestamp=5 if magic else -1) for record in RECORDS]
        yield b"\0" + bytes(build_legacy_set(records, magic=magic))
        yield b"\0" + bytes(build_legacy_set(records, magic=magic, compression=Compression.GZIP))


@target(seeds=logs, extra=8 * MOST, growth=2000)
def log_kernel(data: bytes) -> None:
    """A piece of a log: the scanner of recovery, look-ups and counts agree with their twins, in one piece and in two."""
    log = mended(data)
    end, ends = len(log), exact(log)
    for check_crc in (True, False):
        ours, twin = kernel.BatchScanner(0, 0, check_crc), reference.BatchScanner(0, 0, check_crc)
        taken = ours.feed(ends, 0, end, 0)
        assert taken == twin.feed(log, 0, end, 0) <= end
        assert [getattr(ours, name) for name in STATE] == [getattr(twin, name) for name in STATE]
        parts = kernel.BatchScanner(0, 0, check_crc)
        first = parts.feed(ends, 0, end // 2, 0)
        if parts.stopped is None:
            first += parts.feed(ends, first, end, first)
        assert first == taken
        assert [getattr(parts, name) for name in STATE] == [getattr(ours, name) for name in STATE]
    for offset in (0, 3, 10):
        assert outcome(lambda offset=offset: kernel.find_batch(ends, 0, end, offset)) == outcome(
            lambda offset=offset: reference.find_batch(log, 0, end, offset)
        )
        assert outcome(lambda offset=offset: kernel.count_records(ends, 0, end, offset)) == outcome(
            lambda offset=offset: reference.count_records(log, 0, end, offset)
        )
    headers = outcome(lambda: list(record_batch.iterate_batches(log)))
    assert failed(headers) or sum(header.size for header in headers) <= end
    assert outcome(lambda: kernel.next_batch_position(ends, 0, end)) == outcome(
        lambda: reference.next_batch_position(log, 0, end)
    )


@target(RecordError, seeds=logs, extra=8 * MOST, growth=2000)
def old_formats(data: bytes) -> None:
    """What is read of any format, converted to each other one."""
    log = mended(data)
    for header in iterate_batches(log):
        end = header.position + header.size
        assert 0 < header.size <= len(log) - header.position
        is_intact(log, header)
        records = list(iterate_records(log, header.position, end, max_decompressed=MOST))
        for magic in (0, 1, 2):
            converted = convert_batch(log, header, magic, max_decompressed=MOST)
            if header.is_control or magic == header.magic or not converted:
                continue
            again = [one for part in iterate_batches(converted) for one in iterate_records(converted, part.position)]
            assert [(one.offset, one.key, one.value) for one in again] == [
                (one.offset, one.key, one.value) for one in records
            ]
    for magic in (0, 1):
        if needs_conversion(log, magic):
            down_convert(log, magic, max_bytes=5000, max_decompressed=MOST)


def told(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What it returned, or the class and the words of what it raised."""
    try:
        found = call(*given, **named)
    except (RecordError, ValueError) as error:
        return type(error), str(error), getattr(error, "faults", ())
    parts = found if isinstance(found, tuple) else (found,)
    return [bytes(part) if isinstance(part, (bytes, bytearray)) else part for part in parts]


def old_logs() -> Iterator[bytes]:
    """The first byte says whether checksums are made right, and what is asked for."""
    for how, data in enumerate(logs()):
        yield bytes([1 + 2 * how % 256]) + data[1:]
    records = [record._replace(headers=(), timestamp=5) for record in RECORDS]
    for magic in (0, 1):
        for codec in list(Compression)[:4]:
            yield b"\x31" + bytes(build_legacy_set(records, magic=magic, base_offset=3, compression=codec)) * 2


@target(seeds=old_logs, extra=12 * MOST, growth=3000)
def conversions(data: bytes) -> None:
    """Formats 0, 1 and 2 by the kernel of conversions, as by its twin: the same bytes, or the same error in the same words."""
    how, log = (data[0], data[1:]) if data else (0, b"")
    if how & 1:
        log = conversion_reference.resealed(log)
    magic, limit = how >> 1 & 3, (None, 60, 1000, 100_000)[how >> 3 & 3]
    ends, end = exact(log), len(log)
    assert told(needs_conversion, ends, magic) == told(conversion_reference.needs_conversion, log, magic)
    given: dict[str, Any] = {"max_bytes": limit, "max_decompressed": MOST}
    assert told(down_convert, ends, min(magic, 2), how >> 5, **given) == told(
        conversion_reference.down_convert, log, min(magic, 2), how >> 5, **given
    )
    target = TargetFormat(min(magic, 2), None)
    rules = AppendRules(100, 2, -1 if how & 16 else 77, bool(how & 32), 0, 2**62, 1 << 14)
    expected = told(conversion_reference.validate_message_set, log, 0, end, target, rules)
    assert told(validate_message_set, ends, 0, end, target, rules) == expected
    if isinstance(expected, list):
        ready = ValidatedRecords(*expected)
        assert told(moved, ready, 130, 88) == told(conversion_reference.moved, ready, 130, 88)
    try:
        headers = list(iterate_batches(log))
    except RecordError:
        return
    for header in headers:
        assert told(convert_batch, ends, header, min(magic, 2), max_decompressed=MOST) == told(
            conversion_reference.convert_batch, log, header, min(magic, 2), max_decompressed=MOST
        )


@target(RecordError, MalformedAnswer, seeds=logs, extra=8 * MOST, growth=2000, large=1 << 20)
def message_sets(data: bytes) -> None:
    """A fetched set, as our clients read it."""
    found = read_message_set(mended(data), 0, max_decompressed=MOST)
    assert found.next_offset >= 0
    assert found.next_offset > 0 or not found.records


@target(RecordError, seeds=cut_batches, extra=8 * MOST, growth=2000)
def columns(data: bytes) -> None:
    """A batch into Arrow's columns has the rows that the plain reader finds."""
    batch = mended(data)
    builder = ColumnBuilder(keys=True, values=True, headers=True)
    try:
        count = builder.add_batch(exact(batch), 0, len(batch), check_crc=False, max_decompressed=MOST)
    except RecordError:
        assert rows_of(builder.take()) == []
        raise
    rows = rows_of(builder.take())
    assert len(rows) == count
    expected = list(iterate_records(batch, 0, len(batch), max_decompressed=MOST))
    assert [(row.offset, row.key, row.value, row.headers) for row in rows] == [
        (record.offset, record.key, record.value, tuple(record.headers)) for record in expected
    ]


class Pass(NamedTuple):
    """What came of a pass over a log."""

    stops: tuple[Any, ...]
    survivors: bytes
    counts: Any
    transactions: Any


def clean(module: ModuleType, log: bytes, check_crc: bool) -> Pass:
    """Both passes with a small map, a small output, and an aborted transaction."""
    map_ = module.OffsetMap(24 * 64, 1.0)
    map_.reset(bytes(range(16)))
    transactions = module.Transactions([(5, 0, 9)])
    options = {"check_crc": check_crc, "max_decompressed": MOST}
    built = map_.build(log, 0, len(log), 0, 1 << 40, transactions, **options)
    record_filter = module.RecordFilter(map_, 1 << 40, transactions, 1_700_000_000_000, 86_400_000, **options)
    output = bytearray(3 * len(log) + 200)
    position, survivors, stops = 0, b"", [built.stopped, built.consumed]
    for _ in range(50):
        step = record_filter.filter(log, position, len(log), output)
        assert step.produced <= len(output)
        survivors += bytes(output[: step.produced])
        position += step.consumed
        stops += [step.stopped, step.consumed, step.produced]
        if step.stopped is not Stop.OUTPUT or (not step.produced and step.needed > 4 * MOST):
            break
        if not step.produced:
            output = bytearray(step.needed)
    return Pass(
        tuple(stops), survivors, record_filter.take_counts(), (transactions.open_producers(), transactions.take_kept_aborts())
    )  # fmt: skip


@target(seeds=logs, extra=12 * MOST, growth=2000)
def cleaner(data: bytes) -> None:
    """Both passes of the cleaner: the kernel, with native codecs and without, and its twin."""
    log = mended(data)
    for check_crc in (True, False):
        expected = outcome(lambda check_crc=check_crc: clean(cleaner_reference, log, check_crc))
        for codecs in (cleaner_kernel.native_codecs(), frozenset()):
            cleaner_kernel._use_native(codecs)
            try:
                found = outcome(lambda check_crc=check_crc: clean(cleaner_kernel, exact(log), check_crc))
            finally:
                cleaner_kernel._use_native(cleaner_kernel.native_codecs())
            if failed(expected) and issubclass(expected[0], InvalidRecordError):
                continue  # the kernel looks into neither headers nor records of control batches: they stay as they are
            assert failed(found) == failed(expected), (found, expected)
            assert failed(found) or found == expected, (found, expected)


def streams() -> Iterator[bytes]:
    for codec in Compression:
        for content in (b"", b"a", b"abc" * 500, bytes(3000)):
            yield bytes([codec]) + compress(codec, content)
    # Too long to be read in one step, whatever it holds.
    yield bytes([Compression.LZ4]) + compress(Compression.LZ4, random.Random(1).randbytes(6000))
    # Blocks behind the header: repeated, there are many of them in one stream.
    yield bytes([Compression.SNAPPY]) + compress(Compression.SNAPPY, b"a")[:16] + b"\0\0\0\1\0"


@target(RecordError, seeds=cut_batches, extra=8 * MOST, growth=2000, large=1 << 20, cpu_us=2.0)
def stored_batch(data: bytes) -> None:
    """One batch through all that a broker does with it in compiled code, when it comes and when it is read."""
    batch = bytearray(mended(data))
    end = len(batch)
    if end >= RECORD_BATCH_OVERHEAD:
        # As many records as there are zero bytes behind the header would be: the walk does not end with the first.
        count = max(1, (end - RECORD_BATCH_OVERHEAD) // 8)
        struct.pack_into(">i", batch, 57, count)
        struct.pack_into(">i", batch, 23, count - 1)
        seal(batch)
    kernel.BatchScanner(0, 0, True).feed(batch, 0, end, 0)
    for read in (
        lambda: kernel.validate_and_assign(bytearray(batch), 0, end, 0, 0, -1, False, max_decompressed=MOST),
        lambda: kernel.find_timestamp(batch, 0, end, 1 << 62, -1, MOST),
        lambda: kernel.decode_records(batch, 0, end, MOST),
        lambda: ColumnBuilder(headers=True).add_batch(batch, 0, end, check_crc=False, max_decompressed=MOST),
        lambda: clean(cleaner_kernel, bytes(batch), False),
    ):
        outcome(read)


#: What a broker may be sent in one batch by default; and 0.5 µs of CPU for a byte of it, ten times what any stream takes.
@target(RecordError, seeds=streams, extra=6 * MOST, large=2 << 20, cpu_us=0.5)
def codecs(data: bytes) -> None:
    """Each codec's stream: never more than it may be, and the same after another round."""
    if not data:
        return
    codec = data[0] % 6
    content = decompress(codec, data[1:], MOST)
    assert len(content) <= MOST
    assert decompress(codec, compress(codec, content), MOST) == content
