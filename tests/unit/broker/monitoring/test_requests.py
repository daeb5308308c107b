from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.monitoring.requests import connection_metrics, request_metrics, waiting_metrics
from tidelog.broker.network.cold_reads import ColdReads
from tidelog.broker.network.outbound import SendCounters
from tidelog.broker.network.socket_server import ListenerCounts
from tidelog.broker.partitions.fetch_session import FetchSessions
from tidelog.broker.requests.counters import BOUNDS_S, RequestCounters, told_buckets
from tidelog.broker.runtime.metric_family import Family, HistogramFamily, families_of
from tidelog.protocol.api_keys import API_NAMES, ApiKey
from tidelog.protocol.errors import ErrorCode


@given(st.lists(st.integers(0, 2**40)))
def test_a_bucket_counts_what_took_less_than_its_bound(times_ns: list[int]) -> None:
    by_bits = [0] * 64
    for taken in times_ns:
        by_bits[taken.bit_length()] += 1
    cumulative = list(accumulate(told_buckets(by_bits)))
    for bound, count in zip(BOUNDS_S, cumulative, strict=False):
        assert count == sum(taken < round(bound * 1e9) for taken in times_ns)
    assert cumulative[-1] == len(times_ns)
    assert len(cumulative) == len(BOUNDS_S) + 1


def test_requests_errors_and_latencies_by_api() -> None:
    counters = RequestCounters()
    counters.latencies[ApiKey.API_VERSIONS][20] += 2
    counters.nanoseconds[ApiKey.API_VERSIONS] += 1_500_000
    counters.errors[ApiKey.PRODUCE, ErrorCode.CORRUPT_MESSAGE] += 3
    counters.errors[ApiKey.PRODUCE, 30_000] += 1  # a code that has no name here
    families = {family.name: family for family in families_of(request_metrics(), counters)}
    requests, errors = families["tidelog_requests"], families["tidelog_request_errors"]
    assert isinstance(requests, Family)
    assert requests.rows == [(("ApiVersions",), 2)]
    assert isinstance(errors, Family)
    assert errors.rows == [(("Produce", "CORRUPT_MESSAGE"), 3), (("Produce", "30000"), 1)]
    histogram = families["tidelog_request_seconds"]
    assert isinstance(histogram, HistogramFamily)
    ((labels, counts, total),) = histogram.rows
    assert (labels, sum(counts), total) == (("ApiVersions",), 2, 0.0015)
    # 2^19 to 2^20 ns: the bucket that ends with 1.05 ms.
    assert BOUNDS_S[list(counts).index(2)] == 2**20 / 1e9


def test_who_waits_is_told_by_api() -> None:
    def connection(key: int, since: int) -> SimpleNamespace:
        return SimpleNamespace(pending_request=API_NAMES[key] if since else "")

    waiting = [connection(ApiKey.FETCH, 5), connection(ApiKey.FETCH, 6), connection(ApiKey.SYNC_GROUP, 7)]
    server = SimpleNamespace(
        send_counters=SendCounters(),
        connections=[*waiting, connection(ApiKey.FETCH, 0)],
        received_bytes=0,
        accepted_connections=4,
        listeners={"PLAINTEXT": ListenerCounts(3, 4, 1, 2500, 2)},
        refused_connections=0,
        aborted_connections=0,
        cold_reads=ColdReads(None, 50),  # type: ignore[arg-type]
    )
    broker = SimpleNamespace(
        socket_server=server,
        purgatory=SimpleNamespace(waiting=2),
        conversions=SimpleNamespace(under_way=0, queued_bytes=0, checked=0, refused=0),
        fetch_sessions=FetchSessions(10, None, None),  # type: ignore[arg-type]
    )
    families = [*families_of(connection_metrics(), broker.socket_server), *families_of(waiting_metrics(), broker)]  # type: ignore[arg-type]
    told = {family.name: family.rows for family in families}
    rows = [(("Fetch",), 2), (("Produce",), 0), (("JoinGroup",), 0), (("SyncGroup",), 1)]
    assert told["tidelog_waiting_requests"] == rows
    assert told["tidelog_connections"] == [((), 4)]
    by_listener = {name: rows for name, rows in told.items() if name.startswith("tidelog_listener")}
    assert by_listener == {
        "tidelog_listener_connections": [(("PLAINTEXT",), 3)],
        "tidelog_listener_connections_accepted": [(("PLAINTEXT",), 4)],
        "tidelog_listener_connections_refused": [(("PLAINTEXT",), 1)],
        "tidelog_listener_connection_wait_seconds": [(("PLAINTEXT",), 2.5)],
        "tidelog_listener_connections_kafka07": [(("PLAINTEXT",), 2)],
    }
