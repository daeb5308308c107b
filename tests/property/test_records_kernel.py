"""The compiled kernel against its plain twin, on batches as clients send them, as logs hold them, and damaged ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import crc32c as crc32c_package
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import records_reference as reference
from support.record_strategies import client_batches, legacy_sets, stored_batches
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.exceptions import RecordError
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.protocol.records.record_batch import BatchHeader, Record, iterate_records

SCANNER_STATE = (
    "valid_bytes",
    "next_offset",
    "max_timestamp",
    "offset_of_max_timestamp",
    "first_timestamp",
    "batch_count",
    "record_count",
    "needed",
    "leader_epoch",
    "offset_index_entries",
    "time_index_entries",
    "leader_epochs",
    "stopped",
)

SETTINGS = settings(max_examples=150, deadline=None)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returned, or the class and the named record of what it raised."""
    try:
        return call()
    except RecordError as error:
        faults = [fault.record_index for fault in getattr(error, "faults", ())]
        return type(error), getattr(error, "record_index", None), faults


def fields(info: kernel.BatchInfo | BatchHeader) -> tuple[int, ...]:
    return tuple(getattr(info, name) for name in BatchHeader._fields)


def validated(batch: bytes, **arguments: Any) -> tuple[Any, Any]:
    """(kernel's outcome, twin's outcome), each with the bytes that it left."""
    ours, twins = bytearray(b"#" + batch + b"#"), bytearray(b"#" + batch + b"#")

    def by_kernel() -> Any:
        info = kernel.validate_and_assign(ours, 1, 1 + len(batch), **arguments)
        return fields(info), info.records_max_timestamp, info.records_min_timestamp, info.max_timestamp_delta

    def by_twin() -> Any:
        header, *seen = reference.validate_and_assign(twins, 1, 1 + len(batch), **arguments)
        return fields(header), *seen

    return (outcome(by_kernel), ours), (outcome(by_twin), twins)


ARGUMENTS = st.fixed_dictionaries(
    {
        "base_offset": st.integers(0, 2**62),
        "leader_epoch": st.integers(-1, 2**31 - 1),
        "append_time_ms": st.one_of(st.just(-1), st.integers(0, 2**42)),
        "require_keys": st.booleans(),
    },
    optional={
        "from_client": st.booleans(),
        "earliest_timestamp": st.integers(1_599_999_999_000, 1_600_000_003_000),
        "latest_timestamp": st.integers(1_600_000_002_000, 1_600_000_006_000),
        "max_decompressed": st.sampled_from([100, 5000]),
    },
)


@SETTINGS
@given(client_batches(), ARGUMENTS)
def test_validate_and_assign_is_its_twin(batch: bytes, arguments: dict[str, Any]) -> None:
    ours, twins = validated(batch, **arguments)
    assert ours == twins
    if isinstance(ours[0][0], type):
        assert ours[1] == b"#" + batch + b"#", "a refused batch must stay as it was"


@SETTINGS
@given(stored_batches(), ARGUMENTS)
def test_validate_and_assign_of_stored_batches_is_its_twin(batch: bytes, arguments: dict[str, Any]) -> None:
    ours, twins = validated(batch, **arguments)
    assert ours == twins


def damaged(batch: bytes, chance: random.Random, *, sealed: bool) -> bytes:
    """`batch` with a few bytes changed, inserted or cut; `sealed`: with a size and checksum that fit again."""
    out = bytearray(batch)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out)) if chance.random() < 0.5 else min(len(out) - 1, 21 + chance.randrange(60))
        match chance.randrange(6):
            case 0 | 1:
                out[at] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            case 2:
                out[at] ^= 1 << chance.randrange(8)
            case 3:
                out[at:at] = chance.randbytes(chance.randint(1, 12))
            case 4:
                del out[at : at + chance.randint(1, 12)]
            case _:
                out[at:at] = b"\xff" * chance.randint(1, 11)
    if sealed and len(out) >= 61:
        out[8:12] = struct.pack(">i", len(out) - 12)
        out[16] = 2
        seal(out)
    return bytes(out)


@SETTINGS
@given(st.one_of(client_batches(), stored_batches()), ARGUMENTS, st.integers(0, 2**32), st.booleans())
def test_damaged_batches_are_judged_alike(batch: bytes, arguments: dict[str, Any], seed: int, sealed: bool) -> None:
    chance = random.Random(seed)
    for _ in range(8):
        ours, twins = validated(damaged(batch, chance, sealed=sealed), **arguments)
        assert ours == twins


