"""Whole logs: what an append takes into a topic of any format and codec, and a data directory that anybody may have written,
through recovery, reading and cleaning."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from fuzz.target import target
from fuzz.targets.records import MOST, batches, logs, mended
from support.cleaning import CleaningWorld
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, append, read_records
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.exceptions import RecordError
from tidelog.protocol.records.memory_records import is_intact, iterate_batches, iterate_records
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.validator import AppendRules, TargetFormat, checked_batch, make_ready, moved, place_batch

VERSIONS = ("3.0", "0.10.0", "0.9.0")
CODECS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
NOW = 1_700_000_000_000
LARGEST = 1 << 20
SEGMENT = "00000000000000000000.log"
#: They have a line for each damaged file.
for name in ("storage", "cleaner"):
    logging.getLogger(f"tidelog.{name}").addHandler(logging.NullHandler())


def rules(flags: int) -> AppendRules:
    append_time = NOW if flags & 1 else -1
    return AppendRules(1000, 7, append_time, bool(flags & 2), -(2**63), 2**63 - 1, LARGEST)


def appended() -> Iterator[bytes]:
    for index, data in enumerate((*batches(), *logs())):
        for kind in (0, 2, 7, 8, 12, 17):
            yield bytes([kind, index % 4]) + data


@target(RecordError, seeds=appended, extra=12 * MOST, growth=4000)
def appended_sets(data: bytes) -> None:
    """What a client sends, made ready for a topic of each format and codec, and then moved: intact batches, offsets in a row."""
    if len(data) < 2:
        return
    config = LogConfig(message_format_version=VERSIONS[data[0] % 3], compression_type=CODECS[data[0] // 3 % 6])
    given, sent = rules(data[1]), mended(data[2:])
    wanted = TargetFormat.of(config)
    if wanted.magic == 2 and len(sent) > 16 and sent[16] == 2:
        batch = checked_batch(sent, 0, len(sent), config, wanted, given)
        place_batch(batch.data, 5000, 8, given.append_time_ms)
        stored, base = bytes(batch.data), 5000
    else:
        ready = make_ready(sent, 0, len(sent), wanted, given)
        assert ready.magic == wanted.magic
        there = moved(ready, 5000, given.append_time_ms)
        stored, base = (bytes(ready.data), 1000) if there is None else (bytes(there.data), 5000)
        assert (there or ready).base_offset == base
    headers = list(iterate_batches(stored))
    assert sum(header.size for header in headers) == len(stored)
    assert all(is_intact(stored, header) for header in headers)
    offsets = [record.offset for header in headers for record in iterate_records(stored, header.position)]
    assert offsets == list(range(base, base + len(offsets)))
    assert offsets


def directories() -> Iterator[bytes]:
    yield from logs()
    yield from (data + b"\0torn" for data in logs())


@target(StorageError, RecordError, seeds=directories, extra=12 * MOST, growth=8000)
def recovered_logs(data: bytes) -> None:
    """A segment that a crash has left: what recovery keeps can be read, appended to and cleaned, and is there after a restart."""
    files = FakeFileSystem()
    files.put(f"{ROOT}/t-0/{SEGMENT}", mended(data))
    world = CleaningWorld(file_system=files)
    world.start()
    log = world.log()
    end = log.log_end_offset
    readable = read_records(log, log.log_start_offset, end)
    if end < 2**31:
        first = append(log, "value")
        assert first == end
        world.roll_and_clean()
        after = world.restart()
        assert after.log_end_offset == end + 1
        assert {record.offset for record in read_records(after, 0)} <= {record.offset for record in readable} | {end}
    world.stop()
    for finding in verify(files, f"{ROOT}/t-0"):
        assert str(finding)
