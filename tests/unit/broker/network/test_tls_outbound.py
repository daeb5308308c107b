"""TlsOutbound: parts leave in order and whole, encrypted, and every file lease is given back."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.connections import cold_reads
from tidelog.broker.network.cold_reads import ColdReads
from tidelog.broker.network.outbound import FileSlice, Part, SendCounters
from tidelog.broker.network.tls_connection import ENCRYPTED_BYTES, TlsOutbound

CA = trustme.CA()
SERVER = CA.issue_cert("localhost")


class LeasedFile:
    """A file whose leases are counted; `cached` False sends readers to the pool first."""

    def __init__(self, path: Path, cached: bool | None) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self.leases = 0
        self.cached = cached
        self.prefetched = 0

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
        self.prefetched += 1

    def close(self) -> None:
        os.close(self._fd)


class Rig:
    """An outbound side after its handshake, and the client that decrypts."""

    def __init__(self, pool: ColdReads) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        SERVER.configure_cert(server)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        CA.configure_trust(client)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = server.wrap_bio(to_server, to_client, server_side=True)
        self._incoming = ssl.MemoryBIO()
        self._tls = client.wrap_bio(self._incoming, to_server, server_hostname="localhost")
        for side in (self._tls, near) * 3:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                self._incoming.write(to_client.read())
        self._incoming.write(to_client.read())
        self.left, self.right = socket.socketpair()
        for sock in (self.left, self.right):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        self.counters = SendCounters()
        self.failures: list[OSError] = []
        self.drained = asyncio.Event()
        self.outgoing = to_client
        self.out = TlsOutbound(
            asyncio.get_running_loop(), self.left.fileno(), pool, self.counters, self.drained.set, self.failures.append,
            near, to_client, memoryview(bytearray(256 * 1024)),
        )  # fmt: skip

    async def read(self, count: int) -> bytes:
        loop = asyncio.get_running_loop()
        got = bytearray()
        while len(got) < count:
            try:
                got += self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self._incoming.write(await loop.sock_recv(self.right, 1 << 18))
        return bytes(got)

    def end(self) -> None:
        self.out.close()
        self.left.close()
        self.right.close()


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("cached", [True, False, None])
async def test_bytes_and_slices_arrive_in_order(tmp_path: Path, warm: bool, cached: bool | None) -> None:
    rng = random.Random(11)
    content = rng.randbytes(2 << 20)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    file: Any = LeasedFile(path, cached)
    with cold_reads() as pool:
        rig = Rig(pool)
        parts: list[Part] = []
        expected = b""
        sliced = 0
        for _ in range(6):
            head = rng.randbytes(rng.choice([1, 300, ENCRYPTED_BYTES + 1, 3 * ENCRYPTED_BYTES]))
            position = rng.randrange(len(content))
            count = rng.randrange(0, len(content) - position)
            parts += [head, FileSlice(file.retain(), position, count, warm)]
            expected += head + content[position : position + count]
            sliced += count
        assert not rig.out.write_parts(parts)
        assert not rig.out.idle
        assert await rig.read(len(expected)) == expected
        await rig.drained.wait()
        assert rig.out.idle
        assert file.leases == 0
        assert rig.counters.copy_fetch_bytes == sliced
        assert rig.counters.sendfile_bytes == 0
        assert bool(file.prefetched) == (not warm and not cached)
        assert rig.failures == []
        rig.end()
    file.close()


async def test_what_is_not_read_is_not_encrypted(tmp_path: Path) -> None:
    """A slow client costs what is encrypted ahead, not the answer."""
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(8 << 20))
    file: Any = LeasedFile(path, cached=True)
    with cold_reads() as pool:
        rig = Rig(pool)
        assert not rig.out.write_parts([FileSlice(file.retain(), 0, 8 << 20, warm=True)])
        assert rig.outgoing.pending == 0
        assert rig.counters.copy_fetch_bytes <= rig.counters.sent_bytes + 2 * ENCRYPTED_BYTES
        assert file.leases == 1
        rig.out.close()
        assert file.leases == 0
        rig.end()
    file.close()


async def test_bytes_behind_bytes_keep_their_order() -> None:
    with cold_reads() as pool:
        rig = Rig(pool)
        pieces = [bytes([number]) * 200_000 for number in range(5)]
        done = [rig.out.write(piece) for piece in pieces]
        assert not all(done)
        assert await rig.read(1_000_000) == b"".join(pieces)
        await rig.drained.wait()
        assert rig.out.write(b"small")
        assert await rig.read(5) == b"small"
        rig.end()
        assert rig.out.write(b"after the end")


async def test_a_file_that_is_too_short_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(b"x" * 10)
    file: Any = LeasedFile(path, cached=True)
    with cold_reads() as pool:
        rig = Rig(pool)
        rig.out.write_parts([FileSlice(file.retain(), 0, 20, warm=True)])
        assert "are missing at the end of a segment file" in str(rig.failures[0])
        assert file.leases == 0
        rig.end()
    file.close()
