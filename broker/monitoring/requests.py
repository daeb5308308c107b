"""What is counted of requests and connections, as metrics. Loop thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ..requests.counters import BOUNDS_S, RequestCounters, told_buckets
from ..runtime.metric_family import AnyFamily, Family, HistogramFamily, by, one

if TYPE_CHECKING:
    from ..server import Broker

_NAMES = {int(key): key.label for key in ApiKey}
_ERRORS = {int(code): code.name for code in ErrorCode}


def request_families(counters: RequestCounters) -> Iterator[AnyFamily]:
    """Requests, errors and latencies by API. Loop thread."""
    counts = [(key, count) for key, by_bits in enumerate(counters.latencies) if (count := sum(by_bits))]
    rows = [((_NAMES[key],), count) for key, count in counts]
    yield Family("tidelog_requests", "counter", "Requests answered, counted when they are.", ("api",), rows)
    yield Family(
        "tidelog_request_errors", "counter", "Requests, or parts of them (a partition, a topic), answered with an error.",
        ("api", "error"),
        [((_NAMES[key], _ERRORS.get(code, str(code))), count) for (key, code), count in sorted(counters.errors.items())],
    )  # fmt: skip
    yield HistogramFamily(
        "tidelog_request_seconds",
        "From a request's last byte until its answer is ready to be sent. What a client asked to wait for is in it: the wait "
        "for data of a Fetch, for the group of a JoinGroup, for the disk of a Produce.",
        ("api",),
        BOUNDS_S,
        [((_NAMES[key],), told_buckets(counters.latencies[key]), counters.nanoseconds[key] / 1e9) for key, _ in counts],
    )
    yield by("tidelog_produce_errors", "counter", "Batches that were refused, by error, over either protocol.", "error",
             {_ERRORS.get(code, str(code)): count for code, count in sorted(counters.produce_errors.items())})  # fmt: skip
    yield one(
        "tidelog_produced_bytes",
        "counter",
        "Bytes of batches appended for clients, as they came.",
        counters.produced_bytes,
    )
    yield one("tidelog_produced_records", "counter", "Records appended for clients.", counters.produced_records)


def connection_families(broker: Broker) -> Iterator[AnyFamily]:
    """Bytes in and out by path, connections, who waits. Loop thread."""
    server = broker.socket_server
    sends = server.send_counters
    yield by("tidelog_fetch_bytes", "counter", "Fetched record bytes by the way they were sent: sendfile (from the page "
             "cache to the socket) or copy (through this process).", "path",
             {"sendfile": sends.sendfile_bytes, "copy": sends.copy_fetch_bytes})  # fmt: skip
    yield one(
        "tidelog_cold_reads", "counter", "Sends that waited for pages to be read from the disk.", sends.cold_waits
    )
    yield one(
        "tidelog_received_bytes", "counter", "Bytes received by Kafka-protocol connections.", server.received_bytes
    )
    yield one("tidelog_sent_bytes", "counter", "Bytes sent by Kafka-protocol connections.", sends.sent_bytes)
    yield one("tidelog_connections", "gauge", "Open Kafka-protocol connections.", len(server.connections))
    yield one("tidelog_connections_accepted", "counter", "Connections accepted.", server.accepted_connections)
    yield one("tidelog_connections_refused", "counter", "Connections refused by a limit.", server.refused_connections)
    listeners = server.listeners
    yield by("tidelog_listener_connections", "gauge", "Open connections of each listener; tcp is the message-set protocol's.",
             "listener", {name: counts.open for name, counts in listeners.items()})  # fmt: skip
    yield by("tidelog_listener_connections_accepted", "counter", "Connections accepted, by listener.", "listener",
             {name: counts.accepted for name, counts in listeners.items()})  # fmt: skip
    yield by("tidelog_listener_connections_refused", "counter", "Connections refused by a limit, by listener.", "listener",
             {name: counts.refused for name, counts in listeners.items()})  # fmt: skip
    yield by("tidelog_listener_connection_wait_seconds", "counter", "Time that new connections waited before they were "
             "read, for rates of new connections, by listener.", "listener",
             {name: counts.waited_ms / 1000 for name, counts in listeners.items()})  # fmt: skip
    yield one("tidelog_connections_aborted", "counter", "Connections closed for what the client had sent: no request of the "
              "protocol, or an error where it wants no answer.", server.aborted_connections)  # fmt: skip
    waiting = Counter(_NAMES[c.pending_key] for c in server.connections if c.pending_since)
    yield by("tidelog_waiting_requests", "gauge", "Requests that wait: a Fetch for data, a Produce for the disk, a JoinGroup for "
             "the others.", "api", {"Fetch": 0, "Produce": 0, "JoinGroup": 0, **waiting})  # fmt: skip
    yield one("tidelog_waiting_fetches", "gauge", "Fetches in purgatory: they wait for data.", broker.purgatory.waiting)
    yield one("tidelog_conversions", "gauge", "Batches that are being converted for clients of old formats, or wait for it.",
              broker.conversions.under_way)  # fmt: skip
    yield one("tidelog_conversion_queue_bytes", "gauge", "Bytes of batches that are being converted or decompressed off the "
              "network thread, or wait for it; 64 MiB may.", broker.conversions.queued_bytes)  # fmt: skip
    yield one("tidelog_conversions_checked", "counter", "Compressed batches that were decompressed off the network thread, since "
              "they hold much.", broker.conversions.checked)  # fmt: skip
    yield one("tidelog_conversions_refused", "counter", "Batches refused because too much waited to be converted or "
              "decompressed.", broker.conversions.refused)  # fmt: skip
    sessions = broker.fetch_sessions
    yield one("tidelog_fetch_sessions", "gauge", "Incremental fetch sessions.", len(sessions))
    yield one(
        "tidelog_fetch_session_partitions", "gauge", "Partitions in all fetch sessions.", sessions.partition_count
    )