@SETTINGS
@given(st.one_of(client_batches(), stored_batches()), st.integers(0, 2**32), st.booleans(), st.data())
def test_look_ups_are_their_twins(batch: bytes, seed: int, intact: bool, data: st.DataObject) -> None:
    if not intact:
        batch = damaged(batch, random.Random(seed), sealed=True)
    end = len(batch)
    target = data.draw(st.integers(-2, 2**41))
    starting = data.draw(st.integers(-1, 40))
    assert outcome(lambda: fields(kernel.read_header(batch, 0, end))) == outcome(
        lambda: fields(reference.read_header(batch, 0, end))
    )
    strict = outcome(lambda: reference.find_timestamp(batch, 0, end, target, starting))
    ours = outcome(lambda: kernel.find_timestamp(batch, 0, end, target, starting))
    if not (isinstance(strict, tuple) and strict and isinstance(strict[0], type)):
        assert ours == strict  # the twin looks at the whole batch even where the answer comes early
    assert outcome(lambda: kernel.max_timestamp_record(batch, 0, end)) == outcome(
        lambda: reference.max_timestamp_record(batch, 0, end)
    )
    assert outcome(lambda: kernel.decode_records(batch, 0, end)) == outcome(
        lambda: list(iterate_records(batch, 0, end))
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[int, bytes]:
    """(base offset, bytes) of a segment of mixed formats, perhaps with a damaged piece in it."""
    base_offset = draw(st.sampled_from([0, 7, 2**40]))
    offset = base_offset
    pieces: list[bytes] = []
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.sampled_from([0, 0, 1, 500]))
        piece = draw(st.one_of(stored_batches(base_offset=offset), legacy_sets(base_offset=offset)))
        pieces.append(piece)
        offset = list(iterate_batches(piece))[-1].last_offset + 1
    damage = draw(st.sampled_from(["none", "none", "bytes", "old", "tail", "repeat", "jump"]))
    if damage == "old":  # with a wrong checksum, and in format 1 too short
        pieces.append(struct.pack(">qiIbbii", offset, 14, 0, draw(st.integers(0, 1)), 0, -1, -1))
    elif damage == "tail":
        pieces.append(draw(st.binary(max_size=120)))
    elif damage == "repeat" and pieces:
        pieces.append(pieces[draw(st.integers(0, len(pieces) - 1))])
    elif damage == "jump":
        pieces.append(draw(stored_batches(base_offset=base_offset + draw(st.sampled_from([2**31 - 30, 2**31, 2**32])))))
    elif damage == "bytes" and pieces:
        index = draw(st.integers(0, len(pieces) - 1))
        pieces[index] = damaged(pieces[index], random.Random(draw(st.integers(0, 2**32))), sealed=draw(st.booleans()))
    return base_offset, b"".join(pieces)


def scanned(scanner: Any, log: bytes, chunk: int) -> tuple[list[Any], list[tuple[int, ...]], list[int]]:
    """(state at the end, stateful batches, bytes taken by each call) of a scan in chunks of `chunk` bytes."""
    taken: list[int] = []
    batches: list[tuple[int, ...]] = []
    at, size = 0, chunk
    while True:
        end = min(at + size, len(log))
        taken.append(scanner.feed(b"!" + log + b"!", 1 + at, 1 + end, at))
        batches += [fields(batch) for batch in scanner.stateful_batches]
        scanner.stateful_batches.clear()
        at += taken[-1]
        size = max(chunk, scanner.needed)
        if scanner.stopped is not None or end == len(log):
            return [getattr(scanner, name) for name in SCANNER_STATE], batches, taken


@SETTINGS
@given(logs(), st.sampled_from([0, 100, 300, 4096]), st.sampled_from([1, 70, 400, 1 << 20]), st.booleans())
def test_scanner_is_its_twin(log: tuple[int, bytes], interval: int, chunk: int, check_crc: bool) -> None:
    base_offset, data = log
    ours = scanned(kernel.BatchScanner(interval, base_offset, check_crc), data, chunk)
    twins = scanned(reference.BatchScanner(interval, base_offset, check_crc), data, chunk)
    assert ours == twins
    whole = scanned(kernel.BatchScanner(interval, base_offset, check_crc), data, 1 << 30)
    assert ours[:2] == whole[:2], "chunks must not change what is found"


