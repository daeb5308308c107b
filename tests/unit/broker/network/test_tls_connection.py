"""TLS around a connection: the same frames however the stream is cut, who the client is, and what is said of failures."""

from __future__ import annotations

import _ssl
import asyncio
import ctypes
import gc
import itertools
import random
import re
import socket
import ssl
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trustme
from support.connections import Server, Transport, frame
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.socket_server import Endpoint
from tidelog.broker.network.tls_connection import RecordEnds, TlsConnection
from tidelog.broker.security.principal import parse_rules

CA = trustme.CA()
SERVER = CA.issue_cert("localhost")


class Security:
    def __init__(self, asks: ssl.VerifyMode = ssl.CERT_NONE, rules: str = "DEFAULT", *, sasl: bool = False) -> None:
        self.tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        SERVER.configure_cert(self.tls_context)
        CA.configure_trust(self.tls_context)
        self.tls_context.verify_mode = asks
        self.mapping_rules = parse_rules(rules)
        self.sasl = sasl
        self.handshake_timeout_ms = 60_000
        self.expected: list[Connection] = []

    def expect(self, connection: Connection) -> None:
        self.expected.append(connection)


class Rig:
    """A connection and its client, whose TLS is Python's too. `exchange` moves bytes until nothing moves."""

    def __init__(self, answer: Callable[[bytes], Any], security: Security | None = None, **client: Any) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.server = Server(self.pool)
        self.security = security or Security()
        self.seen: list[bytes] = []
        self._answer = answer
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.transport = Transport(self.near)
        endpoint = Endpoint("SSL", "SSL", "127.0.0.1", 9092)
        arguments: Any = (self.server, endpoint, self, self.security)
        self.connection = TlsConnection(*arguments)
        self.connection.connection_made(self.transport)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        CA.configure_trust(context)
        if "cert" in client:
            client["cert"].configure_cert(context)
        context.maximum_version = client.get("version", ssl.TLSVersion.TLSv1_3)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.got = b""
        self.unread = b""

    quick = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Any:
        frame = bytes(buffer[start:end])
        self.seen.append(frame)
        return self._answer(frame)

    def answered(self, key: int, since: int) -> None:
        pass

    def name_of(self, key: int) -> str:
        return str(key)

    def feed(self, data: bytes) -> None:
        """As a loop does: what is not read yet waits."""
        while data and self.transport.reading and not self.transport.aborted:
            view = self.connection.get_buffer(-1)
            count = min(len(view), len(data))
            view[:count] = data[:count]
            self.connection.buffer_updated(count)
            view[:] = b"\xdd" * len(view)  # another connection's now, as is the other scratch buffer
            self.server.scratch[:] = b"\xee" * len(self.server.scratch)
            data = data[count:]
        assert not data or self.transport.aborted or not self.transport.reading
        self.unread = data

    def read(self) -> bool:
        try:
            data = self.far.recv(1 << 20)
        except BlockingIOError:
            return False
        if data:
            self.incoming.write(data)
        return bool(data)

    def shake_hands(self) -> None:
        for _ in range(10):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.feed(self.outgoing.read())
                self.read()
                continue
            self.feed(self.outgoing.read())
            return
        raise AssertionError("no end of the handshake")

    def send(self, data: bytes, cut: Callable[[], int] = lambda: 1 << 20) -> None:
        self.tls.write(data)
        ciphertext = self.outgoing.read()
        while ciphertext:
            count = cut()
            self.feed(ciphertext[:count])
            ciphertext = ciphertext[count:]

    def receive(self) -> bytes:
        """All that the server has sent by now; raises what the TLS layer finds wrong."""
        self.read()
        while self.incoming.pending or self.tls.pending():
            try:
                self.got += self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                if not self.read():
                    break
            self.read()
        return self.got

    def end(self) -> None:
        self.connection.connection_lost(None)
        self.near.close()
        self.far.close()
        self.pool.shutdown()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_frames_come_out_the_same_however_the_stream_is_cut(seed: int, version: ssl.TLSVersion) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice([0, 1, 7, 100, 4090, 5000, 70_000, 200_000])) for _ in range(20)]
    rig = Rig(lambda body: body[:3], version=version)
    rig.shake_hands()
    stream = b"".join(map(frame, bodies))
    while stream:
        count = rng.choice([1, 100, 16_384, 50_000, 10**6])
        rig.send(stream[:count], lambda: rng.choice([1 << 20, 50_000, 5000, 700]))
        stream = stream[count:]
    assert rig.seen == bodies
    assert rig.receive() == b"".join(body[:3] for body in bodies)
    assert rig.server.receiving.buffers.lent == 0, "nothing is owned between requests"
    rig.end()


