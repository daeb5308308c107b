"""LogOpener: from a partition's directory, and what checkpoints say of it, to a `UnifiedLog`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import CorruptCheckpointError
from ..ledger.keeper import LedgerKeeper
from ..producers.state import ProducerStateManager
from ..segment.files import LogDirectory, SegmentFiles
from .leader_epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache
from .loader import LoadedLog, LogLoader
from .local_log import LocalLog
from .partition_metadata import read_partition_metadata
from .recovery import NO_PROGRESS, Progress
from .stop_record import LogFiles
from .unified_log import UnifiedLog

if TYPE_CHECKING:
    import random
    from uuid import UUID

    from ...config.broker_config import BrokerConfig
    from ...config.log_config import LogConfig
    from ..clock import Time
    from ..io.checkpoint import TopicPartition
    from ..io.file_cache import FileCache
    from ..io.filesystem import FileSystem
    from ..segment.files import LogPlace
    from ..values import RecoveryStats

logger = logging.getLogger(__name__)


class LastStop(NamedTuple):
    """State of one log that the last stop left outside of its directory. By default: of a log that is made now."""

    was_clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0
    gaps_below: int = 0
    """Compaction has not been at or above it: a gap between segments there is of records that are gone."""
    cleaned: int | None = None
    """Kafka's cleaner-offset-checkpoint."""
    knows_recovery_point: bool = False
    """`recovery_point` is what the checkpoint says, and not for want of one."""
    files: LogFiles | None = None
    """Files that a clean stop has left in the log's directory; None: not known."""


class LogOpener:
    """Opens all logs of a manager. Any number of pool threads, each with a directory of its own.

    Attributes:
        config: the broker's settings, replaced when they change.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        cache: FileCache[SegmentFiles],
        time: Time,
        randomness: random.Random,
    ) -> None:
        self.config = config
        self._fs = file_system
        self._cache = cache
        self._time = time
        self._random = randomness

    def open(
        self,
        place: LogPlace,
        key: TopicPartition,
        config: LogConfig,
        last_stop: LastStop,
        progress: Progress = NO_PROGRESS,
    ) -> tuple[UnifiedLog, RecoveryStats]:
        """Load the log in `place`, with recovery if it takes that. Blocks. OSError and StorageError: the log can't be used."""
        path = place.path
        topic, partition = key
        topic_id = self._read_topic_id(path)
        epochs = self._read_epochs(path)
        producers = ProducerStateManager(
            path,
            self._fs,
            self._time,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
        )
        directory = LogDirectory(path, self._fs, self._cache, config, place.space, place.pace)
        loaded = LogLoader(
            directory,
            producers,
            epochs,
            clean=last_stop.was_clean,
            recovery_point=last_stop.recovery_point,
            log_start_offset=last_stop.log_start_offset,
            gaps_below=last_stop.gaps_below,
            time=self._time,
            jitter=self._jitter,
            progress=progress,
            is_recovery_point_known=last_stop.knows_recovery_point,
            cleaned=last_stop.cleaned or 0,
            damage_policy=self.config.log_damage_policy,
            left_files=last_stop.files,
        ).load()
        local = self._local_log(f"{topic}-{partition}", place, directory, loaded, last_stop)
        log = UnifiedLog(
            topic,
            partition,
            topic_id,
            local,
            producers,
            epochs,
            log_start_offset=loaded.log_start_offset,
            scheduler=place.scheduler,
            time=self._time,
        )
        log.save_start_offset = place.save_start_offset
        if loaded.files_changed:
            local.mark_changed()
        if loaded.log_end_offset - loaded.recovery_point >= config.flush_messages:
            # Recovered records may be in the page cache alone: nobody shall read records that a power cut can take back.
            log.flush()
        return log, loaded.stats

    def _local_log(
        self, name: str, place: LogPlace, directory: LogDirectory, loaded: LoadedLog, last_stop: LastStop
    ) -> LocalLog:
        """The segments that were loaded, with the ledger that counts them."""
        local = LocalLog(
            name,
            directory,
            loaded.segments,
            log_end_offset=loaded.log_end_offset,
            recovery_point=loaded.recovery_point,
            scheduler=place.scheduler,
            time=self._time,
            jitter=self._jitter,
        )
        local.holes = loaded.holes
        local.save_recovery_point = place.save_recovery_point
        first = loaded.segments.view[0].base_offset
        local.ledger = LedgerKeeper(
            directory,
            first,
            has_file=loaded.has_ledger,
            checkpoint=last_stop.cleaned,
            log_start_offset=loaded.log_start_offset,
            holes=loaded.holes,
        )
        return local

    def _read_topic_id(self, path: str) -> UUID | None:
        """The topic id in partition.metadata; None without a file, or with one line if it is damaged."""
        try:
            metadata = read_partition_metadata(self._fs, path)
        except CorruptCheckpointError as error:
            logger.warning("%s", error)
            return None
        return None if metadata is None else metadata.topic_id

    def _read_epochs(self, path: str) -> LeaderEpochCache:
        """The leader epochs of the log's file; empty if it is damaged: recovery finds them again in the batches."""
        epochs_path = f"{path}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            return LeaderEpochCache.load(self._fs, epochs_path)
        except CorruptCheckpointError as error:
            logger.warning("%s; epochs are found again from the batches", error)
            return LeaderEpochCache(self._fs, epochs_path)

    def _jitter(self, limit: int) -> int:
        return self._random.randrange(limit) if limit > 0 else 0
