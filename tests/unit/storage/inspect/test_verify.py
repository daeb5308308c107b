"""Every fault of a list is planted in files that Apache Kafka wrote, one at a time; each must be found, and named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import World, append
from support.mock_time import START_MS
from support.old_formats import old_logs
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import compress
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.legacy_record import append_legacy_record, build_legacy_set
from tidelog.protocol.records.record_batch import Record, iterate_batches
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import Progress, verify
from tidelog.storage.inspect.verify_report import RULES, Finding
from tidelog.storage.ledger.ledger import Ledger, encode
from tidelog.storage.producers.snapshot import decode_snapshot, encode_snapshot

KAFKA_DATA = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
PARTITIONS = ("mixed-0", "txn-0", "compact-tiny-retention-0", "compact-txn-0", "deleted-records-0", "retention-0")

Files = dict[str, bytes]


def kafka_files() -> Files:
    """Some partitions of Kafka's directory after a clean stop, and the root's small files."""
    files = {}
    for path in KAFKA_DATA.glob("*"):
        if path.is_file():
            files[f"/data/{path.name.replace('kafka_clean', '.kafka_clean')}"] = path.read_bytes()
    for partition in PARTITIONS:
        for path in (KAFKA_DATA / partition).iterdir():
            files[f"/data/{partition}/{path.name}"] = path.read_bytes()
    return files


KAFKA = kafka_files()


def found_in(files: Files, directory: str = "/data") -> list[Finding]:
    system = FakeFileSystem()
    for path, data in files.items():
        system.put(path, data)
    before = system.contents()
    operations = len(system.trace)
    found = list(verify(system, directory))
    assert system.contents() == before
    assert len(system.trace) == operations, "verify changed something"
    return found


def faults(files: Files, directory: str = "/data") -> list[str]:
    return [f"{finding.rule} {finding.path}" for finding in found_in(files, directory) if finding.is_fault]


def test_kafkas_directory_is_clean() -> None:
    found = found_in(KAFKA)
    assert {finding.rule for finding in found} <= {"checkpoint-unknown"}
    crashed = {path: data for path, data in KAFKA.items() if "cleanshutdown" not in path}
    assert faults(crashed) == []
    for partition in PARTITIONS:
        assert found_in(KAFKA, f"/data/{partition}") == []


# --- faults, one at a time ---

SEGMENT_0, SEGMENT_320 = (f"/data/mixed-0/{offset:020d}.log" for offset in (0, 320))
INDEX, TIME_INDEX = (SEGMENT_0[:-3] + suffix for suffix in ("index", "timeindex"))
SNAPSHOT = "/data/mixed-0/00000000000000000320.snapshot"
FAR = "/data/mixed-0/00000000000000009999.snapshot"
TXN = "/data/txn-0/"
TXN_INDEX = "/data/txn-0/00000000000000000095.txnindex"
ABORTED = struct.pack(">hqqqq", 0, 11, 0, 15, 16)


def at(path: str, position: int, data: bytes) -> Callable[[Files], None]:
    """Other bytes at a position; negative ones count from the end."""

    def plant(files: Files) -> None:
        changed = bytearray(files[path])
        start = position if position >= 0 else len(changed) + position
        changed[start : start + len(data)] = data
        assert bytes(changed) != files[path]
        files[path] = bytes(changed)

    return plant


def sealed(path: str, batch: int, position: int, data: bytes) -> Callable[[Files], None]:
    """Other bytes at a position within the n-th batch, whose checksum is then made right."""

    def plant(files: Files) -> None:
        changed = bytearray(files[path])
        header = list(iterate_batches(changed))[batch]
        start = header.position + position
        assert changed[start : start + len(data)] != data
        changed[start : start + len(data)] = data
        crc = crc32c(bytes(changed[header.position + 21 : header.position + header.size]))
        changed[header.position + 17 : header.position + 21] = crc.to_bytes(4, "big")
        files[path] = bytes(changed)

    return plant


def put(path: str, data: bytes) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        files[path] = data

    return plant


def cut(path: str, size: int) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        files[path] = files[path][:-size]

    return plant


def longer(path: str, data: bytes) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        files[path] += data

    return plant


def without(path: str) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        del files[path]

    return plant


def renamed(old: str, new: str) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        for path in [path for path in files if path.startswith(old)]:
            files[path.replace(old, new)] = files.pop(path)

    return plant


def without_batch(path: str, batch: int) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        header = list(iterate_batches(files[path]))[batch]
        files[path] = files[path][: header.position] + files[path][header.position + header.size :]

    return plant


def inserted(path: str, batch: int, data: bytes) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        position = list(iterate_batches(files[path]))[batch].position
        files[path] = files[path][:position] + data + files[path][position:]

    return plant


def snapshot(path: str, **changes: int) -> Callable[[Files], None]:
    """The first producer of a snapshot changed, `last_offset` in its batch."""

    def plant(files: Files) -> None:
        entries = decode_snapshot(files[path])
        for name, value in changes.items():
            if name in ("last_offset", "last_sequence"):
                entries[0].batches[-1] = entries[0].batches[-1]._replace(**{name: value})
            else:
                setattr(entries[0], name, value)
        files[path] = encode_snapshot(entries)

    return plant


def without_entry(path: str, size: int) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        files[path] = files[path][size:]

    return plant


RECORD = Record(0, 1_700_000_000_000, b"key", b"value")
CHECKPOINT = "-offset-checkpoint"

PLANTED: list[tuple[str, str, Callable[[Files], None]]] = [
    # rule, end of the path that must be named, what is done to Kafka's files
    ("batch-crc", "mixed-0/00000000000000000000.log", at(SEGMENT_0, 200, b"\xff\xfe")),
    ("batch-crc", "mixed-0/00000000000000000320.log", at(SEGMENT_320, -1, b"\xff")),
    ("batch-garbage", SEGMENT_0, inserted(SEGMENT_0, 3, b"\xff" * 99)),
    ("batch-garbage", SEGMENT_0, at(SEGMENT_0, 16, b"\x09")),
    ("batch-zeros", SEGMENT_0, inserted(SEGMENT_0, 3, bytes(5000))),
    ("batch-zeros", SEGMENT_320, longer(SEGMENT_320, bytes(1000))),  # after a clean stop
    ("batch-cut-off", SEGMENT_320, cut(SEGMENT_320, 10)),
    ("batch-cut-off", SEGMENT_0, cut(SEGMENT_0, 10)),
    ("batch-offset", SEGMENT_320, at(SEGMENT_320, 0, (300).to_bytes(8, "big"))),
    ("batch-order", SEGMENT_0, at(SEGMENT_0, 4568, (20).to_bytes(8, "big"))),
    ("batch-gap", SEGMENT_0, without_batch(SEGMENT_0, 3)),
    ("segment-gap", SEGMENT_320, without_batch(SEGMENT_0, 7)),
    (
        "segment-overlap",
        "mixed-0/00000000000000000300.log",
        renamed(SEGMENT_320[:-4], SEGMENT_320[:-7] + "300"),
    ),
    ("batch-count", SEGMENT_0, sealed(SEGMENT_0, 0, 57, (39).to_bytes(4, "big"))),
    ("batch-count", SEGMENT_0, sealed(SEGMENT_0, 0, 57, (41).to_bytes(4, "big"))),
    ("batch-count", SEGMENT_0, sealed(SEGMENT_0, 0, 57, b"\xff\xff\xff\xff")),
    ("batch-attributes", SEGMENT_0, sealed(SEGMENT_0, 0, 21, b"\x01")),
    ("batch-codec", SEGMENT_0, sealed(SEGMENT_0, 3, 22, b"\x06")),
    ("batch-producer", SEGMENT_0, sealed(SEGMENT_0, 0, 51, b"\xff\xff")),
    ("records-unreadable", SEGMENT_0, sealed(SEGMENT_0, 0, 61, b"\x01")),
    ("records-unreadable", SEGMENT_0, sealed(SEGMENT_0, 3, 70, b"\xff\xff\xff\xff")),  # in zstd
    ("max-timestamp", SEGMENT_0, sealed(SEGMENT_0, 0, 35, (1).to_bytes(8, "big"))),
    ("leader-epoch-order", SEGMENT_320, at(SEGMENT_0, 12, (5).to_bytes(4, "big"))),
    ("control-record", TXN + "00000000000000000000.log", lambda files: control_without_type(files)),
    ("segment-span", SEGMENT_320, at(SEGMENT_320, 0, (320 + 2**31).to_bytes(8, "big"))),
    # indexes
    ("index-missing", INDEX, without(INDEX)),
    ("index-missing", "mixed-0/00000000000000000320.timeindex", without(SEGMENT_320[:-3] + "timeindex")),
    ("orphan", "mixed-0/00000000000000000100.index", put("/data/mixed-0/00000000000000000100.index", b"")),
    ("index-torn", INDEX, cut(INDEX, 3)),
    (
        "index-order",
        INDEX,
        at(INDEX, 8, struct.pack(">ii", 79, 4568)),
    ),
    ("index-offset", INDEX, at(INDEX, 8, struct.pack(">i", 118))),
    ("index-offset", INDEX, at(INDEX, 8, struct.pack(">i", 120))),
    (
        "index-position",
        INDEX,
        at(INDEX, 12, struct.pack(">i", 10411)),
    ),
    (
        "index-position",
        INDEX,
        longer(INDEX, struct.pack(">ii", 400, 99999)),
    ),
    ("timeindex-torn", TIME_INDEX, longer(TIME_INDEX, b"\1\2")),
    (
        "timeindex-order",
        TIME_INDEX,
        at(TIME_INDEX, 12, bytes(7) + b"\1"),
    ),
    ("timeindex-entry", TIME_INDEX, at(TIME_INDEX, 7, b"\0")),
    (
        "timeindex-entry",
        TIME_INDEX,
        at(TIME_INDEX, 32, struct.pack(">i", 999)),
    ),
    ("timeindex-last", TIME_INDEX, cut(TIME_INDEX, 12)),
    ("txnindex-torn", TXN_INDEX, cut(TXN_INDEX, 1)),
    ("txnindex-order", TXN_INDEX, at(TXN_INDEX, 1, b"\7")),
    (
        "txnindex-missing",
        TXN_INDEX,
        without_entry(TXN_INDEX, 34),
    ),
    ("txnindex-missing", "txn-0/00000000000000000478.txnindex", without(TXN + "00000000000000000478.txnindex")),
    (
        "txnindex-extra",
        "txn-0/00000000000000000000.txnindex",
        put(TXN + "00000000000000000000.txnindex", ABORTED),
    ),
    ("txnindex-entry", TXN_INDEX, at(TXN_INDEX, 33, b"\1")),
    # producers
    (
        "snapshot-corrupt",
        SNAPSHOT,
        at(SNAPSHOT, 20, b"\7"),
    ),
    (
        "snapshot-corrupt",
        SNAPSHOT,
        put(SNAPSHOT, b""),
    ),
    (
        "snapshot-differs",
        SNAPSHOT,
        snapshot(SNAPSHOT, last_offset=79),
    ),
    (
        "snapshot-differs",
        SNAPSHOT,
        snapshot(SNAPSHOT, last_sequence=79),
    ),
    (
        "snapshot-differs",
        SNAPSHOT,
        snapshot(SNAPSHOT, producer_epoch=1),
    ),
    (
        "snapshot-differs",
        SNAPSHOT,
        snapshot(SNAPSHOT, producer_id=99),
    ),
    (
        "snapshot-differs",
        "txn-0/00000000000000000383.snapshot",
        snapshot(TXN + "00000000000000000383.snapshot", current_txn_first_offset=3),
    ),
    (
        "snapshot-beyond",
        FAR,
        put(FAR, encode_snapshot([])),
    ),
    ("producer-epoch", SEGMENT_0, sealed(SEGMENT_0, 1, 51, b"\0\7")),
    # the ledger
    ("ledger-corrupt", "mixed-0/tidelog-ledger.json", put("/data/mixed-0/tidelog-ledger.json", b'{"version":1}')),
    (
        "ledger-corrupt",
        "mixed-0/tidelog-ledger.json",
        put("/data/mixed-0/tidelog-ledger.json", encode(Ledger(removed={"superseded": 1}))),
    ),
    (
        "ledger-differs",
        "compact-txn-0/tidelog-ledger.json",
        put("/data/compact-txn-0/tidelog-ledger.json", encode(Ledger(checkpoint=805))),
    ),
    # epochs and identity
    ("epochs-corrupt", "mixed-0/leader-epoch-checkpoint", put("/data/mixed-0/leader-epoch-checkpoint", b"0\n2\n0 0\n")),
    (
        "epochs-corrupt",
        "mixed-0/leader-epoch-checkpoint",
        put("/data/mixed-0/leader-epoch-checkpoint", b"0\n2\n1 0\n0 9\n"),
    ),
    (
        "epochs-beyond",
        "mixed-0/leader-epoch-checkpoint",
        put("/data/mixed-0/leader-epoch-checkpoint", b"0\n2\n0 0\n1 481\n"),
    ),
    (
        "epochs-differ",
        "mixed-0/leader-epoch-checkpoint",
        put("/data/mixed-0/leader-epoch-checkpoint", b"0\n2\n0 0\n1 320\n"),
    ),
    ("epochs-differ", "mixed-0/leader-epoch-checkpoint", without("/data/mixed-0/leader-epoch-checkpoint")),
    ("metadata-corrupt", "mixed-0/partition.metadata", cut("/data/mixed-0/partition.metadata", 3)),
    ("topic-id", "txn-0", put("/data/txn-0/partition.metadata", KAFKA["/data/mixed-0/partition.metadata"])),
    ("no-segment", "/data/new-0", put("/data/new-0/leader-epoch-checkpoint", b"0\n0\n")),
    # the data directory
    ("meta-properties", "/data/meta.properties", without("/data/meta.properties")),
    ("meta-properties", "/data/meta.properties", put("/data/meta.properties", b"version=1\n")),
    (
        "checkpoint-corrupt",
        f"recovery-point{CHECKPOINT}",
        put(f"/data/recovery-point{CHECKPOINT}", b"0\n5\nmixed 0 480\n"),
    ),
    ("checkpoint-corrupt", f"cleaner{CHECKPOINT}", put(f"/data/cleaner{CHECKPOINT}", b"0\n1\nmixed 0 x\n")),
    (
        "checkpoint-bounds",
        f"recovery-point{CHECKPOINT}",
        put(f"/data/recovery-point{CHECKPOINT}", b"0\n1\nmixed 0 481\n"),
    ),
    ("checkpoint-bounds", f"log-start{CHECKPOINT}", put(f"/data/log-start{CHECKPOINT}", b"0\n1\nmixed 0 481\n")),
    ("checkpoint-bounds", f"replication{CHECKPOINT}", put(f"/data/replication{CHECKPOINT}", b"0\n1\nmixed 0 481\n")),
    ("checkpoint-bounds", f"cleaner{CHECKPOINT}", put(f"/data/cleaner{CHECKPOINT}", b"0\n1\nmixed 0 481\n")),
]


def control_without_type(files: Files) -> None:
    """A control batch whose record has no type behind the last batch of the first segment."""
    path = TXN + "00000000000000000000.log"
    last = list(iterate_batches(files[path]))[-1]
    batch = build_batch(
        [RECORD._replace(key=b"\0")], base_offset=last.last_offset, producer_id=11, producer_epoch=0, is_control=True
    )
    files[path] = files[path][: last.position] + batch


@pytest.mark.parametrize(
    ("rule", "path", "plant"), PLANTED, ids=[f"{rule}-{n}" for n, (rule, _, _) in enumerate(PLANTED)]
)
def test_a_planted_fault_is_found_and_named(rule: str, path: str, plant: Callable[[Files], None]) -> None:
    files = dict(KAFKA)
    plant(files)
    found = [finding for finding in found_in(files) if finding.is_fault]
    assert any(finding.rule == rule and finding.path.endswith(path) for finding in found), [
        (finding.rule, finding.path, finding.what) for finding in found
    ]
    assert all(finding.what and finding.meaning and finding.remedy for finding in found)


def legacy(data: bytes) -> Files:
    return {
        "/data/old-0/00000000000000000000.log": data,
        "/data/old-0/00000000000000000000.index": b"",
        "/data/old-0/00000000000000000000.timeindex": b"",
    }


def test_formats_0_and_1() -> None:
    """Logs of Kafka's own classes are sound; wrappers that break a rule are found."""
    for name, log in old_logs().items():
        assert faults(legacy(log.data), "/data/old-0") == [], name
    records = [RECORD._replace(timestamp=1_500_000_000_000 + n) for n in range(3)]
    whole = build_legacy_set(records, magic=1, compression=Compression.GZIP)
    assert faults(legacy(whole), "/data/old-0") == []
    inner = bytearray()
    for offset in (0, 5, 5):
        append_legacy_record(inner, 1, offset, 1, b"k", b"v", 0)
    for key, payload, magic, time, offset, rule in (
        (
            b"key",
            bytes(compress(Compression.GZIP, build_legacy_set(records, magic=1))),
            1,
            1_500_000_000_002,
            2,
            "wrapper",
        ),
        (None, bytes(compress(Compression.GZIP, bytes(inner))), 1, 1, 5, "wrapper"),
        (None, b"no gzip", 1, 1, 5, "wrapper"),
        (None, None, 0, -1, 5, "wrapper"),
        (None, bytes(compress(Compression.GZIP, build_legacy_set(records, magic=0))), 0, -1, 7, "wrapper"),
        (None, bytes(compress(Compression.GZIP, build_legacy_set(records, magic=1))), 1, 9, 2, "max-timestamp"),
    ):
        out = bytearray()
        append_legacy_record(out, magic, offset, time, key, payload, Compression.GZIP)
        assert [line.split()[0] for line in faults(legacy(bytes(out)), "/data/old-0")] == [rule]


