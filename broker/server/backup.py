"""Makes the backup of a daemon: takes vectors on its loop, opens the store that the settings name."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from ...backup.cut.service import BackupService
from ...backup.cut.vector import Vector, copied
from ...backup.cut.writer import Identity
from ...backup.store.limited import Limited
from ...backup.store.opening import open_store
from ...backup.store.probing import probe
from ...config.definitions import BROKER_SETTINGS
from ..metadata.store import SCRAM
from ..runtime.threads import lower_priority

if TYPE_CHECKING:
    from ...backup.store.interface import ObjectStore
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.manager.log_manager import LogManager
    from ..metadata.store import MetadataStore

LOOP_TIMEOUT_S = 10.0


def make_backup(
    config: BrokerConfig, logs: LogManager, metadata: MetadataStore, time: Time, loop: asyncio.AbstractEventLoop
) -> BackupService:
    """The service, not started yet. Does no I/O. Loop thread."""

    def vector(known: int) -> Vector:
        """Loop thread: all of it in one step."""
        changes = metadata.changes
        return Vector(
            time.milliseconds(),
            copied(logs.logs()),
            changes,
            metadata.copy() if changes != known else None,
        )

    async def on_loop(known: int) -> Vector:
        return vector(known)

    def take(known: int) -> Vector:
        asked = asyncio.run_coroutine_threadsafe(on_loop(known), loop)
        try:
            return asked.result(LOOP_TIMEOUT_S)
        except TimeoutError:
            asked.cancel()
            raise

    def store() -> ObjectStore:
        opened = open_store(config.backup_url)
        probe(opened)  # one that overwrites is refused: a second daemon would not be noticed
        rate = config.backup_max_bytes_per_second
        return Limited(opened, rate, time) if rate else opened

    return BackupService(
        store,
        take,
        Identity(logs.cluster_id, logs.node_id),
        time,
        config.backup_interval_ms,
        omit_secrets=config.backup_secrets == "omit",
        strip_secrets=without_secrets,
        retention_ms=config.backup_retention_ms,
        prepare=lower_priority,  # what they do in plain Python must not keep the loop from the interpreter
    )


def without_secrets(data: bytes) -> bytes:
    """The metadata database without salted passwords, what the daemon made up for itself, and settings that are passwords."""
    database = sqlite3.connect(":memory:")
    try:
        image = bytearray(data)
        image[18:20] = b"\1\1"  # of a database in WAL mode, which one in memory can't be
        database.deserialize(bytes(image))
        database.execute("DELETE FROM resource_configs WHERE kind IN (?, 'secret')", (SCRAM,))
        names = [(name,) for name, setting in BROKER_SETTINGS.items() if setting.sensitive]
        database.executemany("DELETE FROM broker_configs WHERE name = ?", names)
        database.execute("DELETE FROM broker_configs WHERE name LIKE '%password%' OR name LIKE '%jaas%'")
        database.commit()
        database.execute("VACUUM")  # what was deleted is in free pages else
        return database.serialize()
    finally:
        database.close()
