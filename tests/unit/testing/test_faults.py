"""Which request meets which fault, and what the client then gets."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from support.wire_client import request_frame
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.schema import decode
from tidelog.testing.faults import Faults, api_key

REAL = b"\0\0\0\4real"


class Inner:
    """A dispatcher that answers `REAL`, now or later."""

    def __init__(self, *, later: bool = False) -> None:
        self.handled = 0
        self._later = later

    def dispatch(self, *_: object) -> Any:
        self.handled += 1
        if not self._later:
            return REAL

        async def answer() -> bytes:
            return REAL

        return answer()


class Peer:
    def __init__(self) -> None:
        self.closed: list[str] = []

    def close(self, reason: str | None = None) -> None:
        self.closed.append("at once")

    def close_after_sending(self) -> None:
        self.closed.append("after sending")


async def ask(faults: Faults, inner: Inner, peer: Peer | None = None) -> Any:
    frame = bytearray(request_frame(HeartbeatRequest(group_id="g"), 4)[4:])
    dispatcher = faults.around(inner, asyncio.get_running_loop())  # type: ignore[arg-type]
    answer = dispatcher.dispatch(frame, 0, len(frame), peer or Peer())  # type: ignore[arg-type]
    return answer if answer is None or isinstance(answer, bytes) else await answer


def code_of(answer: bytes) -> int:
    assert struct.unpack_from(">i", answer)[0] == len(answer) - 4
    return decode(HeartbeatResponse, 4, answer, 9)[0].error_code  # size, correlation id, tags


async def test_without_rules_everything_passes() -> None:
    inner = Inner()
    assert await ask(Faults(), inner) == REAL
    assert inner.handled == 1


@pytest.mark.parametrize("later", [False, True])
async def test_an_error_is_answered_as_often_as_asked_in_place_of_handling(later: bool) -> None:
    faults, inner = Faults(), Inner(later=later)
    fault = faults.error("Heartbeat", "REBALANCE_IN_PROGRESS", times=2)
    assert [code_of(await ask(faults, inner)) for _ in range(2)] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert (inner.handled, fault.hits, faults.rules) == (0, 2, [])
    assert await ask(faults, inner) == REAL


@pytest.mark.parametrize("later", [False, True])
async def test_a_handled_request_is_lied_about(later: bool) -> None:
    faults, inner = Faults(), Inner(later=later)
    faults.error("Heartbeat", "REQUEST_TIMED_OUT", handled=True)
    assert code_of(await ask(faults, inner)) == ErrorCode.REQUEST_TIMED_OUT
    assert inner.handled == 1


async def test_other_apis_are_left_alone_and_rules_go() -> None:
    faults, inner = Faults(), Inner()
    faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    fault = faults.error("Heartbeat", "NOT_COORDINATOR", times=None)
    assert code_of(await ask(faults, inner)) == ErrorCode.NOT_COORDINATOR
    faults.remove(fault)
    assert await ask(faults, inner) == REAL
    faults.clear()
    assert faults.rules == []


async def test_a_delay_holds_the_answer_back_not_the_handling(monkeypatch: pytest.MonkeyPatch) -> None:
    faults, inner, waits = Faults(), Inner(), []

    async def sleep(seconds: float) -> None:
        waits.append((seconds, inner.handled))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    faults.delay("Heartbeat", 2.5)
    assert await ask(faults, inner) == REAL
    assert waits == [(2.5, 1)]


async def test_a_connection_breaks_off_before_handling_or_within_the_answer() -> None:
    faults, inner, peer = Faults(), Inner(), Peer()
    faults.disconnect("Heartbeat")
    assert await ask(faults, inner, peer) is None
    assert (inner.handled, peer.closed) == (0, ["at once"])
    faults.disconnect("Heartbeat", after_bytes=5)
    assert await ask(faults, inner, peer) == REAL[:5]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (inner.handled, peer.closed) == (1, ["at once", "after sending"])
    faults.disconnect("Heartbeat", after_bytes=0)
    assert await ask(faults, inner, peer) is None


async def test_the_seed_decides_which_requests_are_struck() -> None:
    async def struck(seed: int) -> list[bool]:
        faults, inner = Faults(seed), Inner()
        faults.error("Heartbeat", "NOT_COORDINATOR", times=None, probability=0.5)
        return [await ask(faults, inner) != REAL for _ in range(64)]

    first = await struck(1)
    assert first == await struck(1)
    assert first != await struck(2)
    assert 10 < sum(first) < 54


def test_names_are_kafkas_in_either_spelling_and_wrong_ones_are_refused_with_the_nearest() -> None:
    assert api_key("OffsetCommit") is api_key("OFFSET_COMMIT") is ApiKey.OFFSET_COMMIT
    faults = Faults()
    with pytest.raises(ValueError, match="PRODUCE"):
        faults.error("Produse", "NOT_COORDINATOR")
    with pytest.raises(ValueError, match="did you mean NOT_COORDINATOR"):
        faults.error("Produce", "NOT_CORDINATOR")
    for wrong in ({"probability": 0.0}, {"probability": 1.1}, {"times": 0}):
        with pytest.raises(ValueError, match=r"probability|times"):
            faults.error("Produce", "NOT_COORDINATOR", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delay"):
        faults.delay("Produce", -1)
    with pytest.raises(ValueError, match="bytes"):
        faults.disconnect("Produce", after_bytes=-1)
    assert faults.rules == []
