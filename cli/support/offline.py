"""The metadata of a stopped daemon, for commands that write where no daemon answers yet: the first user, the first rule."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...broker.metadata.store import MetadataStore, StoredMetadata
    from ...config.broker_config import BrokerConfig


class StoppedDaemon(NamedTuple):
    """Settings of a stopped daemon, the contents of its `metadata.db`, and the file itself."""

    config: BrokerConfig
    stored: StoredMetadata
    store: MetadataStore


def is_offline(options: Any) -> bool:
    """True if --config or --set select the data of a stopped daemon (`add_configuration`)."""
    return options.config is not None or bool(options.assignments)


@contextmanager
def stopped_daemon(options: Any) -> Iterator[StoppedDaemon]:
    """Opens it; its directories are locked meanwhile.

    Metadata that Apache Kafka wrote there since are imported first, as at a start. Raises ConfigError, DirectoryLockedError,
    DataDirectoryError.
    """
    from ...broker.kraft.import_ import import_metadata
    from ...broker.metadata.store import MetadataStore
    from ...config.loader import load_config
    from ...storage.clock import SystemTime
    from ...storage.io.filesystem import RealFileSystem
    from ...storage.manager.log_manager import LogManager
    from ...storage.scheduler import ThreadPoolScheduler

    config = load_config(options.config, os.environ, options.assignments)
    scheduler, file_system, time = ThreadPoolScheduler(1), RealFileSystem(), SystemTime()
    logs = LogManager(config, file_system, time, scheduler)
    with ExitStack() as stack:
        stack.callback(scheduler.shutdown)
        stack.callback(logs.shutdown)
        logs.open()
        store = MetadataStore(logs.directories[0])
        stack.callback(store.close)
        stored = import_metadata(store, file_system, logs.directories, logs.node_id, time.milliseconds())
        yield StoppedDaemon(config, stored, store)