async def test_a_pending_answer_holds_back_what_follows_and_loses_nothing() -> None:
    waiting: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> Any:
        if body.startswith(b"wait"):
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]
        return body[:1]

    rig = Rig(answer)
    rig.shake_hands()
    # More than the buffer that is read ahead, so that reading stops with records that are not decrypted yet.
    bodies = [b"wait", *(bytes([65 + number]) * 30_000 for number in range(5))]
    rig.send(b"".join(map(frame, bodies)))
    unread = rig.unread
    assert rig.seen == bodies[:1]
    assert not rig.transport.reading
    waiting[0].set_result(b"W")
    for _ in range(5):
        await asyncio.sleep(0)
    assert rig.transport.reading
    rig.feed(unread)
    assert rig.seen == bodies
    assert rig.receive() == b"WABCDE"
    rig.end()


async def test_large_answers_wait_for_a_client_that_does_not_read() -> None:
    large = random.Random(1).randbytes(4 << 20)
    rig = Rig(lambda body: large if body == b"large" else body)
    rig.shake_hands()
    rig.send(frame(b"large") + frame(b"next"))
    assert rig.seen == [b"large"], "what follows is handled when the first is sent"
    while len(rig.receive()) < len(large) + 4:  # noqa: ASYNC110 - turns of the loop, in which it sends
        await asyncio.sleep(0)
    assert rig.got == large + b"next"
    rig.end()


@pytest.mark.parametrize(
    ("rules", "principal"), [("DEFAULT", r"User:CN=alice,O=ACME\, Inc"), (r"RULE:^CN=([a-z]+).*$/$1/U", "User:ALICE")]
)
async def test_a_certificate_says_who_the_client_is(rules: str, principal: str) -> None:
    alice = CA.issue_cert("alice@example.org", common_name="alice", organization_name="ACME, Inc")
    rig = Rig(lambda body: body, Security(ssl.CERT_REQUIRED, rules), cert=alice)
    rig.shake_hands()
    rig.send(frame(b"x"))
    # trustme puts a unit of its own, with a random number, in between.
    assert re.sub(",OU=[^,]*", "", rig.connection.principal) == principal
    rig.end()


