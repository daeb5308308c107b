"""Message formats are converted by the kernel as by its twin in plain Python: the same bytes, the same errors, the same words.

Inputs are logs and message sets of every format and codec, whole and damaged: outside, with the checksum made right again, and
within what is compressed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import conversion_reference as twin
from support.conversion_reference import resealed
from tidelog.protocol.records import conversion
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import append_record, build_batch, seal
from tidelog.protocol.records.compression import compress
from tidelog.protocol.records.exceptions import RecordError
from tidelog.protocol.records.legacy_record import append_legacy_record, build_legacy_set
from tidelog.protocol.records.lz4_header import with_historical_check
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.protocol.records.record_batch import BatchHeader, Record, read_batch_header
from tidelog.storage.log import validator
from tidelog.storage.log.validator import AppendRules, TargetCompression, TargetFormat

TIMES = [-1, -1, 0, 1_600_000_000_000, 1_600_000_000_001, 2**62, 2**63 - 1, -(2**63), -5]
NO_LIMIT = 2**63 - 1


def outcome(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What it returned, bytes of any kind as bytes; or class, text and faults of what it raised."""
    try:
        found = call(*given, **named)
    except (RecordError, ValueError) as error:
        return type(error), str(error), getattr(error, "record_index", None), getattr(error, "faults", None)
    if isinstance(found, tuple):
        return tuple(bytes(part) if isinstance(part, (bytes, bytearray, memoryview)) else part for part in found)
    return bytes(found) if isinstance(found, (bytes, bytearray)) else found


def content(chance: random.Random) -> list[Record]:
    def data() -> bytes | None:
        return chance.choice(
            [None, b"", b"k", chance.randbytes(chance.choice([1, 63, 64, 200])), bytes(9000)][: chance.choice([4, 5])]
        )

    count = chance.choice([1, 1, 2, 3, 7, 40])
    headers = ((b"h", b"1"), (b"", None)) if chance.random() < 0.3 else ()
    return [Record(0, chance.choice(TIMES), data(), data(), headers) for _ in range(count)]