def test_every_fault_in_the_table_is_planted() -> None:
    planted = {rule for rule, _, _ in PLANTED} | {"wrapper"}
    # Offsets within a batch: the decoder hands them on as they are.
    planted.add("records-offsets")
    planted |= {"unreadable", "no-access"}  # no file says so: the system does (test_verify_partition.py)
    assert {name for name, rule in RULES.items() if rule.is_fault} == planted
    assert len(PLANTED) >= 25


def test_offsets_within_a_batch() -> None:
    data = bytearray(build_batch([RECORD, RECORD, RECORD], producer_id=-1))
    # Each record here is length, attributes, timestamp delta, offset delta …: the second record's delta becomes 0.
    size = (len(data) - 61) // 3
    data[61 + size + 3] = 0
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    assert "records-offsets" in " ".join(faults(legacy(bytes(data)), "/data/old-0"))


# --- what is no fault ---


def test_metadata_that_was_exported_to_kafka_has_no_log_and_needs_none() -> None:
    files = {path: data for path, data in KAFKA.items() if "/__cluster_metadata-0/" not in path}
    exported = files | {"/data/__cluster_metadata-0/00000000000000000064-0000000001.checkpoint": b""}
    assert found_in(exported) == found_in(files)


def test_notes() -> None:
    files = dict(KAFKA) | {
        "/data/mixed-0/00000000000000000000.log.deleted": b"",
        "/data/mixed-0/00000000000000000000.log.cleaned": b"",
        "/data/mixed-0/00000000000000000000.index.swap": b"",
        "/data/mixed-0/notes.txt": b"",
        "/data/mixed-0/00000000000000000007.snapshot": encode_snapshot([]),
        "/data/gone-0.0123456789abcdef-delete/00000000000000000000.log": b"rubbish",
        "/data/photos/1.jpg": b"",
        "/data/README": b"",
    }
    del files["/data/txn-0/partition.metadata"]
    found = found_in(files)
    assert not [finding for finding in found if finding.is_fault]
    assert {(finding.rule, finding.path.rpartition("/")[2]) for finding in found} >= {
        ("leftover", "00000000000000000000.log.deleted"),
        ("leftover", "00000000000000000000.log.cleaned"),
        ("leftover", "00000000000000000000.index.swap"),
        ("foreign-file", "notes.txt"),
        ("snapshot-stray", "00000000000000000007.snapshot"),
        ("leftover", "gone-0.0123456789abcdef-delete"),
        ("foreign-directory", "photos"),
        ("foreign-file", "README"),
        ("metadata-missing", "partition.metadata"),
    }


