"""Clients that drip, that take nothing and that come in crowds: what each may take, and who makes room for whom."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from concurrent.futures import Future
from http.client import HTTPException
from typing import Any

import pytest
from support.patience import PATIENCE_S, until
from tidelog.broker.http import connections as http_connections
from tidelog.broker.http.connections import (
    ANSWER_TIMEOUT_S,
    LINGER_S,
    MAX_HEAD_BYTES,
    MAX_LINGER_BYTES,
    REQUEST_TIMEOUT_S,
    AnswerStream,
    BodyStream,
    BusyError,
    ClientTooSlow,
    Lane,
    Peer,
    Places,
    PutOut,
    RequestStream,
    linger,
)


class Dripping:
    """A socket whose client sends, or takes, a byte each `pause_s`; the clock is its own."""

    def __init__(self, pause_s: float = 3.0, piece: int = 1) -> None:
        self.now_s = 1000.0
        self.pause_s = pause_s
        self.piece = piece
        self.timeout_s = 0.0
        self.moved = 0

    def clock(self) -> float:
        return self.now_s

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0, "0 would mean not to wait, and None for ever"
        self.timeout_s = seconds

    def _move(self, most: int) -> int:
        self.now_s += min(self.pause_s, self.timeout_s)
        if self.pause_s > self.timeout_s:
            raise TimeoutError
        count = min(most, self.piece)
        self.moved += count
        return count

    def recv_into(self, buffer: Any) -> int:
        count = self._move(len(buffer))
        buffer[:count] = b"x" * count
        return count

    def send(self, data: Any) -> int:
        return self._move(len(data))


def peer_of(connection: Any, places: Places | None = None, host: str = "10.0.0.1") -> Peer:
    return (places or Places()).enter(connection, host)


def test_one_deadline_holds_for_a_whole_request_however_it_drips() -> None:
    """Each byte in itself is in time: one for 3 s. The fourth would come after ten."""
    client = Dripping()
    stream = io.BufferedReader(RequestStream(peer_of(client), client.clock))
    with pytest.raises(ClientTooSlow):
        stream.read(60_000)
    assert client.now_s == 1000.0 + REQUEST_TIMEOUT_S
    assert client.moved == 3
    with pytest.raises(ClientTooSlow):
        stream.read(1)
    assert client.moved == 3, "nothing is read any more"


def test_one_deadline_holds_for_a_whole_answer_however_slowly_it_is_taken() -> None:
    client = Dripping()
    stream = AnswerStream(peer_of(client), client.clock)
    stream.write(b"xx")
    with pytest.raises(ClientTooSlow):
        stream.write(b"x" * 100)
    assert client.now_s == 1000.0 + ANSWER_TIMEOUT_S
    assert client.moved == 10


def test_an_answer_that_is_taken_goes_whole() -> None:
    client = Dripping(0.001, 1000)
    assert AnswerStream(peer_of(client), client.clock).write(bytes(9_999)) == 9_999
    assert client.moved == 9_999


def test_a_head_has_a_bound_of_bytes() -> None:
    """http.client by itself takes 100 headers of 64 KiB."""
    client = Dripping(0.0, 1 << 20)
    stream = RequestStream(peer_of(client), client.clock)
    reader = io.BufferedReader(stream)
    with pytest.raises(HTTPException, match="may have 131072 bytes together"):
        reader.readline(MAX_HEAD_BYTES * 3)
    assert client.moved <= MAX_HEAD_BYTES + io.DEFAULT_BUFFER_SIZE
    stream.head_is_read()
    assert len(io.BufferedReader(stream).read(MAX_HEAD_BYTES * 2)) == MAX_HEAD_BYTES * 2


@pytest.fixture
def crowd() -> Any:
    made: list[socket.socket] = []

    def pair() -> tuple[socket.socket, socket.socket]:
        made.extend(found := socket.socketpair())
        return found

    yield pair
    for one in made:
        one.close()


def is_ended(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_address_with_the_most_connections_makes_room_with_its_first(crowd: Any) -> None:
    places = Places(most=6)
    hosts = ("10.0.0.1", "10.0.0.2", "2001:db8::1", "10.0.0.2", "2001:db8::2", "2001:db8::3")
    clients = []
    for host in hosts:
        here, there = crowd()
        places.enter(here, host)
        clients.append(there)
    places.make_room()
    assert [is_ended(client) for client in clients] == [False, False, True, False, False, False], "a /64 is one address"
    places.make_room()
    assert [is_ended(client) for client in clients] == [False, True, True, False, False, False]


def test_who_works_is_not_put_out(crowd: Any) -> None:
    places = Places(most=3)
    clients = []
    for _ in range(3):
        here, there = crowd()
        clients.append((places.enter(here, "10.0.0.1"), there))
    with clients[0][0].waiting():
        pass  # what it waited for has come
    for _ in range(5):
        places.make_room()
    assert [is_ended(there) for _, there in clients] == [False, True, True]
    with clients[0][0].waiting():
        places.make_room()
        assert is_ended(clients[0][1])


def test_who_waits_for_us_to_be_let_in_or_refused_makes_room_at_once(crowd: Any) -> None:
    places = Places(most=1)
    here, there = crowd()
    peer = places.enter(here, "10.0.0.1")
    with peer.waiting():
        pass  # the request has come
    done: Future[str] = Future()
    done.set_result("alice")
    assert peer.wait(done, 60) == "alice"
    with pytest.raises(TimeoutError):
        peer.wait(Future(), 0)
    peer.pause(0)
    places.make_room()
    assert not is_ended(there), "it works"
    for waits in (lambda: peer.pause(3600), lambda: peer.wait(Future(), 3600)):
        peer.ended = Future()
        thread = threading.Thread(target=lambda waits=waits: put_out(waits), daemon=True)
        thread.start()
        until(lambda: peer.is_waiting, "it waits")
        places.make_room()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert is_ended(there)


def put_out(waits: Any) -> None:
    with pytest.raises(PutOut):
        waits()


def test_answers_that_nobody_takes_have_a_bound_together(crowd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 clients that asked for a value of 60 MB and took nothing had the daemon hold 1.9 GB."""
    monkeypatch.setattr(http_connections, "MAX_UNSENT_BYTES", 100)
    monkeypatch.setattr(http_connections, "SMALL_BYTES", 9)
    places = Places()
    clients = {}
    with contextlib.ExitStack() as answers:

        def send(name: str, host: str, size: int) -> None:
            here, clients[name] = crowd()
            answers.enter_context(places.enter(here, host).sending(size))

        def ended() -> list[str]:
            return [name for name, there in clients.items() if is_ended(there)]

        send("first", "10.0.0.1", 30)
        send("large", "10.0.0.1", 40)
        send("other", "10.0.0.2", 20)
        assert ended() == []
        send("next", "10.0.0.3", 45)
        assert ended() == ["large"], "of the address that holds most, the largest"
        send("larger than all may be", "10.0.0.4", 150)
        assert ended() == ["first", "large", "other", "next"], "one alone may"
        send("small", "10.0.0.5", 9)
        assert "larger than all may be" not in ended(), "small ones end nobody"
        send("last", "10.0.0.5", 10)
        assert ended() == ["first", "large", "other", "next", "larger than all may be"]
    here, clients["after it"] = crowd()
    with places.enter(here, "10.0.0.1").sending(100):
        assert not is_ended(clients["last"]), "what has ended does not count"


