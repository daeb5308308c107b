"""Enforces client quotas: stored in `metadata.db`, measured as requests are answered, imposed as a wait.

A client that goes over its bound is answered all the same, with the time that it should wait; its connection reads no further
request until then (KIP-219). Nothing sleeps: the connection starts a timer. Clients of a listener without authentication are the
user ANONYMOUS.

Measured rates, as Kafka's:

    producer_byte_rate        bytes of Produce requests a second
    consumer_byte_rate        bytes of Fetch responses a second
    request_percentage        share of the loop thread's time that the client's requests take, in percent: 100 is all
    controller_mutation_rate  partitions made and deleted a second, as a bucket of tokens (KIP-599)
    connection_creation_rate  connections of an address a second (KIP-612)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, ProtocolError
from ..metadata.store import QUOTA
from ..runtime.metric_family import MAX_LABEL, label_of
from .quota import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Component,
    Entity,
    QuotaTable,
    check_value,
    checked_entity,
    matches,
)
from .rate import TokenBucket, WindowedRate

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ..metadata.store import MetadataStore
    from ..runtime.cooperative import Steps

log = logging.getLogger(__name__)

ANONYMOUS = "ANONYMOUS"
#: Clients choose their ids: of so many rates the ones that are silent for longest are forgotten.
MAX_RATES = 10_000
#: Longest throttle time that an answer can name.
MAX_THROTTLE_MS = 2**31 - 1
NO_LIMIT = 2**31 - 1
#: A rate of 0 counts as this one: a connection waits for weeks, not for ever.
SMALLEST_RATE = 1e-6

_TIMED = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE})
_Scope = tuple[str, str | None, str | None]


class Mutations:
    """Partitions that one request makes or deletes, charged to its client's quota."""

    __slots__ = ("_manager", "_scope", "_strict", "bound", "throttle_ms")

    def __init__(self, manager: QuotaManager, scope: _Scope, bound: float | None, strict: bool) -> None:
        self._manager = manager
        self._scope = scope
        self._strict = strict
        self.bound = bound
        self.throttle_ms = 0
        """Throttle time for the answer, ms."""

    def take(self, partitions: int) -> None:
        """Charge `partitions` about to be made or deleted. Raises `ProtocolError` THROTTLING_QUOTA_EXCEEDED if the
        client is over its quota and knows the code; older clients are throttled afterwards.
        """
        if self.bound is None:
            return
        bucket, now = self._manager.bucket(self._scope, self.bound), self._manager.now_ms()
        if self._strict and (wait := bucket.throttle_ms(self.bound, now)):
            self.throttle_ms = min(wait, MAX_THROTTLE_MS)
            raise ProtocolError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"controller_mutation_rate is {self.bound:g} partitions a second; try again in {wait} ms",
            )
        bucket.take(partitions, self.bound, now)
        self.throttle_ms = min(bucket.throttle_ms(self.bound, now), MAX_THROTTLE_MS)


