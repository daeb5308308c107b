"""One topic of a cut, to be written beside what runs: its committed records, its settings, how many partitions it had.

The topic alone is restored into a scratch directory and loaded by the code that recovers logs, which so knows what was
aborted. Blocks; one thread, which starts others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.memory_records import iterate_batches, iterate_records
from ...storage.clock import SystemTime, Time
from ...storage.manager.log_manager import LogManager
from ...storage.scheduler import ThreadPoolScheduler
from ..formats.entries import Cut
from ..formats.secrets import OMIT
from .catalog import NoSuchCutError
from .restore import METADATA_FILE, Bar, Restore

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...protocol.records.record_batch import Record
    from ...storage.io.filesystem import FileSystem
    from ...storage.log.unified_log import UnifiedLog
    from ..store.interface import ObjectStore

SLICE_BYTES = 1 << 20


class Slice(NamedTuple):
    """Some committed records of one partition, in order. `size`: bytes of the log that were read for them."""

    partition: int
    records: list[Record]
    size: int


class RestoredTopic:
    """A topic in its scratch directory.

    Attributes: `partitions`, how many it had; `settings`, its own, by name; `size` in bytes.
    """

    def __init__(self, logs: Sequence[UnifiedLog], partitions: int, settings: dict[str, str]) -> None:
        self._logs = logs
        self.partitions = partitions
        self.settings = settings
        self.size = sum(log.size for log in logs)

    @property
    def codec(self) -> int:
        """Codec of the first batch that is compressed, of those that the partitions begin with; 0: none is."""
        return next((codec for log in self._logs if (codec := _first_codec(log))), 0)

    def slices(self) -> Iterator[Slice]:
        """All records that a read_committed consumer would be handed, by partition. KafkaStorageError, RecordError."""
        for log in self._logs:
            offset, limit = log.log_start_offset, log.last_stable_offset
            while offset < limit:
                found = _read(log, offset, limit)
                if found is None:
                    break
                records, offset, size = found
                yield Slice(log.partition, records, size)


def topic_of(cut: Cut, topic: str) -> Cut:
    """The cut with the partitions of one topic alone. NoSuchCutError: it has none of that name."""
    found = {key: entry for key, entry in cut.partitions.items() if entry.topic == topic}
    if not found:
        names = sorted({entry.topic for entry in cut.partitions.values()})
        some = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        raise NoSuchCutError(f"cut {cut.header.number} has no topic {topic}; it has {some or 'none'}")
    return Cut(cut.header, found)


@contextmanager
def restored_topic(
    store: ObjectStore,
    cut: Cut,
    directory: str,
    file_system: FileSystem,
    config: BrokerConfig,
    *,
    time: Time | None = None,
    bar: Bar | None = None,
) -> Iterator[RestoredTopic]:
    """Restore a cut of one topic (`topic_of`) into `directory`, log.dirs of `config`, and load it. Raises as `Restore`."""
    time = time or SystemTime()
    Restore(store, cut, [directory], file_system, config, time=time, bar=bar, key=OMIT).run()
    (topic,) = {entry.topic for entry in cut.partitions.values()}
    scheduler = ThreadPoolScheduler(1, time=time)
    manager = LogManager(config, file_system, time, scheduler)
    try:
        manager.load()
        try:
            logs = sorted(manager.logs(), key=lambda log: log.partition)
            for log in logs:
                log.load_aborted()
            settings = _settings(f"{directory}/{METADATA_FILE}", topic) if cut.header.metadata else {}
            yield RestoredTopic(logs, 1 + max(entry.partition for entry in cut.partitions.values()), settings)
        finally:
            manager.shutdown()
    finally:
        scheduler.shutdown()


def _settings(path: str, topic: str) -> dict[str, str]:
    """The topic's own settings in a restored metadata database."""
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT name, value FROM topic_configs WHERE topic = ?", (topic,)))


def _read(log: UnifiedLog, offset: int, limit: int) -> tuple[list[Record], int, int] | None:
    """Committed records from `offset` on, the offset behind them, and bytes read; None: there are no more."""
    info = log.read(offset, SLICE_BYTES, limit_offset=limit)
    if info.file is None:
        return None
    try:
        aborted = log.aborted_transactions(offset, info)
        data = info.file.pread(info.size, info.position)
    finally:
        info.release()
    records: list[Record] = []
    start = offset
    for header in iterate_batches(data):
        offset = header.last_offset + 1
        if header.is_control or (
            header.is_transactional
            and any(
                txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
                for txn in aborted
            )
        ):
            continue
        records += [record for record in iterate_records(data, header.position) if start <= record.offset < limit]
    return (records, offset, len(data)) if offset > start else None


def _first_codec(log: UnifiedLog) -> int:
    if log.log_start_offset >= log.high_watermark:
        return 0
    info = log.read(log.log_start_offset, 1)
    if info.file is None:
        return 0
    try:
        data = info.file.pread(info.size, info.position)
    finally:
        info.release()
    return next((header.compression for header in iterate_batches(data)), 0)
