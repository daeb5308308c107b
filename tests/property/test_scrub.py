"""A flipped bit in any file of a closed segment is found by a scrub, whatever the bit; and nothing sound ever is.

Every bit of a log file of format 2 and of a snapshot matters: there the flip itself is the oracle. In the indexes, in old formats
and in the epochs those flips count for which the full `log verify` complains. Whether something sound is told of, is also
asked of every data directory that any test leaves behind (support/left_behind.py).
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleaning import CleaningWorld, Producer, append_marker, keyed
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World
from support.old_formats import old_logs
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.legacy_record import append_legacy_record, build_legacy_set, read_legacy_record
from tidelog.protocol.records.lz4_header import with_historical_check, with_right_check
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.inspect.verify import Progress, verify
from tidelog.storage.inspect.verify_report import Finding
from tidelog.storage.scrub.offline import scrub
from tidelog.storage.segment.names import parse_file_name

T = f"{ROOT}/t-0"
EPOCHS = f"{T}/leader-epoch-checkpoint"
KINDS = ["log", "index", "timeindex", "txnindex", "snapshot", "epochs"]
BLOCKS = [64, 4096, 1 << 20]


class Kept(NamedTuple):
    """A log after a clean stop. `active`: base offset of its last segment, which nobody scrubs."""

    world: World
    active: int

    def paths(self, kind: str) -> list[str]:
        """Files of that kind that a scrub reads, not empty."""
        if kind == "epochs":
            return [EPOCHS]
        found = []
        for path, data in self.world.fake.contents().items():
            parsed = parse_file_name(path.removeprefix(f"{T}/"))
            if parsed is None or parsed.stage or parsed.suffix != f".{kind}" or not data:
                continue
            if parsed.base_offset < self.active or (kind == "snapshot" and parsed.base_offset == self.active):
                found.append(path)
        return sorted(found)


def kept(world: World) -> Kept:
    log = world.log()
    active = log.segments[-1].base_offset
    world.stop()
    return Kept(world, active)


def pairs(chance: random.Random) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (b"k%d" % chance.randrange(8), chance.randbytes(chance.choice([0, 20, 90])))
        for _ in range(chance.choice([1, 1, 2, 7]))
    ]


@cache
def plain(seed: int) -> Kept:
    """Idempotent and other producers, codecs, several leader epochs; times that rise, stand and fall."""
    chance = random.Random(seed)
    world = World(damaged="bits are flipped in copies")
    options: dict[str, Any] = {
        "segment_bytes": chance.choice([500, 1500]), "index_interval_bytes": chance.choice([1, 150]), "retention_ms": -1,
    }  # fmt: skip
    world.start(**options)
    producer = Producer(9, is_transactional=False)
    for _ in range(chance.choice([2, 3])):
        for _ in range(chance.choice([10, 25])):
            codec = chance.choice([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.ZSTD])
            at = world.time.milliseconds() + chance.randrange(-3, 4)
            if chance.random() < 0.3:
                producer.send(world.log(), *pairs(chance), timestamp=at)
            else:
                keyed(world.log(), *pairs(chance), timestamp=at, compression=codec)
            world.time.advance(chance.choice([0, 1, 5]))
        world.start(**options)
    return kept(world)


@cache
def transactional(seed: int) -> Kept:
    """Committed and aborted transactions of producers that overlap."""
    chance = random.Random(seed)
    world = World(damaged="bits are flipped in copies")
    world.start(segment_bytes=900, index_interval_bytes=200, retention_ms=-1)
    producers = [Producer(number) for number in range(3)]
    is_open = set()
    for _ in range(60):
        number = chance.randrange(3)
        if number in is_open and chance.random() < 0.4:
            append_marker(world.log(), number, 0, commit=chance.random() < 0.4)
            is_open.discard(number)
        else:
            producers[number].send(world.log(), *pairs(chance))
            is_open.add(number)
    return kept(world)


@cache
def old(name: str) -> Kept:
    """A log of Kafka's own classes of formats 0 and 1, closed."""
    world = World(damaged="bits are flipped in copies")
    world.start()
    world.log()
    world.stop()
    world.fake.put(f"{T}/{0:020d}.log", old_logs()[name].data)
    for path in (f"{ROOT}/recovery-point-offset-checkpoint", f"{ROOT}/.kafka_cleanshutdown"):
        world.fake.unlink(path, missing_ok=True)
    world.start(index_interval_bytes=100)
    world.log().roll()
    return kept(world)


@cache
def cleaned(seed: int) -> Kept:
    """A compacted log, with gaps."""
    chance = random.Random(seed)
    world = CleaningWorld(damaged="bits are flipped in copies")
    world.start(segment_bytes=700, index_interval_bytes=100)
    for _ in range(60):
        keyed(world.log(), *pairs(chance), timestamp=world.time.milliseconds())
        world.time.advance(1)
    world.roll_and_clean()
    return kept(world)


@cache
def lz4(magic: int, *, is_historical: bool) -> Kept:
    """A wrapper of lz4 and a plain message behind it; the check byte of the frame's header is right, or covers too much
    (KAFKA-3160).
    """
    records = [Record(number, 1000 + number, None, b"v%d" % number * 30, ()) for number in range(3)]
    wrapper = build_legacy_set(records, magic=magic, compression=Compression.LZ4)
    frame = read_legacy_record(wrapper).value
    assert frame is not None
    right = with_right_check(bytes(frame))
    wrong = with_historical_check(right)
    assert right != wrong
    data = bytearray()
    append_legacy_record(data, magic, 2, 1002, None, wrong if is_historical else right, int(Compression.LZ4))
    append_legacy_record(data, magic, 3, 1003, None, b"plain", 0)
    world = World(damaged="a frame's check byte is wrong")
    world.start()
    world.log()
    world.stop()
    world.fake.put(f"{T}/{0:020d}.log", bytes(data))
    for path in (f"{ROOT}/recovery-point-offset-checkpoint", f"{ROOT}/.kafka_cleanshutdown"):
        world.fake.unlink(path, missing_ok=True)
    world.start(index_interval_bytes=1)
    world.log().roll()
    return kept(world)


