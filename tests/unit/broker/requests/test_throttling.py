"""Where an answer says how long to wait: the compiled frames of every version, read back by the declared messages."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.topic_world import topic_world
from support.wire_client import request_frame
from tidelog.broker.quotas.quota import CLIENT_ID, CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from tidelog.broker.requests.bulk_lane import LONG_BYTES, BulkRequestLane
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.requests.dispatcher import Dispatcher
from tidelog.broker.requests.registry import Registration
from tidelog.broker.requests.throttling import RequestMeter, client_id_of
from tidelog.broker.runtime.cooperative import SLICE_UNITS, Steps, run_at_once, run_in_chunks
from tidelog.broker.share.fetch_response import share_fetch_steps
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_bytes, response_header_version
from tidelog.protocol.messages._hot import write_fetch_response, write_produce_response
from tidelog.protocol.messages.fetch import FetchResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.produce import ProduceResponse
from tidelog.protocol.messages.share_fetch import ShareFetchResponse
from tidelog.protocol.schema import decode


def request(key: int, version: int, size: int = 100, client_id: bytes = b"c") -> bytearray:
    header = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id
    return bytearray(header + bytes(size - len(header)))


@pytest.mark.parametrize("version", range(3, 13))
async def test_produce(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, "c")], {PRODUCER_BYTE_RATE: 10.0}, False)
        frame = write_produce_response(version, 7, [("t", [(0, 0, 5, -1, 0, None)])])
        data = request(ApiKey.PRODUCE, version)
        for size, wait in ((100, 0), (20, 2_000)):
            meter = RequestMeter(world.quotas, data, 0, size, ApiKey.PRODUCE, version, "ANONYMOUS")
            answer, told = meter.settle(frame)
            assert isinstance(answer, bytes)
            body = 8 + response_header_version(ApiKey.PRODUCE, version)
            decoded, end = decode(ProduceResponse, version, answer, body)
            assert (decoded.throttle_time_ms, told, end) == (wait, wait, len(frame))
            assert decoded.responses[0].partition_responses[0].base_offset == 5
        assert (
            RequestMeter(world.quotas, data, 0, 100, ApiKey.PRODUCE, version, "ANONYMOUS").settle(None)[1] > 0
        )  # acks 0


@pytest.mark.parametrize("version", range(4, 18))
async def test_fetch(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, "c")], {CONSUMER_BYTE_RATE: 10.0}, False)
        parts: list[Any] = list(write_fetch_response(version, 7, 0, 5, []))
        size = sum(map(len, parts))
        world.quotas.fetched("c", 100 - size)
        data = request(ApiKey.FETCH, version)
        for wait in (0, 100 * size):
            answer, told = RequestMeter(world.quotas, data, 0, 100, ApiKey.FETCH, version, "ANONYMOUS").settle(
                list(parts)
            )
            assert isinstance(answer, list)
            whole = b"".join(answer)  # type: ignore[arg-type]
            body = 8 + response_header_version(ApiKey.FETCH, version)
            decoded, end = decode(FetchResponse, version, whole, body)
            assert (decoded.throttle_time_ms, told, end) == (wait, wait, size)
            assert decoded.session_id == (5 if version >= 7 else 0)


async def test_time_counts_from_when_the_request_is_taken_up(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, "c")], {REQUEST_PERCENTAGE: 1e-9}, False)
        data = request(ApiKey.HEARTBEAT, 4)
        meter = RequestMeter(world.quotas, data, 0, 100, ApiKey.HEARTBEAT, 4, "ANONYMOUS")
        assert meter.handled() > 0
        meter.waited()
        assert meter.client_id == "c"


class Clock:
    """Seconds, which pass as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        for where in ("requests.throttling.time", "runtime.cooperative", "requests.dispatcher"):
            monkeypatch.setattr(f"tidelog.broker.{where}.perf_counter", lambda: self.now_s)


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("way", ["at once", "in chunks", "later"])
async def test_the_time_of_a_request_is_charged_that_it_has_the_loop(
    way: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it waits, and in chunks in between; nothing of what others have meanwhile."""
    charged: list[float] = []

    def handled(_client_id: str | None, seconds: float, _user: str) -> int:
        charged.append(seconds)
        return 0

    clock = Clock(monkeypatch)

    class Context:
        async def next_turn(self) -> None:
            clock.now_s += 7.0  # another's
            await asyncio.sleep(0)

    def steps() -> Steps[HeartbeatResponse]:
        for _ in range(3):
            clock.now_s += 0.25
            yield SLICE_UNITS
        return HeartbeatResponse()

    async def later() -> HeartbeatResponse:
        await Context().next_turn()
        return HeartbeatResponse()

    def handler(_request: object, _context: object) -> Any:
        clock.now_s += 0.5
        if way == "in chunks":
            return run_in_chunks(steps(), Context())
        return later() if way == "later" else HeartbeatResponse()

    lane = BulkRequestLane(asyncio.get_running_loop())
    services: Any = SimpleNamespace(
        quotas=SimpleNamespace(active=True, handled=handled), authorizer=None, counters=RequestCounters(),
        long_requests=lane, loop=asyncio.get_running_loop(),
    )  # fmt: skip
    row = Registration(ApiKey.HEARTBEAT, 0, 4, HeartbeatRequest, handler, many_names=True)
    connection: Any = SimpleNamespace(user="ANONYMOUS", last_active=0, client="c", hold_back=lambda: False)
    group = "g" * (LONG_BYTES if is_long else 1)
    frame = bytearray(request_frame(HeartbeatRequest(group_id=group), 4)[4:])
    answer: Any = Dispatcher(services, {ApiKey.HEARTBEAT: row}).dispatch(frame, 0, len(frame), connection)
    if way != "at once" or is_long:
        await answer
    assert charged == [1.25 if way == "in chunks" else 0.5]
    await asyncio.get_running_loop().run_in_executor(None, lane.close)


def test_client_ids() -> None:
    assert client_id_of(request(0, 9, client_id="ü".encode()), 0, 100) == "ü"
    assert client_id_of(bytearray(b"x" * 5) + request(0, 9), 5, 105) == "c"
    assert client_id_of(request(0, 9), 0, 9) is None
    assert client_id_of(bytearray(struct.pack(">hhih", 0, 0, 0, -1)), 0, 10) is None
    assert client_id_of(bytearray(struct.pack(">hhih", 0, 0, 0, 9)), 0, 10) is None


async def test_share_fetch(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, "c")], {CONSUMER_BYTE_RATE: 10.0}, False)
        parts = run_at_once(share_fetch_steps(2, 7, ErrorCode.NONE, None, 30_000, {}))
        world.quotas.fetched("c", 200)
        meter = RequestMeter(world.quotas, request(ApiKey.SHARE_FETCH, 2), 0, 100, ApiKey.SHARE_FETCH, 2, "ANONYMOUS")
        answer, told = meter.settle(parts)
        assert isinstance(answer, list)
        whole = b"".join(answer)  # type: ignore[arg-type]
        header = response_header_bytes(ApiKey.SHARE_FETCH, 2, 7)
        decoded, end = decode(ShareFetchResponse, 2, whole, 4 + len(header))
        assert (decoded.throttle_time_ms, decoded.acquisition_lock_timeout_ms, end) == (told, 30_000, len(whole))
        assert told > 0