async def test_with_sasl_the_certificate_does_not_say_who_the_client_is() -> None:
    security = Security(ssl.CERT_REQUIRED, sasl=True)
    rig = Rig(lambda body: body, security, cert=CA.issue_cert("alice@example.org", common_name="alice"))
    rig.shake_hands()
    rig.send(frame(b"x"))
    assert rig.connection.principal == "User:ANONYMOUS"
    assert security.expected == [rig.connection]
    rig.end()


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"\x00\x00\x00\x15\x00\x12\x00\x03" + bytes(17), "what came is no TLS: a client of this listener needs"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP came to a listener"),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "TLS handshake failed"),
    ],
)
async def test_what_is_no_tls_is_named(first: bytes, why: str, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(lambda body: body)
    rig.feed(first)
    assert rig.transport.aborted
    assert why in caplog.text
    assert rig.server.failed_handshakes == 1
    rig.end()


async def test_who_has_no_certificate_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(lambda body: body, Security(ssl.CERT_REQUIRED), version=ssl.TLSVersion.TLSv1_2)
    with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
        rig.shake_hands()
    assert "the client shows no certificate, and ssl.client.auth=required" in caplog.text
    rig.end()


async def test_a_certificate_of_another_authority_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    stranger = trustme.CA().issue_cert("mallory@example.org")
    rig = Rig(lambda body: body, Security(ssl.CERT_REQUIRED), cert=stranger)
    rig.shake_hands()  # TLS 1.3: the client does not know yet
    assert rig.transport.aborted
    assert "the client's certificate is not good: " in caplog.text
    rig.end()


async def test_a_subject_that_no_rule_fits_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    alice = CA.issue_cert("alice@example.org", common_name="alice")
    rig = Rig(lambda body: body, Security(ssl.CERT_REQUIRED, r"RULE:^O=.*$/x/"), cert=alice)
    rig.shake_hands()
    assert rig.transport.aborted
    assert "no rule of ssl.principal.mapping.rules fits 'CN=alice" in caplog.text
    rig.end()


async def test_the_end_is_said_to_the_client_and_heard_from_it() -> None:
    rig = Rig(lambda body: body)
    rig.shake_hands()
    rig.send(frame(b"x"))
    assert rig.receive() == b"x"
    rig.connection.close()
    rig.read()
    assert rig.tls.read(1) == b"", "the end, and not merely no more bytes"
    other = Rig(lambda body: body)
    other.shake_hands()
    other.send(frame(b"x"))
    with pytest.raises(ssl.SSLWantReadError):
        other.tls.unwrap()
    other.feed(other.outgoing.read())
    assert other.transport.aborted
    rig.end()
    other.end()


async def test_what_came_at_once_is_handed_on_at_once_and_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[int] = []

    def updated(connection: Connection, count: int) -> None:
        handed.append(count)
        Connection.buffer_updated(connection, count)

    monkeypatch.setattr("tidelog.broker.network.tls_connection._plaintext_updated", updated)
    rig = Rig(lambda body: body[:1])
    rig.shake_hands()
    bodies = [bytes([65 + number]) * 300 for number in range(5)]
    for body in bodies:
        rig.tls.write(frame(body))  # a record each
    with pytest.raises(ssl.SSLWantReadError):
        rig.tls.unwrap()
    ciphertext = rig.outgoing.read()
    rig.feed(ciphertext[:1000])  # three records (of 326 bytes by TLS 1.3) and a part of the fourth
    rig.feed(ciphertext[1000:])
    assert handed == [3 * 304, 2 * 304]
    assert rig.seen == bodies
    assert rig.connection.closing, "the client's end was heard"
    rig.end()


@pytest.mark.parametrize("politely", [True, False])
async def test_what_a_client_sent_before_it_left_is_handled_though_the_connection_is_muted(politely: bool) -> None:
    """Whether TLS or TCP says first that nothing more comes; what comes all the same is not kept."""
    rig = Rig(lambda body: None)
    rig.shake_hands()
    bodies = [b"%03d" % number * 50 for number in range(250)]
    rig.connection.mute(60_000)
    for body in bodies:
        rig.tls.write(frame(body))
    if politely:
        with pytest.raises(ssl.SSLWantReadError):
            rig.tls.unwrap()
    rig.feed(rig.outgoing.read())
    if politely:
        assert not rig.transport.reading
        rig.connection.buffer_updated(4096)
        assert rig.connection._incoming.pending == 0
    assert rig.connection.eof_received()
    (timer,) = rig.server.loop.waiting()
    rig.server.loop.fire(timer)
    assert rig.seen == bodies
    assert rig.transport.aborted
    rig.end()


#: In CPython's object of a session, behind the object's head and a reference: OpenSSL's.
SSL_AT = 24


def key_updates(client: ssl.SSLObject, count: int) -> None:
    """Have the client write so many KeyUpdate messages that each ask for one of the server's (RFC 8446, 4.6.3), for which Python
    has no call."""
    library = ctypes.CDLL(getattr(_ssl, "__file__", None))
    if not hasattr(library, "SSL_key_update"):
        pytest.skip("OpenSSL is a part of this Python, and out of reach")
    session = ctypes.c_void_p(ctypes.c_void_p.from_address(id(client._sslobj) + SSL_AT).value)  # type: ignore[attr-defined]
    for _ in range(count):
        assert library.SSL_key_update(session, 1) == 1
        assert library.SSL_do_handshake(session) == 1


async def test_a_client_that_asks_for_keys_and_takes_none_is_not_read_on() -> None:
    """Each of its messages has an answer of the same size: they were kept, without a bound, for as long as it went on."""
    rig = Rig(lambda body: body[:1])
    rig.shake_hands()
    connection = rig.connection
    for _ in range(200):
        key_updates(rig.tls, 300)
        rig.feed(rig.unread + rig.outgoing.read())
        if not rig.transport.reading:
            break
    assert not rig.transport.reading
    assert connection._outgoing.pending <= 8192, "what one read asks for"
    assert len(rig.server.sending) == 1, "it counts as a client that does not read"
    while not rig.transport.reading:
        rig.read()
        await asyncio.sleep(0)
    rig.feed(rig.unread)
    rig.send(frame(b"x"))
    assert rig.receive() == b"x"
    assert len(rig.server.sending) == 0
    rig.end()


async def test_a_client_that_takes_keys_with_its_answer_is_not_taken_for_one_that_reads_nothing() -> None:
    """It was counted on as one, though all had gone out with the answer, and closed after response.send.timeout.ms."""
    waiting: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    rig = Rig(answer)
    rig.shake_hands()
    rig.send(frame(b"wait"))
    for _ in range(200):
        key_updates(rig.tls, 300)
        rig.feed(rig.unread + rig.outgoing.read())
        if not rig.transport.reading:
            break
    assert len(rig.server.sending) == 1
    while rig.read():
        pass
    waiting[0].set_result(b"W")
    for _ in range(5):
        await asyncio.sleep(0)
    rig.feed(rig.unread)
    while rig.connection.unsent_bytes:
        rig.read()
        await asyncio.sleep(0)
    assert rig.receive() == b"W"
    rig.server.sending.tick(300_001)
    rig.server.sending.tick(300_001)
    assert not rig.transport.aborted
    assert len(rig.server.sending) == 0
    rig.end()


async def test_records_that_take_long_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message for new keys takes OpenSSL 0.1 ms, and one read of the socket has room for ten thousand."""
    rig = Rig(lambda body: body[:1])
    rig.shake_hands()
    key_updates(rig.tls, 250)
    rig.tls.write(frame(b"behind"))
    updates = rig.outgoing.read()
    assert len(updates) < len(rig.server.ciphertext_view), "one read"
    time_of = {"per piece": 2_000_000}

    def now() -> int:
        rig.server.now_ns += time_of["per piece"]
        return rig.server.now_ns

    monkeypatch.setattr(rig.server, "now", now)
    other: list[int] = []
    turns = 0
    rig.feed(updates)
    while not rig.seen:
        assert rig.transport.reading == (not rig.connection._rest), "what has come is decrypted first"
        assert len(rig.server.fair_queue) == 1
        turns += 1
        rig.server.fair_queue.join("another", lambda: other.append(1))
        for _ in range(3):
            await asyncio.sleep(0)
        rig.read()
    assert 2 <= turns < 20
    assert len(other) >= turns - 1
    assert rig.seen == [b"behind"]
    time_of["per piece"] = 0
    rig.feed(rig.unread)
    assert rig.transport.reading
    rig.send(frame(b"x"))
    assert rig.receive() == b"bx"
    rig.end()


@pytest.mark.parametrize("leaves", [False, True])
async def test_no_hands_are_shaken_while_a_new_connection_has_to_wait(
    leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """max.connection.creation.rate is there for what handshakes take: those of all that came were made at once."""

    def opened(_server: Server, connection: Connection) -> None:
        connection.mute(60_000)

    monkeypatch.setattr(Server, "connection_opened", opened)
    rig = Rig(lambda body: body)
    now = asyncio.get_running_loop().time()
    mute, deadline = rig.server.loop.timers
    assert 119 < deadline.when() - now < 121, "a minute, and then the minute that a handshake has"
    with pytest.raises(ssl.SSLWantReadError):
        rig.tls.do_handshake()
    hello = rig.outgoing.read()
    rig.feed(hello[:100])
    rig.feed(hello[100:])
    assert not rig.read(), "nothing is answered"
    assert rig.server.receiving.buffers.lent == len(hello)
    if leaves:
        assert not rig.connection.eof_received()
        assert rig.transport.aborted
    else:
        rig.feed(bytes(20_000)[: 16_384 - len(hello)])  # it goes on, which no client does
        assert not rig.transport.reading
        rig.server.loop.fire(mute)
        assert rig.read()
    rig.end()
    assert rig.server.receiving.buffers.lent == 0


async def test_what_was_once_read_leaves_no_large_memory_with_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buffers never shrink: a connection kept as much as one read of the socket has, 256 KiB, for as long as it was open."""
    rig = Rig(lambda body: body[:1])
    rig.shake_hands()
    rig.connection._ciphertext = memoryview(bytearray(1 << 18))
    given: list[int] = []
    incoming = rig.connection._incoming

    class Watched:
        pending = property(lambda self: incoming.pending)

        def write(self, data: memoryview) -> int:
            count = incoming.write(data)
            given.append(incoming.pending)
            return count

    rig.connection._incoming = Watched()  # type: ignore[assignment]
    rig.send(frame(bytes(240_000)))
    assert rig.seen == [bytes(240_000)]
    assert len(given) > 7
    assert max(given) < 50_000
    rig.end()


async def test_nor_does_what_was_once_sent() -> None:
    answer = random.Random(3).randbytes(600_000)
    rig = Rig(lambda body: answer)
    rig.shake_hands()
    outbound: Any = rig.connection._outbound
    outgoing = rig.connection._outgoing
    taken: list[int] = []

    class Watched:
        pending = property(lambda self: outgoing.pending)

        def read(self) -> bytes:
            taken.append(outgoing.pending)
            return outgoing.read()

    outbound._outgoing = Watched()
    rig.send(frame(b"x"))
    got = b""
    while len(got) < len(answer):
        got = rig.receive()
        await asyncio.sleep(0)
    assert got == answer
    assert len(taken) >= 600_000 // 32_768
    assert max(taken) < 34_000
    rig.end()


async def test_what_waits_to_be_decrypted_counts_as_memory_of_requests() -> None:
    """Else ten thousand clients that send behind a request which waits hold 2 GB that no limit knows."""
    pending: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> Any:
        pending.append(asyncio.get_running_loop().create_future())
        return pending[-1]

    rig = Rig(answer)
    rig.shake_hands()
    rig.connection._ciphertext = memoryview(bytearray(1 << 18))
    rig.send(frame(b"wait") + frame(bytes(200_000)))
    assert not rig.transport.reading
    lent = rig.server.receiving.buffers.lent
    assert lent > 200_000
    rig.connection.connection_lost(None)
    assert rig.server.receiving.buffers.lent == 0
    rig.near.close()
    rig.far.close()
    rig.pool.shutdown()


@pytest.mark.parametrize("seed", range(10))
def test_record_ends_are_found_however_the_ciphertext_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 22, 300, 16_401]) for _ in range(60)]
    stream = b"".join(b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size) for size in sizes)
    ends = list(itertools.accumulate(5 + size for size in sizes))
    finder, position = RecordEnds(), 0
    while position < len(stream):
        data = memoryview(stream[position : position + rng.choice([1, 3, 100, 5000, 100_000])])
        start = 0
        while start < len(data):
            most = rng.choice([1, 2, 7])
            end = finder.cut(data, start, most, 20_000)
            passed = [at for at in ends if position + start < at <= position + end]
            assert len(passed) <= most
            assert end - start < 20_000 + 16_406
            is_full = len(passed) == most or end - start >= 20_000
            assert end == len(data) or (is_full and passed[-1] == position + end)
            start = end
        position += len(data)