@SETTINGS
@given(logs(), st.integers(0, 60), st.booleans())
def test_find_batch_is_its_twin(log: tuple[int, bytes], ahead: int, cut: bool) -> None:
    base_offset, data = log
    end = len(data) * 2 // 3 if cut else len(data)
    for target in (base_offset, base_offset + ahead, base_offset + 10 * ahead):
        assert outcome(lambda: kernel.find_batch(data, 0, end, target)) == outcome(  # noqa: B023
            lambda: reference.find_batch(data, 0, end, target)  # noqa: B023
        )
        assert outcome(lambda: kernel.count_records(data, 0, end, target)) == outcome(  # noqa: B023
            lambda: reference.count_records(data, 0, end, target)  # noqa: B023
        )
    assert outcome(lambda: kernel.next_batch_position(data, 0, end)) == outcome(
        lambda: reference.next_batch_position(data, 0, end)
    )


@SETTINGS
@given(st.binary(max_size=500), st.integers(0, 2**32 - 1), st.booleans())
def test_crc32c_is_the_packages(data: bytes, value: int, hardware: bool) -> None:
    kernel._use_hardware(hardware)
    try:
        assert kernel.crc32c(data, value) == crc32c_package.crc32c(data, value)
        middle = len(data) // 3
        assert kernel.crc32c(data[middle:], kernel.crc32c(data[:middle])) == kernel.crc32c(data)
    finally:
        kernel._use_hardware(True)


# ---- fuzzing: fixed seeds, fixed budget ------------------------------------------------------------------------------


def fuzz_seeds() -> list[bytes]:
    """Batches whose bytes the fuzzer bends."""
    records = [
        Record(0, 1000, b"k", b"v" * 70, ((b"h", b"1"), (b"", None))),
        Record(1, -5, None, None, ()),
        Record(2, 2**62, b"", b"x" * 9000, ((b"name", b"y" * 200),) * 3),
    ]
    many = [Record(n, n, b"key", b"value") for n in range(400)]
    return [
        *(build_batch(records, compression=codec) for codec in Compression),
        build_batch(many, producer_id=5, producer_epoch=1, base_sequence=9),
        build_batch(records[:1], is_control=True, delete_horizon=3),
        build_batch([], last_offset=4),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_fuzzed_bytes_raise_record_errors_or_nothing(seed: int) -> None:
    """Memory errors show up as crashes of this process; anything but a RecordError fails the test."""
    chance = random.Random(seed)
    seeds = fuzz_seeds()
    for _ in range(700):
        batch = chance.choice(seeds)
        kind = chance.random()
        if kind < 0.1:
            batch = chance.randbytes(chance.randint(0, 300))
        elif kind < 0.2:  # random records behind a header that fits
            head = bytearray(build_batch([], last_offset=0))
            count = chance.choice([1, 2, 3, 1000, 2**31 - 1])
            head[57:61] = struct.pack(">i", count)
            head[23:27] = struct.pack(">i", count - 1)
            head += bytes(
                chance.choice([0, 0, 0, 1, 2, 12, 14, 0x80, 0xFF, 0x0F]) for _ in range(chance.randint(0, 200))
            )
            head[8:12] = struct.pack(">i", len(head) - 12)
            seal(head)
            batch = bytes(head)
        else:
            batch = damaged(batch, chance, sealed=chance.random() < 0.7)
        # Exactly as long as the batch, so that a read beyond the end leaves the allocation.
        buffer = bytearray(batch)
        end = len(buffer)
        outcome(lambda: kernel.find_timestamp(buffer, 0, end, chance.randrange(2**40)))  # noqa: B023
        outcome(lambda: kernel.max_timestamp_record(buffer, 0, end))  # noqa: B023
        outcome(lambda: kernel.decode_records(buffer, 0, end))  # noqa: B023
        outcome(lambda: kernel.find_batch(buffer, 0, end, chance.randrange(100)))  # noqa: B023
        outcome(lambda: kernel.next_batch_position(buffer, 0, end))  # noqa: B023
        for check_crc in (True, False):
            scanner = kernel.BatchScanner(0, 0, check_crc)
            taken = scanner.feed(buffer, 0, end, 0)
            assert taken == scanner.valid_bytes <= end
        outcome(lambda: kernel.validate_and_assign(buffer, 0, end, 7, 1, -1, chance.random() < 0.5))  # noqa: B023
