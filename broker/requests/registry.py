"""Table of the APIs that this daemon answers, filled by the handlers' modules.

Each module of `broker/apis/` registers its handler with `@api(key, (min, max), RequestType, requires=...)`, the last being what
the authorizer is asked (ADR 38). The dispatcher looks a request up here, and the ApiVersions answer is made from here: what is
listed is what is answered.

A start should cost little, and most of administration is asked for seldom: the modules of `ON_DEMAND` are imported with
the first request of theirs. Their versions stand in the table as well, and an import checks that they agree.

Modules of `broker/apis/` are found by their names and imported from here alone: they import this one, which knows no handler.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from ...protocol.api_keys import ApiKey
from ...protocol.messages.api_versions import ApiVersion
from ...protocol.schema import EncodedOnce
from .access import Requires

#: A handler runs on the loop thread. It returns the response message, or an awaitable of it when it has to wait.
#: Raw ones take (broker, buffer, start, end, version, correlation id, connection) and return frames.
Handler = Callable[..., Any]
HandlerT = TypeVar("HandlerT", bound=Handler)


@dataclass(frozen=True, slots=True)
class Registration:
    """One API. `handler` answers all versions from min to max, which ApiVersions lists."""

    api_key: ApiKey
    min_version: int
    max_version: int
    request: Any
    handler: Handler | None
    #: True: the handler parses the frame itself and returns frames (see `dispatcher.py`).
    raw: bool = False
    #: Access requirements; known once the module is loaded.
    requires: tuple[Requires, ...] = ()
    #: True: what it did belongs in the audit log (`broker/requests/audit_text.py`).
    audited: bool = False
    #: True: it may come with very many names (`bulk_lane.py`); its handler works in chunks (`runtime/cooperative.py`).
    many_names: bool = False
    #: True: what it changes is not for the audit log, but may wait for a disk: that of `metadata.db`, or a sync of what the
    #: coordinators of groups and transactions write.
    is_slow_change: bool = False
    #: True: its answer may wait for other clients. Its handler returns what waits, or chunks that end in it, and has done its own
    #: work by then.
    waits_for_others: bool = False

    @property
    def is_change(self) -> bool:
        """True if it may wait for the disk, and must not hold up requests that only read."""
        return self.audited or self.is_slow_change

    @property
    def is_loaded(self) -> bool:
        """False while `request` and `handler` are missing; `loaded` imports them."""
        return self.handler is not None


#: Answered in any case, and listed where clients are to push metrics (`telemetry.enable`).
_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})

#: API → first and last version; the module has the API's name.
ON_DEMAND: Mapping[ApiKey, tuple[int, int]] = {
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (0, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.DESCRIBE_ACLS: (0, 3),
    ApiKey.CREATE_ACLS: (0, 3),
    ApiKey.DELETE_ACLS: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: (0, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (0, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (0, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.UNREGISTER_CONTROLLER: (0, 0),
}
_registrations: dict[int, Registration] = {}


def api(
    api_key: ApiKey,
    versions: tuple[int, int],
    request: Any,
    *,
    requires: Sequence[Requires],
    audited: bool = False,
    raw: bool = False,
    many_names: bool = False,
    is_slow_change: bool = False,
    waits_for_others: bool = False,
) -> Callable[[HandlerT], HandlerT]:
    """Register a handler for `versions` (first and last, inclusive) of `api_key`. `requires` has no default: an API without
    requirements says so.
    """

    def register(handler: HandlerT) -> HandlerT:
        known = _registrations.get(api_key)
        assert known is None or not known.is_loaded, f"{api_key.name} is registered twice"
        assert ON_DEMAND.get(api_key, versions) == versions, f"{api_key.name} has other versions in ON_DEMAND"
        low, high = versions
        _registrations[api_key] = Registration(
            api_key,
            low,
            high,
            request,
            handler,
            raw,
            tuple(requires),
            audited,
            many_names,
            is_slow_change,
            waits_for_others,
        )
        return handler

    return register


def load_apis() -> dict[int, Registration]:
    """Load the registrations of all APIs, by API key; imports the modules of `apis` that are not `ON_DEMAND`. Called once, at the
    start.
    """
    later = {key.name.lower(): key for key in ON_DEMAND}
    for module in pkgutil.iter_modules(_import_api().__path__):
        if (key := later.get(module.name)) is None:
            _import_api(module.name)
        elif key not in _registrations:
            low, high = ON_DEMAND[key]
            _registrations[key] = Registration(key, low, high, None, None)
    return _registrations


def registration(api_key: ApiKey) -> Registration | None:
    """Entry of one API; None if it is not answered. Call after `load_apis`."""
    return _registrations.get(api_key)


def loaded(registration: Registration) -> Registration:
    """The entry with its handler. Loop thread; the first call imports one small module, about a millisecond."""
    if not registration.is_loaded:
        _import_api(registration.api_key.name.lower())
        registration = _registrations[registration.api_key]
    return registration


def _import_api(name: str = "") -> ModuleType:
    """Import the module of one API, or the package of all, by name: a static import would point up (ADR 56)."""
    return importlib.import_module(f"..apis.{name}" if name else "..apis", __package__)


def listed_versions(registrations: Mapping[int, Registration], *, telemetry: bool) -> EncodedOnce[ApiVersion]:
    """One row for each API, by key. Made once for each broker: every client may ask for it, and does so first.

    `telemetry`: clients are to push metrics of their own.
    """
    unlisted = frozenset() if telemetry else _TELEMETRY
    return EncodedOnce(
        ApiVersion(api_key=key, min_version=entry.min_version, max_version=entry.max_version)
        for key, entry in sorted(registrations.items())
        if key not in unlisted
    )
