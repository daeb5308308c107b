"""Keys are read when they are due, once for all who wait, and no oftener than it is good for the other side."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.tokens import key_set, private_key, public_jwk
from tidelog.broker.security.sasl.jwks import BETWEEN_S, Keys, Pauses, SourceError, Wait, parse_keys

ONE = public_jwk(private_key(), "one")
EC = public_jwk(private_key("P-256"), "ec")


@pytest.mark.parametrize(
    ("entry", "algorithms"),
    [
        (ONE, ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ({**ONE, "alg": "PS256"}, ("PS256",)),
        ({**ONE, "use": "sig", "key_ops": ["verify"]}, ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        (EC, ("ES256",)),
        (public_jwk(private_key("P-384")), ("ES384",)),
        (public_jwk(private_key("Ed25519")), ("EdDSA",)),
    ],
)
def test_a_key_is_for_what_it_says_or_its_type_can_do(entry: dict[str, Any], algorithms: tuple[str, ...]) -> None:
    (key,) = parse_keys(key_set(entry))
    assert key.algorithms == algorithms


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"},
        {**ONE, "use": "enc"},
        {**ONE, "key_ops": ["encrypt"]},
        {**ONE, "alg": "HS256"},
        {**ONE, "alg": "none"},
        {**ONE, "alg": ["RS256"]},
        {**ONE, "n": "!!"},
        {**ONE, "n": 5},
        {"kty": "RSA"},
        {**EC, "crv": "P-384"},
        {**EC, "crv": ["P-256"]},
        {**EC, "x": EC["y"]},
        {},
        "one",
        None,
    ],
)
def test_what_is_no_public_key_for_signatures_is_left_out(entry: Any) -> None:
    assert [key.key_id for key in parse_keys(key_set(entry, ONE))] == ["one"]
    with pytest.raises(ValueError, match="of 1 keys none"):
        parse_keys(key_set(entry))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "a key set is"),
        (b'{"keys": {}}', "a key set is"),
        (json.dumps({"keys": [None] * 1001}).encode(), "1001 keys are more than 1000"),
    ],
)
def test_what_is_no_key_set_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_keys(data)


class Source:
    """Answers what it is told to, and counts."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.reads = 0

    def read(self) -> bytes:
        self.reads += 1
        if self.answer is None:
            raise SourceError("the issuer can't be reached")
        return self.answer


class Rig:
    def __init__(self, answer: bytes | None) -> None:
        self.now_s = 1000.0
        self.source = Source(answer)
        self.works: list[Callable[[], None]] = []
        self.at_once = True
        source: Any = self.source
        self.keys = Keys(source, Pauses(3600, 0.1, 10), lambda: self.now_s, lambda work: self.run(work))

    def run(self, work: Callable[[], None]) -> None:
        if self.at_once:
            work()
        else:
            self.works.append(work)

    async def names(self, *key_ids: str | None, algorithm: str = "RS256") -> list[str | None]:
        found = [await self.keys.find(key_id, algorithm) for key_id in key_ids]
        return [one and one.key_id for one in found]


async def test_keys_are_read_once_and_again_when_they_are_old() -> None:
    rig = Rig(key_set(ONE, EC))
    assert await rig.names("one", "one") == ["one", "one"]
    assert await rig.names("ec", algorithm="ES256") == ["ec"]
    assert rig.source.reads == 1
    rig.now_s += 3599
    assert await rig.names("one") == ["one"]
    assert rig.source.reads == 1
    rig.now_s += 1
    rig.source.answer = key_set(public_jwk(private_key(), "two"))
    assert await rig.names("one", "two") == [None, "two"]
    assert (rig.source.reads, rig.keys.reads, rig.keys.failed_reads) == (2, 2, 0)


async def test_a_key_is_not_for_another_algorithm_than_its_own() -> None:
    rig = Rig(key_set({**ONE, "alg": "RS256"}))
    assert await rig.names("one", algorithm="HS256") == [None]
    assert await rig.names("one", algorithm="none") == [None]
    assert await rig.names("one", algorithm="PS256") == [None]


async def test_a_token_without_a_name_gets_the_only_key_that_fits() -> None:
    assert await Rig(key_set(ONE, EC)).names(None) == ["one"]
    assert await Rig(key_set(ONE, public_jwk(private_key(), "two"))).names(None) == [None]


async def test_a_rotation_shows_at_once_and_strangers_can_not_make_it_read_often() -> None:
    rig = Rig(key_set(ONE))
    assert await rig.names("one") == ["one"]
    rig.now_s += BETWEEN_S
    rig.source.answer = key_set(ONE, public_jwk(private_key(), "two"))
    assert await rig.names("two") == ["two"]
    assert rig.source.reads == 2
    for number in range(1000):
        assert await rig.names(f"x{number}") == [None]
    assert rig.source.reads == 2
    rig.now_s += BETWEEN_S
    assert await rig.names("x", "y") == [None, None]
    assert rig.source.reads == 3