async def test_damaged_records_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(lambda body: body)
    rig.shake_hands()
    rig.send(frame(b"x"))
    rig.tls.write(frame(b"y" * 100))
    damaged = bytearray(rig.outgoing.read())
    damaged[-1] ^= 1
    rig.feed(bytes(damaged))
    assert rig.seen == [b"x"]
    assert rig.transport.aborted
    assert "TLS failed" in caplog.text
    rig.end()


async def test_who_does_not_shake_hands_is_closed_in_time(caplog: pytest.LogCaptureFixture) -> None:
    security = Security()
    security.handshake_timeout_ms = 1
    rig = Rig(lambda body: body, security)
    while not rig.transport.aborted:  # noqa: ASYNC110 - turns of the loop, until the timer's
        await asyncio.sleep(0)
    assert "no TLS handshake within 1 ms (ssl.handshake.timeout.ms)" in caplog.text
    rig.end()
    security.handshake_timeout_ms = 60_000
    other = Rig(lambda body: body, security)
    other.shake_hands()
    other.send(frame(b"x"))
    assert [timer.cancelled() for timer in other.server.loop.timers] == [True]
    other.end()


class Watched(TlsConnection):
    """As TlsConnection, and one can see when it is gone."""


@pytest.mark.parametrize("stage", ["silent", "stopped", "shaken", "answered"])
async def test_what_a_lost_connection_held_is_free_at_once(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL takes 50 KiB for each: thousands that stop in their handshake must not wait for a full collection."""
    monkeypatch.setitem(globals(), "TlsConnection", Watched)
    rig = Rig(lambda body: frame(body))
    if stage == "stopped":
        rig.feed(bytes.fromhex("1603010200010001fc0303") + bytes(200))
    elif stage != "silent":
        rig.shake_hands()
    if stage == "answered":
        rig.send(frame(b"question"))
        assert rig.receive() == frame(b"question")
    gone = weakref.ref(rig.connection)
    gc.collect()
    gc.disable()
    try:
        rig.end()
        del rig.connection  # which knows the rig
        assert gone() is None
    finally:
        gc.enable()
