"""What lies in a data directory: indexes, snapshots, checkpoints, ledgers, Kafka's metadata log. Each as another program, a
torn write or a bad disk may have left it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from uuid import UUID

from fuzz.target import target
from fuzz.targets.records import RECORDS as SOME_RECORDS
from fuzz.targets.records import logs, mended
from support.fake_filesystem import FakeFileSystem
from support.messages import random_struct
from tidelog.broker.kraft.image import MetadataImage
from tidelog.protocol.errors import ProtocolError
from tidelog.protocol.metadata_records import RECORDS, decode_record, encode_record
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import RecordError
from tidelog.storage.exceptions import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptSnapshotError,
    DataDirectoryError,
    StorageError,
)
from tidelog.storage.index.offset_index import OffsetIndex
from tidelog.storage.index.time_index import TimeIndex
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.inspect.dump import explain
from tidelog.storage.inspect.metadata_log import MetadataLogReader, SnapshotId, find_metadata_log, write_snapshot
from tidelog.storage.inspect.verify import Progress, verify
from tidelog.storage.io.checkpoint import CleanShutdownFile, OffsetCheckpointFile, parse_offsets
from tidelog.storage.io.checkpoint_copy import seal
from tidelog.storage.ledger import ledger as ledgers
from tidelog.storage.log.leader_epoch import LeaderEpochCache
from tidelog.storage.log.partition_metadata import read_partition_metadata, write_partition_metadata
from tidelog.storage.manager.meta_properties import read_meta_properties, write_meta_properties
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.snapshot import decode_snapshot, encode_snapshot
from tidelog.storage.scrub.memory import Memory, read_memory, write_memory
from tidelog.storage.scrub.offline import scrub

ID = UUID(int=7 << 64)
BASE = 100
_CRC_AT, _CRC_END = 2, 6


def with_file(path: str, data: bytes) -> FakeFileSystem:
    files = FakeFileSystem()
    files.put(path, data)
    return files


def offset_indexes() -> Iterator[bytes]:
    yield struct.pack(">iiii", 10, 100, 20, 200)
    yield struct.pack(">iiii", 10, 100, 20, 200) + bytes(64)
    yield b""


@target(CorruptIndexError, seeds=offset_indexes)
def offset_index(data: bytes) -> None:
    """Look-ups of anything end with an answer from the file, sorted or not; what `verify` lets pass is sorted."""
    index = OffsetIndex(with_file("/i.index", data), "/i.index", BASE, writable=False)
    index.sanity_check(1000)
    entries = list(index)
    assert len(entries) == index.entries <= len(data) // 8
    for offset in (0, BASE, BASE + 15, 2**63 - 1):
        assert index.lookup(offset) in [*entries, (BASE, 0)]
    index.verify(1000)
    assert all(a.offset < b.offset and a.position < b.position for a, b in pairwise(entries))
    assert index.lookup(BASE + 15) == max([(BASE, 0), *(entry for entry in entries if entry.offset <= BASE + 15)])
    index.close()


def time_indexes() -> Iterator[bytes]:
    yield struct.pack(">qiqi", 1000, 10, 2000, 20)
    yield struct.pack(">qiqi", 1000, 10, 2000, 20) + bytes(48)


@target(CorruptIndexError, seeds=time_indexes)
def time_index(data: bytes) -> None:
    index = TimeIndex(with_file("/i.timeindex", data), "/i.timeindex", BASE, writable=False)
    index.sanity_check()
    entries = [(entry.timestamp, entry.offset) for entry in index]
    for time in (-5, 0, 1500, 2**63 - 1):
        found = index.lookup(time)
        assert (found.timestamp, found.offset) in [*entries, (-1, BASE)]
    index.close()


def transaction_indexes() -> Iterator[bytes]:
    yield struct.pack(">hqqqq", 0, 5, 10, 20, 15)
    yield struct.pack(">hqqqq", 0, 5, 10, 20, 15) + struct.pack(">hqqqq", 0, 6, 11, 22, 20) + b"torn"


@target(CorruptIndexError, seeds=transaction_indexes)
def transaction_index(data: bytes) -> None:
    files = with_file("/i.txnindex", data)
    index = TransactionIndex(files, "/i.txnindex", 0)
    entries = index.all()
    assert len(entries) == len(data) // 34
    found = index.collect(5, 30)
    assert set(found.aborted) <= set(entries)
    index.sanity_check()
    index.note(AbortedTxn(1, 2**40, 2**41, 2**40))
    assert index.all()[-1].last_offset == 2**41
    index.close()


def snapshots() -> Iterator[bytes]:
    entries = [
        ProducerStateEntry(5, 1, -1, 1000, None, (BatchMetadata(9, 20, 3, 1000),)),
        ProducerStateEntry(6, 0, 2, 1000, 17, ()),
    ]
    yield b"\1" + encode_snapshot(entries)
    yield b"\1" + encode_snapshot([])


@target(CorruptSnapshotError, seeds=snapshots)
def producer_snapshot(data: bytes) -> None:
    """The first byte says whether the checksum is mended."""
    from tidelog.protocol.records.crc import crc32c

    how, content = data[:1], bytearray(data[1:])
    if how == b"\1" and len(content) >= _CRC_END:
        content[_CRC_AT:_CRC_END] = crc32c(memoryview(content)[_CRC_END:]).to_bytes(4, "big")
    entries = decode_snapshot(bytes(content))
    again = encode_snapshot(entries)
    assert len(again) == len(content)
    assert decode_snapshot(again) == entries


def checkpoints() -> Iterator[bytes]:
    yield b"0\n2\norders 0 42\norders 1 0\n"
    yield b"0\n0\n"
    yield b"0\n1\n3 17\n"


@target(CorruptCheckpointError, seeds=checkpoints)
def offset_checkpoint(data: bytes) -> None:
    checkpoint = OffsetCheckpointFile(with_file("/c", data), "/c")
    offsets = checkpoint.read()
    assert parse_offsets(data, "/c") == offsets
    checkpoint.write(offsets)
    assert checkpoint.read() == offsets


@target(CorruptCheckpointError, seeds=checkpoints)
def leader_epoch_checkpoint(data: bytes) -> None:
    files = with_file("/c", data)
    cache = LeaderEpochCache.load(files, "/c")
    cache.flush()
    assert LeaderEpochCache.load(files, "/c").entries == cache.entries
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(cache.entries))
    cache.end_offset_for(3, 1000)


def small_texts() -> Iterator[bytes]:
    yield b"\0version: 0\ntopic_id: WSaPqH3DTKKfkASHybcnlA"
    yield b"\1version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=WSaPqH3DTKKfkASHybcnlA\n"
    yield b"\1#\n#Sat Nov 21\nversion=0\ncluster.id=a\\u0041\nbroker.id=1\n"
    yield b'\2{"version":0,"brokerEpoch":12}'
    ledger = ledgers.Ledger(0, 4096, 0, 9000, 0, {"superseded": 4096}, {}, None)
    yield b"\3" + ledgers.encode(ledger)
    pending = ledgers.Pending(12000, {9000: 70}, {9000: ledgers.Entry(7, 65)}, {"superseded": 7})
    yield b"\3" + ledgers.encode(ledgers.Ledger(0, 4096, 0, 9000, 0, {"superseded": 4096}, {}, pending))


@target(CorruptCheckpointError, DataDirectoryError, seeds=small_texts)
def small_files(data: bytes) -> None:
    """partition.metadata, meta.properties, the mark of a clean stop, a ledger: the first byte says which."""
    kind, content = data[:1], data[1:]
    if kind == b"\0":
        files = with_file("/d/partition.metadata", content)
        found = read_partition_metadata(files, "/d")
        assert found is not None
        write_partition_metadata(files, "/d", found.topic_id)
        again = read_partition_metadata(files, "/d")
        assert again is not None
        assert again.topic_id == found.topic_id
    elif kind == b"\1":
        files = with_file("/d/meta.properties", content)
        properties = read_meta_properties(files, "/d")
        assert properties is not None
        write_meta_properties(files, "/d", properties)
        assert read_meta_properties(files, "/d") == properties
    elif kind == b"\2":
        epoch = CleanShutdownFile(with_file("/.kafka_cleanshutdown", content), "/").read()
        assert epoch is None or epoch >= 0
    else:
        ledger = ledgers.decode(content)
        if ledger is not None:
            assert ledgers.decode(ledgers.encode(ledger)) == ledger


NAMES = (
    "00000000000000000100.log", "00000000000000000100.index", "00000000000000000100.timeindex",
    "00000000000000000100.txnindex", "00000000000000000100.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    "meta.properties", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown", "tidelog-ledger.json",
    "tidelog-cleaner.json", "quorum-state", "00000000000000000100-0000000001.checkpoint",
    "tidelog-recovery-point-offset-checkpoint", "tidelog-last-stop",
)  # fmt: skip


def any_files() -> Iterator[bytes]:
    yield from (b"\0" + data for data in logs())
    yield from (b"\x0d" + data for data in logs())
    for number, seeds in (
        (1, offset_indexes),
        (2, time_indexes),
        (3, transaction_indexes),
        (5, checkpoints),
        (8, checkpoints),
    ):
        yield from (bytes([number, 0]) + data for data in seeds())
    yield from (b"\4\0" + data[1:] for data in snapshots())
    for number, kind in ((6, 0), (7, 1), (9, 2), (10, 3), (11, 3), (12, 2)):
        yield from (bytes([number, 0]) + data[1:] for data in small_texts() if data[0] == kind)
    yield from (b"\x0e\0" + seal(data) for data in checkpoints())
    yield b"\x0f\0" + seal(b'{"version":1,"logs":{"topic-0":{"segments":[0,100]}}}')


@target(StorageError, seeds=any_files, extra=8 << 20, growth=4000)
def dumped_files(data: bytes) -> None:
    """`tidelog log dump` speaks of each byte once, whatever they are; `tidelog log verify` comes to an end."""
    if not data:
        return
    name = NAMES[data[0] % len(NAMES)]
    content = mended(data[1:])
    files = with_file(f"/d/topic-0/{name}", content)
    position = 0
    for part in explain(files, f"/d/topic-0/{name}"):
        assert part.position == position, part
        position += part.size
    assert position == len(content)
    for part in explain(files, f"/d/topic-0/{name}", records=True, data=True):
        assert part.text is not None
    for finding in verify(files, "/d/topic-0"):
        assert str(finding)


def metadata_values() -> Iterator[bytes]:
    rng = random.Random("metadata")
    for cls in RECORDS.values():
        for version in sorted({*cls.VERSIONS}):
            yield encode_record(random_struct(rng, cls, version), version)


@target(ProtocolError, ValueError, seeds=metadata_values)
def metadata_record(data: bytes) -> None:
    """One record of Kafka's metadata: the same again, and into an image. The import takes these two for damage."""
    found = decode_record(data)
    if found.message is not None:
        written = encode_record(found.message, found.version)
        again = decode_record(written).message
        assert again is not None
        assert encode_record(again, found.version) == written
    MetadataImage().replay(data)


