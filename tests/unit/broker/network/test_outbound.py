"""Outbound: parts leave in order and whole, whatever the socket takes, and every file lease is given back."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.connections import Loop, Server, Transport, cold_reads, end_cold_reads, frame
from support.patience import PATIENCE_S
from tidelog.broker.network import outbound
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.outbound import FileSlice, Outbound, Part, SendCounters
from tidelog.broker.network.socket_server import Endpoint


class LeasedFile:
    """A file whose leases are counted; `cached` False sends readers to the pool first."""

    def __init__(self, path: Path, cached: bool | None = True) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self.leases = 0
        self.cached = cached
        self.prefetched: list[tuple[int, int]] = []

    def fileno(self) -> int:
        return self._fd

    @property
    def identity(self) -> tuple[int, int]:
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def retain(self) -> LeasedFile:
        self.leases += 1
        return self

    def release(self) -> None:
        self.leases -= 1

    def is_cached(self, position: int, length: int) -> bool | None:
        return self.cached

    def prefetch(self, position: int, length: int) -> None:
        self.prefetched.append((position, length))

    def close(self) -> None:
        os.close(self._fd)


async def read_all(reader: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) < count:
        chunk = await loop.sock_recv(reader, 1 << 20)
        if not chunk:
            break
        received += chunk
    return bytes(received)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("cached", [True, False, None])
async def test_bytes_and_slices_arrive_in_order(tmp_path: Path, warm: bool, cached: bool | None) -> None:
    rng = random.Random(11)
    content = rng.randbytes(5 << 20)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    file = LeasedFile(path, cached)
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    counters = SendCounters()
    failures: list[OSError] = []
    drained = asyncio.Event()
    with cold_reads() as pool:
        out = Outbound(asyncio.get_running_loop(), left.fileno(), pool, counters, drained.set, failures.append)
        parts: list[Part] = []
        expected = b""
        for _ in range(6):
            head = rng.randbytes(rng.randrange(1, 300))
            position = rng.randrange(len(content))
            count = rng.randrange(0, len(content) - position)
            parts += [head, FileSlice(file.retain(), position, count, warm)]  # type: ignore[arg-type]
            expected += head + content[position : position + count]
        assert not out.write_parts(parts)
        assert not out.write(b"the end")
        assert await read_all(right, len(expected) + 7) == expected + b"the end"
        await drained.wait()
        assert out.idle
        out.close()
    assert file.leases == 0
    assert failures == []
    assert counters.sent_bytes == len(expected) + 7
    assert counters.copy_fetch_bytes == 0
    assert bool(file.prefetched) == (not warm and not cached)
    for end in (left, right):
        end.close()
    file.close()


class Answers:
    """A dispatcher that answers each request with the next list of parts."""

    quick = None

    def __init__(self, answers: Iterable[list[Part]]) -> None:
        self._answers = iter(answers)

    def dispatch(self, _buffer: bytearray, _start: int, _end: int, _connection: Connection) -> list[Part]:
        return next(self._answers)


@pytest.mark.parametrize("seed", range(30))
async def test_answers_of_slices_arrive_whole_by_a_connection_whatever_its_socket_takes(
    tmp_path: Path, seed: int
) -> None:
    """What goes out in one go does so by the compiled part of a connection, and the rest by `Outbound`."""
    rng = random.Random(seed)
    content = rng.randbytes(3 << 20)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    file = LeasedFile(path, rng.choice([True, False]))
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, rng.choice([5_000, 100_000, 4 << 20]))
    for end in (near, far):
        end.setblocking(False)
    answers: list[list[Part]] = [[b"first"]]
    expected = [b"first"]
    for _ in range(rng.randint(1, 12)):
        answer: list[Part] = []
        whole = b""
        for _ in range(rng.randint(1, 4)):
            head = rng.randbytes(rng.choice([1, 80, 200, 50_000]))
            position = rng.randrange(len(content))
            count = min(rng.choice([0, 1, 3000, 65_536, 65_536, 300_000, 1 << 20, 2 << 20]), len(content) - position)
            answer += [head, FileSlice(file.retain(), position, count, rng.random() < 0.8)]  # type: ignore[arg-type]
            whole += head + content[position : position + count]
        answers.append([*answer, b"\0\0\0"] if rng.random() < 0.8 else answer)
        expected.append(whole + b"\0\0\0" if type(answers[-1][-1]) is bytes else whole)
    with ThreadPoolExecutor(1) as pool:
        server = Server(pool)
        connection = Connection(server, Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092), Answers(answers))  # type: ignore[arg-type]
        transport = Transport(near)
        connection.connection_made(transport)
        behind = 0
        request = frame(b"request")
        for number in range(len(expected)):
            view = connection.get_buffer(-1)
            view[: len(request)] = request
            connection.buffer_updated(len(request))
            behind += 1
            if (
                number + 1 == len(expected) or rng.random() < 0.8
            ):  # else the next request comes before this answer is taken
                whole = b"".join(expected[number + 1 - behind : number + 1])
                assert await asyncio.wait_for(read_all(far, len(whole)), PATIENCE_S) == whole
                behind = 0
        assert server.send_counters.sent_bytes == sum(map(len, expected))
        connection.close()
        connection.connection_lost(None)
        end_cold_reads(server.cold_reads)
    assert file.leases == 0
    for end in (near, far):
        end.close()
    file.close()


async def test_a_socket_that_took_a_part_is_not_asked_for_more_before_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(1 << 20)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    file = LeasedFile(path)
    near, far = socket.socketpair()
    for end in (near, far):
        end.setblocking(False)
    calls: list[int] = []
    really = outbound.sendfile

    def sendfile(to_socket: int, from_file: int, position: int, count: int) -> int:
        calls.append(count)
        return really(to_socket, from_file, position, count)

    monkeypatch.setattr(outbound, "sendfile", sendfile)
    with cold_reads() as pool:
        loop = asyncio.get_running_loop()
        out = Outbound(loop, near.fileno(), pool, SendCounters(), lambda: None, lambda _: None)
        assert not out.write_parts([FileSlice(file.retain(), 0, len(content), True)])  # type: ignore[arg-type]
        assert calls == [len(content)]
        assert await asyncio.wait_for(read_all(far, len(content)), PATIENCE_S) == content
        out.close()
    assert file.leases == 0
    for end in (near, far):
        end.close()
    file.close()


async def test_close_gives_leases_back_and_lets_the_peer_see_the_end(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(8 << 20))
    file = LeasedFile(path)
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with cold_reads() as pool:
        out = Outbound(asyncio.get_running_loop(), left.fileno(), pool, SendCounters(), lambda: None, lambda _: None)
        out.write_parts([b"head", FileSlice(file.retain(), 0, 8 << 20, True)])  # type: ignore[arg-type]
        assert file.leases == 1
        left.close()
        out.close()
        out.close()
        assert out.write_parts([FileSlice(file.retain(), 0, 1, True)])  # type: ignore[arg-type]
    assert file.leases == 0
    assert len(await read_all(right, 9 << 20)) < 8 << 20
    right.close()
    file.close()


async def test_who_closes_while_pages_are_read_waits_for_them_no_more(tmp_path: Path) -> None:
    """The read stood before others', and the file and the connection stayed for as long as the disk took."""
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(1 << 20))
    file = LeasedFile(path, cached=False)
    left, right = socket.socketpair()
    left.setblocking(False)
    asked = list[Any]()

    class Reads:
        def read(self, *what: Any) -> Any:
            asked.append(what)
            return asked.clear

        def brought(self, *_: Any) -> int:
            return 0

    out = Outbound(asyncio.get_running_loop(), left.fileno(), Reads(), SendCounters(), lambda: None, lambda _: None)  # type: ignore[arg-type]
    assert not out.write_parts([FileSlice(file.retain(), 0, 1 << 20, False)])  # type: ignore[arg-type]
    assert len(asked) == 1
    out.close()
    assert (asked, file.leases) == ([], 0)
    for end in (left, right):
        end.close()
    file.close()


