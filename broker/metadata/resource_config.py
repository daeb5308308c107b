"""Settings of groups and of client metrics subscriptions: stored in `metadata.db`, returned by DescribeConfigs.

A resource exists when it has a setting of its own; a group with settings need not have a member yet. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...config.group_limits import group_problems
from ...config.table.resources import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ...config.validation import validate
from ...protocol.errors import ErrorCode, ProtocolError
from .store import CLIENT_METRICS, GROUP

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...config.setting import Setting, Value
    from .store import MetadataStore

log = logging.getLogger(__name__)

TABLES: Mapping[str, Mapping[str, Setting]] = {GROUP: GROUP_SETTINGS, CLIENT_METRICS: CLIENT_METRICS_SETTINGS}
#: Of a client, what a subscription can match.
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
#: Memory of a compiled expression, some 5,000 instructions: the text of a client takes 3 ms at the worst.
PROGRAM_BYTES = 1 << 17

Change = Callable[[Mapping[str, str]], Mapping[str, str]]


class ResourceConfigs:
    """`on_changed` is called with (kind, resource) after each change."""

    def __init__(
        self,
        stored: Mapping[str, Mapping[str, Mapping[str, str]]],
        store: MetadataStore,
        config: Callable[[], BrokerConfig],
    ) -> None:
        """`stored`: kind → resource → name → value; kinds that are not in `TABLES` are ignored. `config` returns the
        broker's current settings, which limit those of groups.
        """
        self._config = config
        self._settings: dict[str, dict[str, dict[str, str]]] = {
            kind: {resource: dict(settings) for resource, settings in stored.get(kind, {}).items()} for kind in TABLES
        }
        self._store = store
        self._alone = asyncio.Lock()
        self.on_changed: list[Callable[[str, str], object]] = []

    def names(self, kind: str) -> list[str]:
        """Resources that have settings of their own."""
        return sorted(self._settings[kind])

    def own(self, kind: str, resource: str) -> Mapping[str, str]:
        """Settings of the resource itself, as text."""
        return self._settings[kind].get(resource, {})

    def values(self, kind: str, resource: str) -> dict[str, Value]:
        """Effective settings, typed: own values over defaults. What Apache Kafka set and is not known here is left out."""
        table = TABLES[kind]
        values, _ = validate({name: text for name, text in self.own(kind, resource).items() if name in table}, table)
        return {name: values.get(name, row.default) for name, row in table.items()}

    def check(self, kind: str, resource: str, change: Change) -> dict[str, str]:
        """Settings after `change`. Raises `ProtocolError`."""
        if not resource:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"settings of a {kind} need its name")
        own = self.own(kind, resource)
        settings = dict(change(own))
        table = TABLES[kind]
        # What Apache Kafka set in this directory, and is not known or can't be done here, stays.
        changed = {name: text for name, text in settings.items() if own.get(name) != text}
        for name in changed:
            if name not in table:
                raise ProtocolError(
                    ErrorCode.INVALID_CONFIG, f"unknown {kind} setting {name}; there are {', '.join(sorted(table))}"
                )
        known = {name: text for name, text in settings.items() if name in table}
        _, problems = validate(changed, table)
        if problems:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, "; ".join(problems))
        if kind == GROUP and (problems := group_problems(known, self._config())):
            raise ProtocolError(ErrorCode.INVALID_CONFIG, "; ".join(problems))
        if kind == CLIENT_METRICS:
            parse_match(settings.get("match", ""))
        return settings

    async def alter(self, kind: str, resource: str, change: Change) -> None:
        """Store the settings after `change`. Raises `ProtocolError`, or `KafkaStorageError`."""
        async with self._alone:
            settings = self.check(kind, resource, change)
            await self._store.set_resource(kind, resource, settings)
            if settings:
                self._settings[kind][resource] = settings
            else:
                self._settings[kind].pop(resource, None)
            log.info("settings of %s %s are now: %s", kind, resource, settings or "none")
            for callback in self.on_changed:
                callback(kind, resource)


def parse_match(text: str) -> dict[str, Any]:
    """Compile the expressions of a subscription's `match` with RE2, which takes linear time: clients choose the texts
    that are matched. Raises `ProtocolError` INVALID_CONFIG.
    """
    if not text.strip():
        return {}
    from ..runtime.bounded_pattern import compiled  # not before somebody has an expression

    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, expression = part.partition("=")
        if not equals or name.strip() not in MATCHED:
            raise ProtocolError(
                ErrorCode.INVALID_CONFIG, f"'{part}' is not NAME=EXPRESSION with a NAME of {', '.join(MATCHED)}"
            )
        try:
            found[name.strip()] = compiled(expression.strip(), PROGRAM_BYTES)
        except ValueError as error:
            raise ProtocolError(
                ErrorCode.INVALID_CONFIG, f"'{expression}' is not an expression of RE2: {error}"
            ) from None
    return found