def scrubbed(system: FakeFileSystem, block: int = 1 << 20, directory: str = ROOT) -> list[Finding]:
    before, operations = system.contents(), len(system.trace)
    found = list(scrub(system, directory, Progress(), lambda _seconds: None, block))
    assert (system.contents(), len(system.trace)) == (before, operations), "a scrub changed something"
    assert not system.open_files
    assert not system.maps
    return found


def flipped(base: Kept, path: str, bit: int) -> FakeFileSystem:
    system = base.world.fake.kill()
    data = system.contents()[path]
    system.corrupt(path, bit // 8, bytes([data[bit // 8] ^ 1 << bit % 8]))
    return system


def verified(system: FakeFileSystem) -> list[Finding]:
    return [finding for finding in verify(system, ROOT) if finding.is_fault]


MADE = [
    *((plain, seed) for seed in range(4)),
    *((transactional, seed) for seed in range(3)),
    (cleaned, 0),
    (cleaned, 1),
]
OLD = ["v0-none", "v0-gzip", "v1-none", "v1-gzip", "v1-none-append", "v1-lz4"]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("make", "seed"), MADE)
def test_nothing_sound_is_told_of(make: Any, seed: int, block: int) -> None:
    base = make(seed)
    assert len(base.paths("log")) >= 2
    assert scrubbed(base.world.fake, block) == []
    assert scrubbed(base.world.fake, block, T) == []


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", sorted(name for name in old_logs() if name.startswith(("v0", "v1"))))
def test_nothing_sound_of_formats_0_and_1_is_told_of(name: str, block: int) -> None:
    assert scrubbed(old(name).world.fake, block) == []


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("is_historical", [False, True])
@pytest.mark.parametrize("magic", [0, 1])
def test_the_check_byte_of_lz4_is_as_each_format_has_it(magic: int, is_historical: bool, block: int) -> None:
    """Readers of format 0 never look at it, since Kafka's first writer had it wrong; those of format 1 insist on it."""
    found = scrubbed(lz4(magic, is_historical=is_historical).world.fake, block)
    assert [finding.rule for finding in found] == (["wrapper"] if magic == 1 and is_historical else [])


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 3), st.sampled_from(BLOCKS), st.data())
@pytest.mark.damaged("bits are flipped")
def test_a_flip_of_any_bit_of_a_log_file_is_found(seed: int, block: int, data: st.DataObject) -> None:
    """Also those that no checksum covers: offsets, lengths, leader epochs."""
    base = plain(seed)
    path = data.draw(st.sampled_from(base.paths("log")))
    bit = data.draw(st.integers(0, 8 * len(base.world.fake.contents()[path]) - 1))
    found = scrubbed(flipped(base, path, bit), block)
    assert any(finding.is_fault for finding in found), (path, bit // 8, bit % 8)
    assert {finding.path for finding in found} <= {path, EPOCHS}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3), st.data())
def test_a_batch_whose_bytes_changed_is_named_by_its_position(seed: int, data: st.DataObject) -> None:
    """The oracle is another implementation of the checksum, and a walk by lengths of its own."""
    base = plain(seed)
    path = data.draw(st.sampled_from(base.paths("log")))
    content = base.world.fake.contents()[path]
    starts, at = [], 0
    while at < len(content):
        starts.append(at)
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    start = data.draw(st.sampled_from(starts))
    size = 12 + int.from_bytes(content[start + 8 : start + 12], "big")
    assert crc32c(content[start + 21 : start + size]) == int.from_bytes(content[start + 17 : start + 21], "big")
    bit = data.draw(st.integers(8 * (start + 21), 8 * (start + size) - 1))
    found = scrubbed(flipped(base, path, bit))
    assert [(finding.rule, finding.position) for finding in found] == [("batch-crc", start)]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(OLD), st.data())
@pytest.mark.damaged("bits are flipped")
def test_a_flip_that_matters_in_formats_0_and_1_is_found(name: str, data: st.DataObject) -> None:
    base = old(name)
    [path] = base.paths("log")
    bit = data.draw(st.integers(0, 8 * len(base.world.fake.contents()[path]) - 1))
    system = flipped(base, path, bit)
    if verified(system):
        assert any(finding.is_fault for finding in scrubbed(system)), (bit // 8, bit % 8)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MADE), st.sampled_from(KINDS), st.sampled_from(BLOCKS), st.data())
@pytest.mark.damaged("bits are flipped")
def test_what_log_verify_finds_a_scrub_finds(made: tuple[Any, int], kind: str, block: int, data: st.DataObject) -> None:
    base = made[0](made[1])
    paths = base.paths(kind)
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    bit = data.draw(st.integers(0, 8 * len(base.world.fake.contents()[path]) - 1))
    system = flipped(base, path, bit)
    expected, found = verified(system), [finding for finding in scrubbed(system, block) if finding.is_fault]
    if kind == "snapshot":
        assert [(finding.rule, finding.path) for finding in found] == [("snapshot-corrupt", path)]
    elif kind == "epochs" and not found:
        # The epoch of a segment that is still written to: no closed one contradicts it.
        assert all("batch-" not in finding.rule for finding in expected)
        assert {finding.rule for finding in expected} <= {"epochs-differ", "epochs-beyond"}
    else:
        # In a compacted log gaps hide some of what is moved within them, from both.
        assert bool(found) == bool(expected), (path, bit // 8, bit % 8, expected)