async def test_a_peer_that_left_is_reported_once(tmp_path: Path) -> None:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.close()
    failures: list[OSError] = []
    with cold_reads() as pool:
        out = Outbound(asyncio.get_running_loop(), left.fileno(), pool, SendCounters(), lambda: None, failures.append)
        out.write(b"x")
        out.write_parts([b"y", b"z"])
    assert len(failures) == 1
    left.close()


async def test_a_file_that_ends_early_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(b"short")
    file = LeasedFile(path)
    left, right = socket.socketpair()
    left.setblocking(False)
    failed: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()
    with cold_reads() as pool:
        out = Outbound(asyncio.get_running_loop(), left.fileno(), pool, SendCounters(), lambda: None, failed.set_result)
        out.write_parts([FileSlice(file.retain(), 0, 100, True)])  # type: ignore[arg-type]
        assert "missing" in str(await asyncio.wait_for(failed, PATIENCE_S))
    assert file.leases == 0
    for end in (left, right):
        end.close()
    file.close()


async def test_what_the_kernel_holds_for_one_that_does_not_read_can_be_bounded() -> None:
    """And it counts as standing still when nothing is taken, however often the socket says that it might."""
    taken = {}
    for unsent in (0, 16 * 1024):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        near.setblocking(False)
        counters = SendCounters()
        counters.unsent_bytes = unsent
        with cold_reads() as pool:
            loop: Any = Loop()
            out = Outbound(loop, near.fileno(), pool, counters, lambda: None, lambda _: None)
            assert not out.write(bytes(1 << 20))
            for _ in range(50):
                await asyncio.sleep(0)
            turns = out.count_progress()
            (writable,) = loop.writers.values()
            writable()
            assert out.count_progress() == turns
            taken[unsent] = counters.sent_bytes
            out.leave_unsent(0)
            writable()
            assert (counters.sent_bytes > taken[unsent]) == bool(unsent), "as much as SO_SNDBUF allows again"
            assert (out.count_progress() > turns) == bool(unsent)
            out.close()
            out.leave_unsent(1)
        for one in (near, far, listener):
            one.close()
    assert taken[16 * 1024] < 100_000 < taken[0]
