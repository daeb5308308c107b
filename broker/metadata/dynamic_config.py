"""Broker settings that change at run time: read at the start, altered over the wire, stored in `metadata.db`.

One node's own beat those of all nodes (the empty name), and both beat what the daemon was started with, as in Kafka. Only
rows of the table that say `dynamic` can change: those whose new value takes hold at once, in logs that are open too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...config.definitions import find_broker_setting, is_secret, nearest_name
from ...config.describe import ConfigSource
from ...config.loader import ALL_NODES, with_dynamic_settings
from ...config.setting import Status
from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.deletion_policy import check_policies
from ...storage.exceptions import DeletionPolicyError

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from .store import MetadataStore

log = logging.getLogger(__name__)


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for a log line, with secrets hidden."""
    return {name: "(hidden)" if is_secret(name) else text for name, text in settings.items()}


class DynamicSettings:
    """Loop thread. `config` is the configuration in force; `static` the one that the daemon was started with."""

    def __init__(
        self, static: BrokerConfig, stored: Mapping[str, Mapping[str, str]], node_id: int, store: MetadataStore
    ) -> None:
        """`stored`: node id as text, or '' for every node → settings. Settings that are no longer valid are left out
        and logged.
        """
        self.static = static
        self._node = str(node_id)
        self._node_id = node_id
        self._store = store
        self._stored = {node: dict(settings) for node, settings in stored.items()}
        self._alone = asyncio.Lock()
        resolved = with_dynamic_settings(static, stored, node_id)
        for problem in resolved.refused:
            log.error("a setting that was changed while running is left out: %s", problem)
        if resolved.taken:
            log.info("settings that were changed while running are in force: %s", shown(resolved.taken))
        self.config = resolved.config
        self.on_changed: list[Callable[[BrokerConfig], object]] = []
        """Called with the new configuration, on the loop thread."""
        self.checks: list[Callable[[BrokerConfig], object]] = []
        """Called with a new configuration before it is accepted; they raise `ProtocolError` to refuse it."""

    @property
    def layers(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        """Dynamic settings, strongest first, for DescribeConfigs."""
        return (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self._stored.get(self._node, {})),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self._stored.get(ALL_NODES, {})),
        )

    def check_node(self, name: str) -> None:
        """Raise `ProtocolError` INVALID_REQUEST unless `name` is this node's id, or empty (all nodes)."""
        if name not in (self._node, ALL_NODES):
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"this is broker {self._node}, not '{name}'")

    def check(self, node: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> BrokerConfig:
        """The configuration that `change` of the settings of `node` would give. Raises `ProtocolError`; nothing
        changes.
        """
        return self._resolve(node, dict(change(self._stored.get(node, {}))))

    async def alter(self, node: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Store the settings of `node` after `change`, and apply them.

        Raises `ProtocolError` (INVALID_CONFIG, INVALID_REQUEST), or `KafkaStorageError` when they could not be stored.
        """
        async with self._alone:
            settings = dict(change(self._stored.get(node, {})))
            config = self._resolve(node, settings)
            await self._store.set_broker_configs(node, settings)
            self._stored[node] = settings
            self.config = config
            whose = f"broker {node}" if node else "brokers"
            log.info("settings of %s changed while running are now: %s", whose, shown(settings))
            for callback in self.on_changed:
                callback(config)

    def _resolve(self, node: str, settings: dict[str, str]) -> BrokerConfig:
        before = self._stored.get(node, {})
        for name, text in settings.items():
            if before.get(name) == text:
                continue
            row = find_broker_setting(name)
            if row is None:
                nearest = nearest_name(name, topic=False)
                hint = f"; did you mean {nearest}?" if nearest else ""
                raise ProtocolError(ErrorCode.INVALID_CONFIG, f"unknown setting {name}{hint}")
            if row.status is Status.REFUSED and text.strip() not in row.allowed.choices:
                raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} is refused: {row.doc}")
            if row.status is Status.HONOURED and not row.dynamic:
                raise ProtocolError(
                    ErrorCode.INVALID_REQUEST, f"{name} is read at the start: set it there and start again"
                )
        by_node = {**self._stored, node: settings}
        resolved = with_dynamic_settings(self.static, by_node, self._node_id, all_or_none=True)
        if resolved.refused:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, "; ".join(resolved.refused))
        for check in self.checks:
            check(resolved.config)
        try:
            check_policies(resolved.config.log_deletion_policies)
        except DeletionPolicyError as error:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return resolved.config