class QuotaManager:
    """Loop thread. `active` is False while no quota is set that requests have to be measured for."""

    __slots__ = (
        "_alone",
        "_bucket_seconds",
        "_buckets",
        "_connection_rate",
        "_listener_limits",
        "_rates",
        "_store",
        "_time",
        "_window_ms",
        "_windows",
        "active",
        "table",
        "throttled_ms",
    )  # fmt: skip

    def __init__(
        self, config: BrokerConfig, stored: Mapping[str, Mapping[str, str]], store: MetadataStore, time: Time
    ) -> None:
        """`stored`: entity in the form of `entity_name` → key → value, as in `metadata.db`."""
        self.table = QuotaTable()
        self.active = False
        self.throttled_ms = dict.fromkeys((*sorted(_TIMED), CONTROLLER_MUTATION_RATE, CONNECTION_CREATION_RATE), 0)
        """Quota → total throttle time imposed on clients, ms."""
        self._store = store
        self._time = time
        self._connection_rate = config.max_connection_creation_rate
        self._listener_limits = config.listener_limits
        self._windows = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._bucket_seconds = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._rates: dict[_Scope, WindowedRate] = {}
        self._buckets: dict[_Scope, TokenBucket] = {}
        self._alone = asyncio.Lock()
        for name, values in stored.items():
            self._take(parse_entity(name), {key: float(value) for key, value in values.items()})

    # -- administration

    def describe(
        self, components: Sequence[Component], strict: bool
    ) -> Steps[list[tuple[str, Entity, Mapping[str, float]]]]:
        """Entities that match, as they are now, with their names and quotas, in the order of names. A step for each entity."""
        found: list[tuple[str, Entity, Mapping[str, float]]] = []
        for entity, values in list(
            self.table.entries.items()
        ):  # which change between steps, while `values` are replaced
            if matches(entity, components, strict):
                found.append((entity_name(entity), entity, values))
            yield 1
        found.sort(key=itemgetter(0))
        return found

    async def alter(
        self, parts: Sequence[tuple[str, str | None]], changes: Mapping[str, float | None], validate_only: bool
    ) -> None:
        """Set quotas of an entity; None removes one. Raises `ProtocolError`, or `KafkaStorageError`."""
        entity = checked_entity(parts)
        for key, value in changes.items():
            check_value(entity, key, 1.0 if value is None else value)
        if validate_only:
            return
        async with self._alone:
            values = {**self.table.entries.get(entity, {}), **changes}
            kept = {key: value for key, value in values.items() if value is not None}
            await self._store.set_resource(
                QUOTA, entity_name(entity), {key: repr(value) for key, value in kept.items()}
            )
            self._take(entity, kept)
        log.info("quotas of %s are now: %s", entity_name(entity), kept or "none")

    def _take(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Quotas of `entity` from now on. What was measured stays, as in Kafka: a change for one client is no fresh start for the
        others, nor for it.
        """
        dropped = self.table.entries.get(entity, {}).keys() - values.keys()
        self.table.set(entity, values)
        self.active = any(self.table.has(key) for key in _TIMED)
        for key in dropped:
            if not self.table.has(key) and key != CONNECTION_CREATION_RATE:  # of which the settings have bounds, too
                _forget(self._rates, key)
                _forget(self._buckets, key)

    # -- measuring

    def now_ms(self) -> float:
        return self._time.monotonic_ms()

    def produced(self, client_id: str | None, size: int, user: str = ANONYMOUS) -> int:
        """Charge a handled Produce request of `size` bytes; returns the throttle time in ms."""
        return self._measured(PRODUCER_BYTE_RATE, user, client_id, size)

    def fetched(self, client_id: str | None, size: int, user: str = ANONYMOUS) -> int:
        """Charge a Fetch response of `size` bytes that is being sent; returns the throttle time in ms."""
        return self._measured(CONSUMER_BYTE_RATE, user, client_id, size)

    def most_fetched(self, client_id: str | None, user: str = ANONYMOUS) -> int:
        """Size limit for one Fetch response, so that it alone can't exceed what the quota allows for all windows
        together.
        """
        limit = self.table.limit(CONSUMER_BYTE_RATE, user, client_id or "")
        return MAX_THROTTLE_MS if limit is None else int(limit.bound * self._windows * self._window_ms / 1000)

    def handled(self, client_id: str | None, seconds: float, user: str = ANONYMOUS) -> int:
        """Charge `seconds` of the loop thread for a request; returns the throttle time in ms, a window at most (KIP-124): a
        heartbeat behind a long request must not be late for its group's session.
        """
        return self._measured(REQUEST_PERCENTAGE, user, client_id, 100 * seconds, self._window_ms)

    def _measured(
        self, key: str, user: str, client_id: str | None, units: float, longest_ms: int = MAX_THROTTLE_MS
    ) -> int:
        limit = self.table.limit(key, user, client_id or "")
        if limit is None:
            return 0
        now, scope = self.now_ms(), (key, *limit.scope)
        rate = self._rate(scope)
        rate.record(units, now)
        return self._throttled(key, min(rate.throttle_ms(limit.bound, now), longest_ms))

    def connected(self, address: str, listener: str) -> int:
        """Charge a new connection from `address` to `listener`; returns the time in ms before it may be read: for its
        address's quota, its listener's rate, or max.connection.creation.rate, which is for all addresses.
        """
        limits = self._listener_limits.get(listener)
        wait = 0
        for bound, whose, where in (
            (self.table.address_limit(address), address, None),
            (None if limits is None else limits.creation_rate, None, listener),
            (self._connection_rate, None, None),
        ):
            if bound is not None and bound < NO_LIMIT:
                now = self.now_ms()
                rate = self._rate((CONNECTION_CREATION_RATE, whose, where))
                rate.record(1, now)
                wait = max(wait, rate.throttle_ms(max(bound, SMALLEST_RATE), now))
        return self._throttled(CONNECTION_CREATION_RATE, wait) if wait else 0

    def use(self, config: BrokerConfig) -> None:
        """Take over the bounds on new connections, the node's and each listener's; quotas are `metadata.db`'s. Loop thread."""
        self._connection_rate = config.max_connection_creation_rate
        self._listener_limits = config.listener_limits

    def mutations(self, client_id: str | None, user: str = ANONYMOUS, *, strict: bool) -> Mutations:
        """Account of one request that makes or deletes partitions; `strict`: its client knows the error code."""
        limit = self.table.limit(CONTROLLER_MUTATION_RATE, user, client_id or "")
        if limit is None:
            return Mutations(self, (CONTROLLER_MUTATION_RATE, None, None), None, strict)
        return Mutations(self, (CONTROLLER_MUTATION_RATE, *limit.scope), limit.bound, strict)

    def bucket(self, scope: _Scope, bound: float) -> TokenBucket:
        """Token bucket shared by all in `scope`."""
        scope = _short(scope)
        bucket = self._buckets.get(scope)
        if bucket is None:
            _make_room(self._buckets)
            bucket = self._buckets[scope] = TokenBucket(self._bucket_seconds, bound, self.now_ms())
        return bucket

    def _rate(self, scope: _Scope) -> WindowedRate:
        scope = _short(scope)
        rate = self._rates.get(scope)
        if rate is None:
            _make_room(self._rates)
            rate = self._rates[scope] = WindowedRate(self._windows, self._window_ms)
        return rate

    def _throttled(self, key: str, throttle_ms: int) -> int:
        throttle_ms = min(throttle_ms, MAX_THROTTLE_MS)
        self.throttled_ms[key] += throttle_ms
        return throttle_ms


def _short(scope: _Scope) -> _Scope:
    """The scope with a hash for what is long in it: a client's id may have 32,767 bytes, and thousands are remembered."""
    key, user, client_id = scope
    if len(user or "") <= MAX_LABEL >= len(client_id or ""):
        return scope
    return key, user and label_of(user), client_id and label_of(client_id)


def _forget(measured: dict[_Scope, WindowedRate] | dict[_Scope, TokenBucket], key: str) -> None:
    for scope in [scope for scope in measured if scope[0] == key]:
        del measured[scope]


def _make_room(measured: dict[_Scope, WindowedRate] | dict[_Scope, TokenBucket]) -> None:
    """Drop the half that was idle for longest if there are too many: rarely, instead of one at a time."""
    if len(measured) < MAX_RATES:
        return
    for scope in sorted(measured, key=lambda scope: measured[scope].last_ms)[: MAX_RATES // 2]:
        del measured[scope]


def entity_name(entity: Entity) -> str:
    """Format an entity as text: `{"client-id":"c","user":null}`."""
    import json  # most brokers have no quota

    return json.dumps(dict(entity), separators=(",", ":"))


def parse_entity(name: str) -> Entity:
    """Parse the output of `entity_name`. ValueError for anything else."""
    import json

    try:
        parts = json.loads(name)
    except RecursionError:
        parts = None
    if not isinstance(parts, dict) or not all(part is None or isinstance(part, str) for part in parts.values()):
        raise ValueError(f"not an entity of quotas: {name[:100]}")
    return tuple(sorted(parts.items()))