def metadata_logs() -> Iterator[bytes]:
    files = FakeFileSystem()
    values = list(metadata_values())[:6]
    write_snapshot(files, "/d/__cluster_metadata-0", SnapshotId(10, 1), values, timestamp=5)
    (content,) = (content for path, content in files.contents().items() if path.endswith(".checkpoint"))
    yield b"\0\1" + content
    records = [one._replace(key=None, value=value) for one, value in zip(SOME_RECORDS, values, strict=False)]
    yield b"\1\1" + bytes(build_batch(records))


@target(DataDirectoryError, ProtocolError, ValueError, seeds=metadata_logs, growth=3000)
def metadata_log(data: bytes) -> None:
    """Kafka's metadata log as files: a snapshot or a segment, by the first byte."""
    directory = "/d/__cluster_metadata-0"
    name = "00000000000000000010-0000000001.checkpoint" if data[:1] == b"\0" else "00000000000000000000.log"
    files = with_file(f"{directory}/{name}", mended(data[1:]))
    found = find_metadata_log(files, ["/d"])
    if found is None:
        return
    image = MetadataImage()
    with suppress(RecordError):
        for value in MetadataLogReader(files, found):
            image.replay(value)


SCRUBBED = "/data/t-0"
_FIRST, _SECOND = (f"{SCRUBBED}/{base:020d}" for base in (0, 8))
_PARTS = (f"{_FIRST}.log", f"{_FIRST}.index", f"{_FIRST}.timeindex", f"{_FIRST}.txnindex", f"{_SECOND}.snapshot")
_LENGTHS = struct.Struct(f">{len(_PARTS)}H")