async def test_while_reading_fails_the_keys_from_before_hold_and_pauses_grow() -> None:
    rig = Rig(key_set(ONE))
    assert await rig.names("one") == ["one"]
    rig.source.answer = None
    rig.now_s += 3600
    pauses = []
    for _ in range(10):
        before = rig.source.reads
        assert await rig.names("one", "other") == ["one", None]
        assert rig.source.reads == before + 1
        began = rig.now_s
        while rig.source.reads == before + 1:
            rig.now_s = round(rig.now_s + 0.05, 2)
            await rig.names("other")
        pauses.append(round(rig.now_s - began, 2))
        rig.now_s += 10  # past any pause, for the next round
    assert pauses[:2] == [0.1, 0.4]  # each round had two failures
    assert pauses[-1] == 10
    assert rig.keys.failed_reads == 20
    rig.source.answer = key_set(public_jwk(private_key(), "other"))
    assert await rig.names("other") == ["other"]


async def test_all_who_come_meanwhile_wait_for_one_reading() -> None:
    rig = Rig(key_set(ONE))
    rig.at_once = False
    rig.keys.begin()
    waiting = [asyncio.ensure_future(rig.names("one")) for _ in range(20)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    waiting.pop().cancel()  # its connection is gone: the others are not touched
    (work,) = rig.works
    await asyncio.to_thread(work)
    assert await asyncio.gather(*waiting) == [["one"]] * 19
    assert rig.source.reads == 1


async def test_while_a_reading_hangs_after_a_failure_known_keys_are_not_held_up() -> None:
    rig = Rig(key_set(ONE))
    await rig.names("one")
    rig.source.answer = None
    rig.now_s += 3600
    await rig.names("one")
    rig.now_s += 3600
    rig.at_once = False
    assert await rig.names("one", "one") == ["one", "one"]
    assert len(rig.works) == 1


async def test_no_keys_at_all_is_known() -> None:
    rig = Rig(None)
    assert await rig.names("one") == [None]
    assert not rig.keys.known
    with pytest.raises(SourceError, match="can't be reached"):
        rig.keys.read_now()
    rig.source.answer = b"{}"
    with pytest.raises(SourceError, match="a key set is"):
        rig.keys.read_now()
    rig.source.answer = key_set(ONE)
    rig.keys.read_now()
    assert rig.keys.known
    assert await rig.names("one") == ["one"]


def test_other_threads_are_told_what_to_wait_for() -> None:
    rig = Rig(key_set(ONE))
    rig.at_once = False
    waits: list[bool] = []

    def wait(what: Wait) -> None:
        waits.append(what.is_asked_for)
        if rig.works:
            rig.works.pop()()
        assert what.reading.done()

    found = rig.keys.find_blocking("one", "RS256", wait)
    assert found is not None
    assert (found.key_id, waits) == ("one", [False])
    assert rig.keys.find_blocking("one", "RS256", wait) == found
    rig.now_s += BETWEEN_S
    assert rig.keys.find_blocking("two", "RS256", wait) is None
    assert rig.keys.find_blocking("two", "RS256", wait) is None
    assert (waits, rig.source.reads) == ([False, True], 2)


def test_who_does_not_wait_to_the_end_gets_the_keys_from_before() -> None:
    rig = Rig(key_set(ONE))
    rig.keys.read_now()
    rig.at_once = False
    rig.now_s += 3600
    assert rig.keys.find_blocking("one", "RS256", lambda _wait: None) is not None
    assert len(rig.works) == 1


def test_many_threads_begin_one_reading() -> None:
    rig = Rig(key_set(ONE))
    rig.at_once = False
    together = threading.Barrier(8)

    def begin(_number: int) -> object:
        together.wait(PATIENCE_S)
        return rig.keys.begin()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(begin, range(8)))) == 1
    assert len(rig.works) == 1


def test_who_has_looked_before_a_reading_began_that_has_ended_since_begins_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two lookers at the same moment, on two threads: one whole look of another falls between a look and its reading."""
    rig = Rig(key_set(ONE))
    begin, between = rig.keys.begin, ["one"]

    def find(name: str) -> str | None:
        found = rig.keys.find_blocking(name, "RS256", lambda _wait: None)
        return found and found.key_id

    def begin_late(*seen: int) -> object:
        if between:
            name = between.pop()
            assert find(name) == name
        return begin(*seen)

    monkeypatch.setattr(rig.keys, "begin", begin_late)
    assert (find("one"), rig.source.reads) == ("one", 1)
    rig.now_s += BETWEEN_S
    rig.source.answer = key_set(ONE, public_jwk(private_key(), "two"))
    between.append("two")
    assert (find("two"), rig.source.reads) == ("two", 2)


async def test_where_no_thread_is_to_be_had_the_keys_from_before_hold_and_it_is_tried_again() -> None:
    rig = Rig(key_set(ONE))
    await rig.names("one")
    rig.now_s += 3600

    def no_thread(_work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    run, rig.run = rig.run, no_thread  # type: ignore[method-assign]
    assert await rig.names("one", "two") == ["one", None]
    rig.run = run  # type: ignore[method-assign]
    rig.source.answer = key_set(public_jwk(private_key(), "two"))
    assert await rig.names("two") == ["two"]
