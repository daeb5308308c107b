"""Makes the backup of a daemon: takes vectors on its loop, opens the store that the settings name."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ...backup.cut.service import BackupService, Stores, Terms
from ...backup.cut.vector import Vector, copied
from ...backup.cut.writer import Identity, Secrets
from ...backup.formats.secrets import SecretsError, cipher_of, read_key, sealed, without_secrets
from ...backup.store.counted import Counted, Tally
from ...backup.store.errors import StoreError
from ...backup.store.limited import Limited
from ...backup.store.opening import check_url, open_store, options_of
from ...backup.store.probing import probe
from ...backup.upkeep.retention import keep_of
from ...config.exceptions import ConfigError
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
    """The service, not started yet. Asks nothing of the store. Loop thread.

    ConfigError: no store can come of these settings. One that refuses, or does not answer, is no reason not to serve: the service
    tries again.
    """
    options = options_of(config)
    try:
        check_url(config.backup_url, options)
    except StoreError as error:
        raise ConfigError([f"backup.url: {error}"]) from None
    try:
        secrets = _secrets(config)
    except SecretsError as error:
        raise ConfigError([f"backup.secrets: {error}"]) from None
    tally = Tally()

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

    def counted() -> ObjectStore:
        return Counted(open_store(config.backup_url, options), time, options.part_bytes, tally)

    def store() -> ObjectStore:
        opened = counted()
        probe(opened)  # one that overwrites is refused: a second daemon would not be noticed
        rate = config.backup_max_bytes_per_second
        return Limited(opened, rate, time) if rate else opened

    return BackupService(
        Stores(store, counted, config.backup_url.rstrip("/"), tally.counts),
        take,
        Identity(logs.cluster_id, logs.node_id),
        time,
        Terms(
            config.backup_interval_ms,
            keep_of(config),
            config.backup_fence_ms,
            config.backup_verify_interval_ms,
            config.backup_verify_max_bytes_per_second,
        ),
        secrets=secrets,
        prepare=lower_priority,  # what they do in plain Python must not keep the loop from the interpreter
    )


def _secrets(config: BrokerConfig) -> Secrets:
    """What the settings want done with secrets. SecretsError: there is no such key, or a library is missing."""
    if config.backup_secrets == "keep":
        return Secrets()
    if config.backup_secrets == "omit":
        return Secrets(are_there=False, prepare=without_secrets)
    key = read_key(config.backup_secrets_key_file)
    cipher_of(key)
    return Secrets(prepare=partial(sealed, key=key), key=key.name)