def test_an_answer_counts_until_its_last_byte_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "SMALL_BYTES", 9)
    client = Dripping(0.001, 1000)
    peer = peer_of(client)
    counted = []
    send = client.send
    client.send = lambda data: counted.append(peer.unsent_bytes) or send(data)  # type: ignore[method-assign,func-returns-value]
    AnswerStream(peer, client.clock).write(bytes(2500))
    assert (counted, peer.unsent_bytes) == ([2500] * 3, 0)


def test_a_new_connection_gets_the_place_of_one_that_waits(crowd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(most=1)
    here, there = crowd()
    first = places.enter(here, "10.0.0.1")
    make_room = places.make_room

    def as_its_thread_would() -> None:
        make_room()
        assert is_ended(there)
        places.leave(first)

    monkeypatch.setattr(places, "make_room", as_its_thread_would)
    assert places.enter(crowd()[0], "10.0.0.2").network == "10.0.0.2"


def test_a_lane_has_so_many_at_work_and_refuses_more_than_may_wait() -> None:
    lane = Lane(working=2, waiting=0, wait_s=0.0)
    with lane.entered(), lane.entered(), pytest.raises(BusyError), lane.entered():
        pass
    with lane.entered(), lane.entered():
        pass
    with Lane(working=1, waiting=5, wait_s=0.0).entered():
        pass
    waiting = Lane(working=1, waiting=5, wait_s=0.0)
    with waiting.entered(), pytest.raises(BusyError), waiting.entered():
        pass  # its wait is over at once
    with waiting.entered():
        pass


def test_who_waits_for_a_form_is_not_in_the_lane() -> None:
    lane = Lane(working=1, waiting=0, wait_s=0.0)

    class Slow:
        def read(self, size: int) -> bytes:
            with lane.entered():
                return b"x" * size

    with lane.entered():
        assert BodyStream(Slow(), lane).read(3) == b"xxx"
        with pytest.raises(BusyError), lane.entered():
            pass
    with lane.entered():
        pass


def test_who_finds_the_lane_full_on_the_way_back_is_refused_and_frees_nothing_twice() -> None:
    lane = Lane(working=1, waiting=0, wait_s=0.0)
    other = lane.entered()

    class Slow:
        def read(self, size: int) -> bytes:
            other.__enter__()
            return b""

    with pytest.raises(BusyError), lane.entered():
        BodyStream(Slow(), lane).read(3)
    with pytest.raises(BusyError), lane.entered():
        pass
    other.__exit__(None, None, None)
    with lane.entered():
        pass


def test_what_comes_behind_an_answer_is_read_away_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed on bytes that nobody has read, a connection is reset, and the client may lose its answer."""
    here, there = socket.socketpair()
    peer = peer_of(here)
    there.sendall(b"x" * 1000)
    there.shutdown(socket.SHUT_WR)
    linger(peer)
    assert there.recv(1) == b"", "the answer has ended"
    assert here.recv(1) == b"", "all was read"
    here.close()
    there.close()

    here, there = socket.socketpair()
    times = iter([0.0, 0.0, LINGER_S])
    there.sendall(b"x")
    linger(peer_of(here), lambda: next(times))
    there.sendall(b"y")
    assert here.recv(1) == b"y", "its time was over"
    monkeypatch.setattr(http_connections, "MAX_LINGER_BYTES", 4)
    there.sendall(b"123456")
    linger(peer_of(here))
    assert here.recv(9) == b"56", "its bytes were over"
    assert MAX_LINGER_BYTES >= 1 << 16
    here.close()
    there.close()