def damaged(chance: random.Random, data: bytes) -> bytes:
    """With some bytes changed, left out or put in."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 2])):
        at = chance.randrange(min(len(out), 90)) if chance.random() < 0.7 else chance.randrange(len(out))
        action = chance.randrange(5)
        if action == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif action == 1:
            out[at] = chance.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF])
        elif action == 2:
            del out[at : at + chance.randint(1, 9)]
        elif action == 3:
            out[at:at] = chance.randbytes(chance.randint(1, 9))
        else:
            out[at : at + 4] = struct.pack(">i", chance.choice([-2, -1, 0, 13, 14, 21, 22, len(out), 2**31 - 1]))
        out = out or bytearray(1)
    return bytes(out)


def wrapper(chance: random.Random, magic: int, last: int, inner: bytes, codec: Compression) -> bytes:
    """A wrapper around anything."""
    stream = compress(codec, inner)
    if codec is Compression.LZ4 and magic == 0 and chance.random() < 0.9:
        stream = with_historical_check(stream)
    out = bytearray()
    key = b"k" if chance.random() < 0.05 else None
    kind = 8 * (chance.random() < 0.3)
    append_legacy_record(out, magic, last, chance.choice(TIMES), key, stream, int(codec) | kind)
    return bytes(out)


def piece(chance: random.Random, base: int) -> tuple[bytes, int]:
    """A batch, a wrapper, or plain messages from offset `base` on; and the offset behind them."""
    records = content(chance)
    step, gap = chance.choice([1, 1, 3]), chance.choice([0, 2])
    offsets = [base + gap + step * index for index in range(len(records))]
    magic = chance.randint(0, 2)
    kind = chance.choice(list(TimestampType))
    codec = chance.choice(list(Compression))
    if magic == 2:
        last = offsets[-1] + chance.choice([0, 0, 4])
        how: dict[str, Any] = {"is_control": True} if chance.random() < 0.1 else {}
        if chance.random() < 0.1:
            records, offsets = [], []
        return build_batch(
            records, base_offset=base, offsets=offsets, last_offset=last, compression=codec, timestamp_type=kind,
            append_time=chance.choice(TIMES), delete_horizon=chance.choice([None, None, 7]), **how,
        ), last + 1  # fmt: skip
    codec = min(codec, Compression.LZ4)  # zstd came with format 2
    if chance.random() < 0.2 and codec:
        first = chance.choice([0, 1, base])
        inner = b"".join(
            build_legacy_set(
                [record], magic=chance.choice([magic] * 9 + [1 - magic]), base_offset=first + chance.choice([at, at, 0])
            )
            for at, record in enumerate(records)
        )
        if chance.random() < 0.5:
            inner = damaged(chance, inner)
        if chance.random() < 0.7:
            inner = resealed(inner)
        return wrapper(chance, magic, offsets[-1], inner, codec), offsets[-1] + 1
    data = build_legacy_set(
        records, magic=magic, base_offset=offsets[0], offsets=offsets, compression=codec, timestamp_type=kind,
        append_time=chance.choice(TIMES),
    )  # fmt: skip
    return data, offsets[-1] + 1


def slice_of_a_log(chance: random.Random) -> bytes:
    parts, base = [], chance.choice([0, 0, 5, 2**40])
    for _ in range(chance.choice([1, 1, 2, 4])):
        part, base = piece(chance, base)
        parts.append(part)
    if chance.random() < 0.1:
        chance.shuffle(parts)
    data = b"".join(parts)
    if chance.random() < 0.3:
        data = data[: chance.randrange(len(data) + 1)] or b"\0"
    if chance.random() < 0.5:
        data = damaged(chance, data)
        if chance.random() < 0.7:
            data = resealed(data)
    return data


@pytest.mark.parametrize("seed", range(40))
def test_a_slice_of_a_log_is_converted_as_by_the_twin(seed: int) -> None:
    chance = random.Random(seed)
    kinds = set()
    for _ in range(150):
        data = slice_of_a_log(chance)
        magic = chance.randint(0, 2)
        first = chance.choice([-1, 0, 1, 3, 10, 2**40, 2**40 + 2])
        how = {
            "max_bytes": chance.choice([None, 1, 40, 100, 1000, 20_000]),
            "max_decompressed": chance.choice([1 << 20, 1000]),
        }
        assert outcome(conversion.needs_conversion, data, magic) == outcome(twin.needs_conversion, data, magic)
        expected = outcome(twin.down_convert, data, magic, first, **how)
        found = outcome(conversion.down_convert, memoryview(data), magic, first, **how)
        assert found == expected, (seed, data.hex(), magic, first, how)
        kinds.add(expected[0] if isinstance(expected[0], type) else "converted")
        try:
            headers = list(iterate_batches(data))
        except RecordError:
            continue
        for header in headers:
            wanted: dict[str, Any] = {
                "compression": chance.choice([None, None, *Compression]),
                "level": None,
                "partition_leader_epoch": chance.choice([-1, 4]),
                "max_decompressed": how["max_decompressed"],
            }
            assert outcome(conversion.convert_batch, data, header, magic, **wanted) == outcome(
                twin.convert_batch, data, header, magic, **wanted
            ), (seed, data.hex(), header, magic, wanted)
    assert "converted" in kinds
    assert len(kinds) >= 4, kinds


def unlikely_batch(deltas: list[int], count: int) -> bytes:
    """A batch of format 2 with any offset deltas, which says that it has `count` records."""
    out = bytearray(build_batch([], last_offset=max(deltas), partition_leader_epoch=1))
    for delta in deltas:
        append_record(out, delta, 5, Record(0, 0, b"k", b"v" * 30))
    out[8:12] = struct.pack(">i", len(out) - 12)
    out[57:61] = struct.pack(">i", count)
    seal(out)
    return bytes(out)


def unlikely_logs() -> Iterator[bytes]:
    """What no damage is likely to make."""
    record = [Record(0, 5, b"k", b"v" * 30)]
    plain = [build_legacy_set(record, magic=magic, base_offset=offset) for magic in (0, 1) for offset in (0, 3, 5)]
    yield from (unlikely_batch(deltas, len(deltas)) for deltas in ([3, 1, 2], [1, 1], [0, 4, 2], [5, 6, 7]))
    yield from (unlikely_batch([0, 1, 2], count) for count in (0, 1, 2, 4, -1))
    yield build_batch(record) + unlikely_batch([3, 1], 2)
    for magic in (0, 1):
        own = plain[3 * magic : 3 * magic + 3]
        other = plain[3 - 3 * magic]
        nested = build_legacy_set(record, magic=magic, compression=Compression.GZIP)
        far = build_legacy_set(record, magic=magic, base_offset=2**40)
        negative = bytearray(own[0])
        negative[0] = 0xFF
        inners = [b"", own[0], own[1] + own[0], own[0] * 2, own[0] + other, nested, own[0] + far, own[0][:20]]
        inners += [bytes(negative) + own[0], own[0] + own[1] + own[2][:-1], own[0][:12], own[0] + own[0][:5]]
        for inner in inners:
            for last in (0, 3, 2**40, 2**63 - 1, -1):
                for codec in (Compression.GZIP, Compression.LZ4):
                    out = bytearray()
                    stream = compress(codec, inner)
                    stream = with_historical_check(stream) if codec is Compression.LZ4 and not magic else stream
                    append_legacy_record(out, magic, last, 9, None, stream, codec)
                    yield bytes(out)
        for key, value in ((None, None), (b"k", compress(Compression.GZIP, own[0])), (None, b""), (None, b"abc")):
            out = bytearray()
            append_legacy_record(out, magic, 5, 9, key, value, Compression.GZIP)
            yield bytes(out)
        yield bytes(negative) + own[1]
        yield own[1] + own[0] + own[2] + own[2]  # a row that does not rise: each stands for itself
        yield own[1] + bytes(negative)


def test_what_no_damage_is_likely_to_make_is_converted_as_by_the_twin() -> None:
    rules = AppendRules(7, 3, -1, False, -(2**63), NO_LIMIT, 1 << 20)
    texts = set()
    for data in unlikely_logs():
        for magic in (0, 1, 2):
            for first in (-1, 0, 4):
                for most in (None, 57, 65, 70, 114, 200):  # 57 and 65 bytes: a message
                    expected = outcome(twin.down_convert, data, magic, first, max_bytes=most)
                    found = outcome(conversion.down_convert, data, magic, first, max_bytes=most)
                    assert found == expected, (data.hex(), magic, first, most)
                    texts.add(str(expected[1]))
            expected = outcome(twin.validate_message_set, data, 0, len(data), TargetFormat(magic, None), rules)
            found = outcome(validator.validate_message_set, data, 0, len(data), TargetFormat(magic, None), rules)
            assert found == expected, (data.hex(), magic)
            texts.add(str(expected[1]))
            for header in outcome(lambda data=data: list(iterate_batches(data))):
                if isinstance(header, BatchHeader):
                    expected = outcome(twin.convert_batch, data, header, magic)
                    assert outcome(conversion.convert_batch, data, header, magic) == expected, (data.hex(), magic)
                    texts.add(str(expected[1]) if isinstance(expected, tuple) else "")
    for words in (
        "is compressed itself", "ends with the message", "holds no messages", "has no value", "has a key", "do not rise",
        "does not rise", "bytes are left over behind", "record count -1", "are left over in a wrapper", "has the size",
        "does not fit a batch at",
    ):  # fmt: skip
        assert any(words in text for text in texts), words


def message_set(chance: random.Random) -> bytes:
    """What a producer may send, or tries to."""
    records = content(chance)
    magic = chance.randint(0, 1)
    codec = chance.choice([Compression.NONE, Compression.NONE, *list(Compression)[:4]])
    if codec:
        first = chance.choice([0, 0, 7])
        inner = build_legacy_set(records, magic=magic, base_offset=first)
        if chance.random() < 0.2:
            inner = build_legacy_set(records[:1] * len(records), magic=magic) * 2  # numbered by nobody
        if chance.random() < 0.3:
            inner = damaged(chance, inner)
            if chance.random() < 0.7:
                inner = resealed(inner)
        data = wrapper(chance, magic, 0, inner, codec)
    else:
        data = b"".join(
            build_legacy_set(
                [record], magic=magic, timestamp_type=chance.choice([TimestampType.CREATE_TIME] * 3 + list(TimestampType)),
                append_time=chance.choice(TIMES),
            )
            for record in records
        )  # fmt: skip
    if chance.random() < 0.05:
        data += build_legacy_set(records, magic=chance.randint(0, 1), compression=Compression.GZIP)
    if chance.random() < 0.3:
        data = damaged(chance, data)
        if chance.random() < 0.7:
            data = resealed(data)
    return data


@pytest.mark.parametrize("seed", range(40))
def test_a_message_set_is_made_ready_as_by_the_twin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 4 == 0:  # so that a set may have too many
        for module in (validator, twin):
            monkeypatch.setattr(module, "MOST_WRAPPED", 5)
            monkeypatch.setattr(module, "LEAST_MESSAGE_BYTES", 1 << 20)
    chance = random.Random(seed)
    kinds = set()
    for _ in range(150):
        data = message_set(chance)
        framed = b"head" + data + b"tail"
        newest = 4 if chance.random() < 0.5 else 3
        target = TargetFormat(
            chance.randint(0, 2),
            chance.choice([None, TargetCompression(Compression(chance.randint(0, newest)), None)]),
        )
        rules = AppendRules(
            base_offset=chance.choice([0, 900, 2**40]),
            leader_epoch=3,
            append_time_ms=chance.choice([-1, -1, 0, 77_000]),
            require_keys=chance.random() < 0.2,
            earliest=chance.choice([-(2**63), -(2**63), 0]),
            latest=chance.choice([NO_LIMIT, NO_LIMIT, 1_600_000_000_000]),
            max_message_bytes=chance.choice([1 << 20, 1 << 20, 300, 100]),
        )
        expected = outcome(twin.validate_message_set, framed, 4, 4 + len(data), target, rules)
        found = outcome(validator.validate_message_set, framed, 4, 4 + len(data), target, rules)
        assert found == expected, (seed, data.hex(), target, rules)
        failed = isinstance(expected[0], type)
        kinds.add(expected[0] if failed else "taken")
        if not failed:
            records = validator.ValidatedRecords(*expected)
            place = (rules.base_offset + chance.choice([0, 5]), chance.choice([-1, 88_000]))
            assert outcome(validator.moved, records, *place) == outcome(twin.moved, records, *place)
    assert "taken" in kinds
    assert len(kinds) >= 4, kinds


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_for_a_topic_of_an_old_format_is_described_as_by_the_twin(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        data = build_batch(content(chance), base_offset=50, compression=chance.choice(list(Compression)[:4]))
        header, magic = read_batch_header(data), chance.randint(0, 1)
        most = chance.choice([1 << 20, 200])
        made = conversion.convert_batch(data, header, magic)
        expected = outcome(twin.describe, made, magic, header, most)
        assert outcome(validator._describe, made, magic, header, most) == expected  # type: ignore[arg-type]


def test_timestamps_further_apart_than_63_bits_are_kept() -> None:
    records = [Record(0, 2**63 - 1, None, b"a"), Record(0, -(2**63), None, b"b"), Record(0, -1, None, b"c")]
    data = build_legacy_set(records, magic=1)
    rules = AppendRules(0, 0, -1, False, -(2**63), NO_LIMIT, 1 << 20)
    stored = validator.validate_message_set(data, 0, len(data), TargetFormat(2, None), rules).data
    for batch in (stored, build_batch(records)):
        times = [record.timestamp for record in twin.iterate_records(batch)]
        assert times == [2**63 - 1, -(2**63), -1]
