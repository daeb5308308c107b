"""Metrics of requests and connections, and of the message-set protocol, whose bytes and records are counted with the Kafka
listeners'. Loop thread.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from ...protocol.api_keys import API_NAMES
from ...protocol.errors import ERRORS
from ...protocol.message_set.wire import RequestType
from ..requests.counters import BOUNDS_S, told_buckets
from ..runtime.metric_family import COUNTER, GAUGE, Histogram, Metric, Table

if TYPE_CHECKING:
    from ..message_set.listener import MessageSetListener
    from ..network.socket_server import SocketServer
    from ..requests.counters import RequestCounters
    from ..requests.services import Services


# fmt: off
@cache
def request_metrics() -> Table[RequestCounters]:
    """Requests, errors and latencies by API."""
    return (
        Metric("tidelog_requests", COUNTER, "Requests answered, counted when they are.",
               lambda counters: {API_NAMES[key]: count for key, by_bits in enumerate(counters.latencies)
                                 if (count := sum(by_bits))}, ("api",)),
        Metric("tidelog_request_errors", COUNTER, "Requests, or parts of them (a partition, a topic), answered with an error.",
               lambda counters: {(API_NAMES[key], _error(code)): count for (key, code), count in sorted(counters.errors.items())},
               ("api", "error")),
        Histogram("tidelog_request_seconds",
                  "From a request's last byte until its answer is ready to be sent. What a client asked to wait for is in it: "
                  "the wait for data of a Fetch, for the group of a JoinGroup, for the disk of a Produce.",
                  lambda counters: {API_NAMES[key]: (told_buckets(by_bits), counters.nanoseconds[key] / 1e9)
                                    for key, by_bits in enumerate(counters.latencies) if any(by_bits)},
                  ("api",), BOUNDS_S),
        Metric("tidelog_produce_errors", COUNTER, "Batches that were refused, by error, over either protocol.",
               lambda counters: {_error(code): count for code, count in sorted(counters.produce_errors.items())}, ("error",)),
        Metric("tidelog_produced_bytes", COUNTER, "Bytes of batches appended for clients, as they came.",
               lambda counters: counters.produced_bytes),
        Metric("tidelog_produced_records", COUNTER, "Records appended for clients.",
               lambda counters: counters.produced_records),
    )


@cache
def connection_metrics() -> Table[SocketServer]:
    """Bytes in and out by path, connections, who waits."""
    listener = ("listener",)
    return (
        Metric("tidelog_fetch_bytes", COUNTER, "Fetched record bytes by the way they were sent: sendfile (from the page "
               "cache to the socket) or copy (through this process).",
               lambda server: {"sendfile": server.send_counters.sendfile_bytes, "copy": server.send_counters.copy_fetch_bytes},
               ("path",)),
        Metric("tidelog_cold_reads", COUNTER, "Sends that waited for pages to be read from the disk.",
               lambda server: server.send_counters.cold_waits),
        Metric("tidelog_cold_read_bytes", COUNTER, "Bytes read from disks for that, before they are sent.",
               lambda server: server.cold_reads.read_bytes),
        Metric("tidelog_cold_read_seconds", COUNTER, "Seconds of that: read, for which disks took; paused, for which the next "
               "read had to wait so that others have the disk (fetch.cold.disk.percent).",
               lambda server: {"read": server.cold_reads.read_s, "paused": server.cold_reads.paused_s}, ("kind",)),
        Metric("tidelog_waiting_cold_reads", GAUGE, "Such reads that wait for others.", lambda server: len(server.cold_reads)),
        Metric("tidelog_received_bytes", COUNTER, "Bytes received by Kafka-protocol connections.",
               lambda server: server.received_bytes),
        Metric("tidelog_sent_bytes", COUNTER, "Bytes sent by Kafka-protocol connections.",
               lambda server: server.send_counters.sent_bytes),
        Metric("tidelog_connections", GAUGE, "Open Kafka-protocol connections.", lambda server: len(server.connections)),
        Metric("tidelog_connections_accepted", COUNTER, "Connections accepted.", lambda server: server.accepted_connections),
        Metric("tidelog_connections_refused", COUNTER, "Connections refused by a limit.",
               lambda server: server.refused_connections),
        Metric("tidelog_listener_connections", GAUGE,
               "Open connections of each listener; tcp is the message-set protocol's.",
               lambda server: {name: counts.open for name, counts in server.listeners.items()}, listener),
        Metric("tidelog_listener_connections_accepted", COUNTER, "Connections accepted, by listener.",
               lambda server: {name: counts.accepted for name, counts in server.listeners.items()}, listener),
        Metric("tidelog_listener_connections_refused", COUNTER, "Connections refused by a limit, by listener.",
               lambda server: {name: counts.refused for name, counts in server.listeners.items()}, listener),
        Metric("tidelog_listener_connection_wait_seconds", COUNTER, "Time that new connections waited before they were "
               "read, for rates of new connections, by listener.",
               lambda server: {name: counts.waited_ms / 1000 for name, counts in server.listeners.items()}, listener),
        Metric("tidelog_listener_connections_kafka07", COUNTER, "Connections closed because what they sent is what clients of "
               "Kafka 0.7 send, by listener; the log has their addresses.",
               lambda server: {name: counts.kafka07 for name, counts in server.listeners.items()}, listener),
        Metric("tidelog_connections_aborted", COUNTER, "Connections closed for what the client had sent: no request of the "
               "protocol, or an error where it wants no answer.", lambda server: server.aborted_connections),
        Metric("tidelog_waiting_requests", GAUGE,
               "Requests that wait: a Fetch for data, a Produce for the disk, a JoinGroup for the others.", _waiting, ("api",)),
    )


@cache
def waiting_metrics() -> Table[Services]:
    """Metrics of where requests wait and of what they leave behind: purgatory, conversions, fetch sessions."""
    return (
        Metric("tidelog_waiting_fetches", GAUGE, "Fetches in purgatory: they wait for data.",
               lambda services: services.purgatory.waiting),
        Metric("tidelog_conversions", GAUGE, "Batches that are being converted for clients of old formats, or wait for it.",
               lambda services: services.conversions.under_way),
        Metric("tidelog_conversion_queue_bytes", GAUGE, "Bytes of batches that are being converted or decompressed off the "
               "network thread, or wait for it; 64 MiB may.", lambda services: services.conversions.queued_bytes),
        Metric("tidelog_conversions_checked", COUNTER, "Compressed batches that were decompressed off the network thread, since "
               "they hold much.", lambda services: services.conversions.checked),
        Metric("tidelog_conversions_refused", COUNTER, "Batches refused because too much waited to be converted or "
               "decompressed.", lambda services: services.conversions.refused),
        Metric("tidelog_fetch_sessions", GAUGE, "Incremental fetch sessions.", lambda services: len(services.fetch_sessions)),
        Metric("tidelog_fetch_session_partitions", GAUGE, "Partitions in all fetch sessions.",
               lambda services: services.fetch_sessions.partition_count),
    )
# fmt: on


def _error(code: int) -> str:
    known = ERRORS.get(code)
    return str(code) if known is None else known.name


def _waiting(server: SocketServer) -> dict[str, float]:
    waiting = Counter(name for connection in server.connections if (name := connection.pending_request))
    return {"Fetch": 0, "Produce": 0, "JoinGroup": 0, **waiting}


_REQUEST_NAMES = {int(kind): kind.name.lower() for kind in RequestType}


# fmt: off
@cache
def message_set_metrics() -> Table[MessageSetListener]:
    """Requests, errors and latencies by type of request."""
    return (
        Metric("tidelog_message_set_requests", COUNTER, "Requests of the message-set protocol, counted when answered.",
               lambda listener: {_REQUEST_NAMES[kind]: count for kind, count in enumerate(listener.requests)}, ("type",)),
        Metric("tidelog_message_set_errors", COUNTER,
               "Its message sets, offsets and malformed requests answered with an error.",
               lambda listener: {(what, _error(code)): count for (what, code), count in sorted(listener.errors.items())},
               ("type", "error")),
        Histogram("tidelog_message_set_request_seconds",
                  "From such a request's last byte until its answer is ready to be sent; the wait for the disk of a produce is "
                  "in it.",
                  lambda listener: {_REQUEST_NAMES[kind]: (told_buckets(by_bits), listener.nanoseconds[kind] / 1e9)
                                    for kind, by_bits in enumerate(listener.latencies) if any(by_bits)},
                  ("type",), BOUNDS_S),
    )


@cache
def message_set_connection_metrics() -> Table[SocketServer]:
    """Connections of the listeners that speak it."""
    return (
        Metric("tidelog_message_set_connections", GAUGE, "Its open connections.", lambda server: sum(
            connection.listener in server.message_set_endpoints for connection in server.connections)),
    )
