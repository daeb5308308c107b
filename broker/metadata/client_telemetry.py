"""Client metrics (KIP-714): which clients are asked to push which metrics, and which do.

Subscriptions are resources of their own (`resource_config.py`); a client gets the union of those that match it, at the
shortest of their intervals. Pushes are checked as Kafka does (interval, subscription, codec, size; whole when
decompressed) and counted for `/metrics`; what is in them is the client's OpenTelemetry and is not kept.

A client is known by its instance id for as long as it comes again within three intervals; of too many, those that were
silent for longest are forgotten, and introduce themselves anew. Loop thread.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import ErrorCode, ProtocolError
from .resource_config import MATCHED, parse_match
from .store import CLIENT_METRICS

if TYPE_CHECKING:
    from ...storage.clock import Time
    from .resource_config import ResourceConfigs

log = logging.getLogger(__name__)

#: Codecs that pushes may have, the best one first: zstd, lz4, gzip, snappy.
ACCEPTED_CODECS = (4, 3, 1, 2)
_CODECS = frozenset({0, *ACCEPTED_CODECS})
#: A push may grow to this many times `telemetry.max.bytes` when it is decompressed.
MOST_GROWTH = 16
MAX_CLIENTS = 16_384
#: Characters of a client's id that are matched, and kept with the client: it may have 32,767.
MOST_MATCHED = 256
DEFAULT_INTERVAL_MS = 300_000
_SHORTEST_MEMORY_MS = 60_000
_ALL = "*"
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Metrics that one client is asked for; `metrics` empty: none."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class _Client:
    __slots__ = ("asked_ms", "attributes", "error", "is_terminating", "pushed_ms", "seen_ms", "subscription", "version")

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.attributes = attributes
        self.version = -1
        self.subscription = Subscription(0, (), DEFAULT_INTERVAL_MS)
        self.asked_ms = self.pushed_ms = float("-inf")
        self.seen_ms = 0.0
        self.is_terminating = False
        self.error = ErrorCode.NONE


class ClientTelemetry:
    """All clients that push, or may."""

    __slots__ = (
        "_clients", "_matches", "_resources", "_time", "_version", "failed", "max_bytes", "pushed_bytes", "pushes",
        "throttled",
    )  # fmt: skip

    def __init__(self, resources: ResourceConfigs, max_bytes: int, time: Time) -> None:
        self._resources = resources
        self._time = time
        self._version = 0
        self._matches: dict[str, dict[str, Any] | None] = {}
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        self.max_bytes = max_bytes
        self.pushes = self.pushed_bytes = self.throttled = self.failed = 0
        resources.on_changed.append(self._changed)

    def __len__(self) -> int:
        return len(self._clients)

    def subscribe(
        self, instance_id: bytes, attributes: Mapping[str, str], new_id: Callable[[], bytes]
    ) -> tuple[bytes, Subscription]:
        """(the client's id, its subscription). A client without an id gets a new one. `attributes` are those of
        `MATCHED`.

        Raises `ProtocolError` THROTTLING_QUOTA_EXCEEDED when it asks again before its interval has passed.
        """
        if instance_id == _NO_ID:
            instance_id = new_id()
        now = self._time.monotonic_ms()
        client, is_changed = self._client(instance_id, attributes, now)
        last = max(client.asked_ms, client.pushed_ms)
        expected = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if now - last < client.subscription.interval_ms and not is_changed and client.error not in expected:
            self.throttled += 1
            raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the push interval has not passed")
        client.asked_ms = now
        client.error = ErrorCode.NONE
        return instance_id, client.subscription

    def push(
        self, instance_id: bytes, attributes: Mapping[str, str], subscription_id: int, codec: int, size: int, last: bool
    ) -> None:
        """Accept a push of `size` bytes, of which `taken` or `refused` is to be called; `last`: the client is terminating.
        Raises `ProtocolError`.
        """
        if instance_id == _NO_ID:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a push needs the client's instance id")
        now = self._time.monotonic_ms()
        client, _ = self._client(instance_id, attributes, now)
        try:
            self._check(client, now, subscription_id, codec, size, last)
        except ProtocolError as error:
            client.error = error.code
            self.failed += error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED
            raise
        finally:
            client.is_terminating = last
        client.error = ErrorCode.NONE

    def _check(self, client: _Client, now: float, subscription_id: int, codec: int, size: int, last: bool) -> None:
        if client.is_terminating:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "the client has said that it ends")
        # A push right after the subscription comes at a random part of the interval.
        may_push = client.asked_ms > client.pushed_ms or now - client.pushed_ms >= client.subscription.interval_ms
        if may_push:
            client.pushed_ms = now
        elif not last:
            self.throttled += 1
            raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the push interval has not passed")
        if subscription_id != client.subscription.subscription_id:
            raise ProtocolError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscription has changed")
        if codec not in _CODECS:
            raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {codec}")
        if size > self.max_bytes:
            raise ProtocolError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"{size} bytes; telemetry.max.bytes allows {self.max_bytes}"
            )

    def taken(self, size: int) -> None:
        """Count an accepted push of `size` bytes whose contents are valid, as far as they are looked at."""
        self.pushes += 1
        self.pushed_bytes += size

    def refused(self) -> None:
        """Count an accepted push whose contents turned out to be invalid."""
        self.failed += 1

    def _client(self, instance_id: bytes, attributes: Mapping[str, str], now: float) -> tuple[_Client, bool]:
        """The client, and True if its subscription has changed."""
        self._forget(now)
        client = self._clients.get(instance_id)
        if client is None:
            given = {**attributes, "client_instance_id": _text(instance_id)}
            client = self._clients[instance_id] = _Client(given)
        self._clients.move_to_end(instance_id)
        client.seen_ms = now
        if client.version == self._version:
            return client, False
        before = client.subscription
        client.subscription = self._subscription(instance_id, client.attributes)
        client.version = self._version
        return client, before != client.subscription

    def _subscription(self, instance_id: bytes, attributes: Mapping[str, str]) -> Subscription:
        metrics: set[str] = set()
        interval = DEFAULT_INTERVAL_MS
        for name in self._resources.names(CLIENT_METRICS):
            expressions = self._expressions(name)
            if expressions is not None and all(
                expression.fullmatch(attributes[key]) for key, expression in expressions.items()
            ):
                values = self._resources.values(CLIENT_METRICS, name)
                metrics.update(cast("tuple[str, ...]", values["metrics"]))
                interval = min(interval, cast(int, values["interval.ms"]))
        wanted = (_ALL,) if _ALL in metrics else tuple(sorted(metrics))
        mixed = zlib.crc32(instance_id + f"{wanted}{interval}".encode())
        return Subscription(mixed - (1 << 32 if mixed >= 1 << 31 else 0), wanted, interval)

    def _expressions(self, name: str) -> Mapping[str, Any] | None:
        """By attribute, what a client of this subscription matches; None if Apache Kafka stored what can't be read here."""
        if name not in self._matches:
            try:
                self._matches[name] = parse_match(self._resources.own(CLIENT_METRICS, name).get("match", ""))
            except ProtocolError as error:
                log.error("the subscription to client metrics %s is for no client: %s", name, error)
                self._matches[name] = None
        return self._matches[name]

    def _forget(self, now: float) -> None:
        while self._clients:
            client = next(iter(self._clients.values()))
            memory = max(_SHORTEST_MEMORY_MS, 3 * client.subscription.interval_ms)
            if len(self._clients) < MAX_CLIENTS and now - client.seen_ms < memory:
                return
            self._clients.popitem(last=False)

    def _changed(self, kind: str, name: str) -> None:
        if kind == CLIENT_METRICS:
            self._version += 1
            self._matches.pop(name, None)


def attributes_of(client_id: str | None, software: tuple[str, str], address: str, port: int) -> dict[str, str]:
    """Attributes of a client that subscriptions can match, except its instance id; of a client id the first `MOST_MATCHED`
    characters.
    """
    values = ("", (client_id or "")[:MOST_MATCHED], *software, address, str(port))
    return dict(zip(MATCHED, values, strict=True))


def _text(instance_id: bytes) -> str:
    import base64

    return base64.urlsafe_b64encode(instance_id).decode().rstrip("=")