def scrubbed_segments() -> Iterator[bytes]:
    """Files of a closed segment behind their lengths: of plain batches, of an aborted transaction, of formats 0 and 1."""
    plain = b"".join(
        build_batch(SOME_RECORDS, base_offset=at * len(SOME_RECORDS), partition_leader_epoch=0) for at in range(2)
    )
    yield _scrubbed(plain)
    yield _scrubbed(plain, index=struct.pack(">ii", 3, len(plain) // 2), times=struct.pack(">qi", 1003, 3))
    yield _scrubbed(plain, aborted=struct.pack(">hqqqq", 0, 5, 0, 2, 0), snapshot=encode_snapshot([]))
    for log in logs():
        yield _scrubbed(log[1:])


def _scrubbed(log: bytes, index: bytes = b"", times: bytes = b"", aborted: bytes = b"", snapshot: bytes = b"") -> bytes:
    parts = (log, index, times, aborted, snapshot)
    return _LENGTHS.pack(*(len(part) for part in parts)) + b"".join(parts)


@target(seeds=scrubbed_segments, max_input=4096, growth=4000)
def scrubbed_segment(data: bytes) -> None:
    """A scrub ends, changes nothing, and finds the same whatever the size of a block: also where batches are larger."""
    files = FakeFileSystem()
    files.put("/data/meta.properties", b"version=1\n")
    at = _LENGTHS.size
    if len(data) < at:
        return
    for path, length in zip(_PARTS, _LENGTHS.unpack_from(data), strict=True):
        files.put(path, data[at : at + length])
        at += length
    files.put(f"{_SECOND}.log", b"")
    before = files.contents()
    told = []
    for block in (64, 1 << 20):
        found = list(scrub(files, "/data", Progress(), lambda _seconds: None, block))
        told.append([finding for finding in found if finding.is_fault])
    assert told[0] == told[1]
    assert files.contents() == before
    assert not files.open_files


def scrub_memories() -> Iterator[bytes]:
    head = b'{"version":1,"pass":7,"begunMs":5,"done":9,"wholeBegunMs":1,"wholeMs":2,'
    names = b'"topic":"t","partition":0,"base":0,"stamp":[[1,2,3],null]'
    found = b'"found":[["00000000000000000000.log",4,"batch-crc","x",6]]'
    yield head + b'"at":["t",0,3],"damage":[{' + names + b"," + found + b"}]}"
    yield head + b'"at":["t",0,3],"damage":[{' + names + b"," + found.replace(b"0.log", b"/.log") + b"}]}"
    yield head + b'"at":null,"total":9,"omitted":1,"damage":[]}'
    yield b"[]"
    yield b"7"


@target(seeds=scrub_memories)
def scrub_memory(data: bytes) -> None:
    """What another program may have sealed: a start reads it or begins anew, and what it has read it writes again."""
    files = with_file("/data/tidelog-scrub", seal(data))
    memory = read_memory(files, "/data")
    if memory != Memory():
        write_memory(files, "/data", memory)
        assert read_memory(files, "/data") == memory