def test_an_unfinished_tail_of_a_running_daemon() -> None:
    files = {path: data for path, data in KAFKA.items() if "cleanshutdown" not in path}
    for tail in (KAFKA[SEGMENT_320][:100], bytes(5000), b"\0" * 3):
        files[SEGMENT_320] = KAFKA[SEGMENT_320] + tail
        assert {finding.rule for finding in found_in(files)} == {"checkpoint-unknown", "unfinished-tail"}
    # But what was flushed must be there.
    files[SEGMENT_320] = KAFKA[SEGMENT_320][:-1]
    assert "batch-cut-off" in faults(files)[0]


def test_preallocated_indexes_are_sound() -> None:
    files = dict(KAFKA)
    for suffix in ("index", "timeindex"):
        files[SEGMENT_320[:-3] + suffix] += bytes(12 * 8 * 100)
    assert faults(files) == []


@pytest.mark.parametrize("running", [True, False])
def test_our_own_directory(running: bool) -> None:
    """Rolls, an idle partition, a restart with another epoch, transactions by hand: nothing to find."""
    world = World()
    world.start(segment_bytes=2000, index_interval_bytes=300)
    log = world.log("orders")
    world.log("idle")
    for n in range(60):
        append(
            log,
            f"value {n}" * 5,
            "more",
            producer_id=7 if n % 3 else -1,
            producer_epoch=0 if n % 3 else -1,
            base_sequence=2 * (n - n // 3 - 1) if n % 3 else -1,
        )
    if not running:
        world.stop()
        world.start(segment_bytes=2000, index_interval_bytes=300)
        append(world.log("orders"), "after")
        world.stop()
    files = world.fake.contents()
    found = found_in(files)
    assert [finding for finding in found if finding.is_fault] == []
    assert len([path for path in files if path.endswith(".log")]) > 3


def test_what_is_no_log_directory() -> None:
    system = FakeFileSystem()
    system.put("/home/notes.txt", b"")
    for directory in ("/home", "/home/notes.txt", "/nowhere"):
        with pytest.raises(StorageError, match=directory):
            list(verify(system, directory))


def test_progress_counts_every_byte() -> None:
    system = FakeFileSystem()
    for path, data in KAFKA.items():
        system.put(path, data)
    totals: list[int] = []
    done: list[int] = []
    list(verify(system, "/data", Progress(totals.append, done.append)))
    expected = sum(len(data) for path, data in KAFKA.items() if path.endswith(".log"))
    assert sum(totals) == sum(done) == expected


def test_a_long_list_is_cut_and_counted() -> None:
    files = dict(KAFKA)
    path = SEGMENT_0[:-3] + "index"
    entries = b"".join(struct.pack(">ii", n, n) for n in range(1, 100))
    files[path] = entries
    named = [finding for finding in found_in(files) if finding.path == path]
    assert len(named) == 11
    assert named[-1].what == "and 89 more"


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0", "3.0"])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.SNAPPY])
def test_our_logs_in_every_format(version: str, codec: Compression) -> None:
    world = World()
    world.start(segment_bytes=2000, index_interval_bytes=200, message_format_version=version)
    log = world.log()
    for n in range(60):
        append(log, *["x" * 20] * (1 + n % 4), timestamp=START_MS + n * 10 - n % 3 * 25, compression=codec)
    assert [finding for finding in verify(world.file_system, "/data") if finding.is_fault] == []
    world.stop()
    assert [finding for finding in verify(world.file_system, "/data") if finding.is_fault] == []
    assert sum(path.endswith(".log") for path in world.fake.contents()) >= 3


def test_a_high_watermark_beyond_the_end_is_a_fault_after_a_clean_stop_only() -> None:
    """It is what was readable before a truncation; the next checkpoint, a stop or a start puts it right."""
    world = World()
    world.start()
    append(world.log(), "a")
    append(world.log(), "b")
    world.log().complete_sync(world.log().flush())
    world.manager.checkpoint_high_watermarks()
    world.log().truncate_to(1)
    assert not [finding for finding in verify(world.fake, "/data") if finding.is_fault]
    beyond = world.fake.contents()["/data/replication-offset-checkpoint"]
    world.stop()
    stopped = world.fake.kill()
    stopped.put("/data/replication-offset-checkpoint", beyond)
    assert [finding.rule for finding in verify(stopped, "/data") if finding.is_fault] == ["checkpoint-bounds"]
