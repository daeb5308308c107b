"""The simulated disk and network beside the real ones: the same operations have the same answers.

Random operations, by seed: on a directory of this machine and on the disk of a simulation; on sockets of the system and on the
simulation's. What a power cut leaves can't be compared here: `support.fake_filesystem` says what a disk may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulation.disk import SimDisk
from simulation.loop import SimLoop
from simulation.network import Network
from simulation.primitives import installed
from simulation.scheduler import SECOND, Killed, Simulation
from tidelog.storage.io.filesystem import FileSystem, RealFileSystem

DISK_SEEDS, OPERATIONS = 150, 60
SOCKET_SEEDS = 40
#: Files, mapped files, which keep their names, and directories, which are never used as files: as the daemon does it.
FILES, MAPPED, DIRECTORIES = ("a", "b", "d/a", "d/b", "d/x/c"), ("m", "n"), ("d", "d/x", "e")


def outcome(call: Callable[[], Any]) -> tuple[str, object]:
    """What a call answers: its value, or the kind of its error. Of errors that nobody tells apart, that it is one."""
    try:
        return "ok", call()
    except (FileNotFoundError, FileExistsError, ConnectionError, BlockingIOError) as error:
        return type(error).__name__, error.errno
    except OSError:
        return "OSError", None
    except StopIteration:
        return "nothing is open", None


class Files:
    """Operations on one file system, below one directory."""

    def __init__(self, system: FileSystem, base: str) -> None:
        self.system, self.base = system, base
        self.open: dict[str, Any] = {}
        self.maps: dict[int, Any] = {}

    def do(self, name: str, rng: random.Random) -> tuple[str, object]:
        return outcome(lambda: getattr(self, name)(rng))

    def path(self, rng: random.Random, names: tuple[str, ...] = FILES) -> str:
        return f"{self.base}/{rng.choice(names)}"

    def opens(self, rng: random.Random) -> object:
        path = self.path(rng)
        flags = rng.choice(({"create": True}, {"create": True}, {"exclusive": True}, {"writable": False}, {}))
        self._let_go(path)
        self.open[path] = self.system.open(path, **flags)
        return self.open[path].size()

    def _let_go(self, *paths: str) -> None:
        """A file has one writer."""
        for path in paths:
            if path in self.open:
                self.open.pop(path).close()

    def _file(self, rng: random.Random) -> Any:
        return rng.choice(list(self.open.values())) if self.open else next(iter(()))

    def appends(self, rng: random.Random) -> object:
        file, data = self._file(rng), rng.randbytes(rng.choice((1, 100, 600)))
        file.append(data)
        return file.size()

    def rewrites(self, rng: random.Random) -> object:
        file = self._file(rng)
        data = file.pread(10, 5)
        if data:
            file.rewrite(data, 5)
        return file.size()

    def reads(self, rng: random.Random) -> object:
        return self._file(rng).pread(rng.choice((0, 10, 5000)), rng.choice((0, 3, 700)))

    def reads_into(self, rng: random.Random) -> object:
        view = bytearray(50)
        return self._file(rng).pread_into(memoryview(view), rng.choice((0, 3, 700))), bytes(view)

    def truncates(self, rng: random.Random) -> object:
        file = self._file(rng)
        file.truncate(rng.choice((0, 7, 90)))
        return file.size()

    def syncs(self, rng: random.Random) -> object:
        return self._file(rng).sync()

    def keeps(self, rng: random.Random) -> object:
        slot = next(iter(self.open))
        file = self.open.pop(slot)
        lease = file.retain()
        file.close()
        found = lease.pread(20, 0), file.closed
        lease.release()
        return (*found, file.closed)

    def maps_one(self, rng: random.Random) -> object:
        slot, path, size = rng.randrange(2), self.path(rng, MAPPED), rng.choice((None, 64, 200))
        if slot in self.maps:
            self.maps.pop(slot).close()
        self.maps[slot] = mapped = self.system.map(path, size, writable=True)
        if len(mapped.view) >= 4:
            mapped.view[0:4] = b"MAPS"
        return bytes(mapped.view)

    def resizes(self, rng: random.Random) -> object:
        mapped = next(iter(self.maps.values()))
        mapped.resize(rng.choice((16, 64, 300)))
        return bytes(mapped.view)

    def renames(self, rng: random.Random) -> object:
        source, target = self.path(rng), self.path(rng)
        self._let_go(source, target)
        return self.system.rename(source, target)

    def renames_new(self, rng: random.Random) -> object:
        source, target = self.path(rng), self.path(rng)
        self._let_go(source, target)
        return self.system.rename_new(source, target)

    def unlinks(self, rng: random.Random) -> object:
        return self.system.unlink(self.path(rng), missing_ok=rng.random() < 0.5)

    def makes_directory(self, rng: random.Random) -> object:
        return self.system.make_directory(self.path(rng, DIRECTORIES))

    def removes_tree(self, rng: random.Random) -> object:
        return self.system.remove_tree(self.path(rng, DIRECTORIES))

    def lists(self, rng: random.Random) -> object:
        return sorted(self.system.list_directory(rng.choice((self.base, f"{self.base}/d"))))

    def looks(self, rng: random.Random) -> object:
        path = self.path(rng, FILES + DIRECTORIES)
        is_directory = self.system.is_directory(path)
        return self.system.exists(path), is_directory, 0 if is_directory else self.system.stat(path).size

    def reads_whole(self, rng: random.Random) -> object:
        return self.system.read_bytes(self.path(rng))

    def writes_atomically(self, rng: random.Random) -> object:
        return self.system.write_atomically(self.path(rng), rng.randbytes(30))

    def writes_new(self, rng: random.Random) -> object:
        return self.system.write_new(self.path(rng), rng.randbytes(30))

    def end(self) -> None:
        for each in (*self.open.values(), *self.maps.values()):
            each.close()


OF_FILES = [name for name in vars(Files) if name not in ("do", "path", "end") and name[0] != "_"]


@pytest.fixture(autouse=True)
def _primitives() -> Iterator[None]:
    with installed():
        yield


@pytest.mark.parametrize("part", range(3))
def test_the_disk_answers_as_a_directory_of_this_machine_does(part: int, tmp_path: Path) -> None:
    for seed in range(part, DISK_SEEDS, 3):
        base = str(tmp_path / str(seed))
        with Simulation(seed):
            real, fake = Files(RealFileSystem(), base), Files(SimDisk(base=base), base)
            for files in (real, fake):
                files.system.make_directory(base)
            names = random.Random(seed)
            for step in range(OPERATIONS):
                name, number = names.choice(OF_FILES), names.random()
                told = [files.do(name, random.Random(number)) for files in (real, fake)]
                assert told[0] == told[1], f"seed {seed}, step {step}: {name}"
            for files in (real, fake):
                files.end()
            assert not fake.system.open_files, f"seed {seed}"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("among", "calls", "left"), [("", 3, 2), ("append log", 2, 3), ("rename delete", 1, 4)])
def test_a_strike_comes_at_a_call_of_its_class(among: str, calls: int, left: int, tmp_path: Path) -> None:
    """`left`: calls that are carried out before it."""
    with Simulation(1):
        disk, struck, done = SimDisk(base=str(tmp_path)), [], 0
        disk.make_directory(f"{tmp_path}/t-0")
        log = disk.open(f"{tmp_path}/t-0/1.log", create=True)
        index = disk.open(f"{tmp_path}/t-0/1.index", create=True)

        def strike() -> None:
            struck.append(among)
            disk.is_off = True

        disk.strike_in(calls, strike, among)

        def rename() -> None:
            disk.rename(f"{tmp_path}/t-0", f"{tmp_path}/t-0.5f2c-delete")

        with contextlib.suppress(Killed):
            for call in (
                lambda: log.append(b"a"),
                lambda: index.append(b"b"),
                lambda: index.append(b"c"),
                lambda: log.append(b"d"),
                rename,
            ):
                call()
                done += 1
        assert (struck, done) == ([among], left)


def test_a_call_that_hangs_is_carried_out_late(tmp_path: Path) -> None:
    with Simulation(1) as sim:
        disk = SimDisk(base=str(tmp_path))
        disk.make_directory(f"{tmp_path}/t-0")
        log = disk.open(f"{tmp_path}/t-0/1.log", create=True)
        disk.strike_in(2, lambda: sim.block("disk: hangs", SECOND), "append log")
        log.append(b"a")
        assert sim.now_ns < SECOND
        log.append(b"b")
        assert sim.now_ns >= SECOND
        assert log.pread(2, 0) == b"ab"


class Peers:
    """Operations on the two ends of one stream, which never block; an end of the stream is where it would block for long."""

    def __init__(self, ends: tuple[Any, Any], wait: Callable[[], object]) -> None:
        self.ends, self.wait = ends, wait
        self.got = [b"", b""]
        self.told = ["", ""]

    def sends(self, rng: random.Random, side: int) -> object:
        data = rng.randbytes(rng.choice((1, 100, 3000)))
        found = outcome(lambda: self.ends[side].send(data))
        self.wait()
        return found

    def receives(self, rng: random.Random, side: int) -> object:
        self.wait()
        return outcome(lambda: self.ends[side].recv(1 << 20))

    def shuts(self, rng: random.Random, side: int) -> object:
        found = outcome(lambda: self.ends[side].shutdown(socket.SHUT_WR))
        self.wait()
        return found

    def closes(self, side: int) -> object:
        """The end is closed; what the other one is told then."""
        self.ends[side].close()
        self.wait()
        return self.receives(random.Random(0), 1 - side)


def conversation(peers: Peers, seed: int) -> list[object]:
    """What the operations of a seed tell; in the end both take what is there, but for one that may leave it, and one closes."""
    rng, told = random.Random(seed), []
    for _ in range(20):
        side = rng.randrange(2)
        name = rng.choice(("sends", "sends", "sends", "receives", "receives", "receives", "shuts"))
        if name != "shuts" or ("shuts", side) not in [row[:2] for row in told]:
            told.append((name, side, getattr(peers, name)(rng, side)))
    side, leaves = rng.randrange(2), rng.random() < 0.5
    told.append(("takes", 1 - side, peers.receives(rng, 1 - side)))
    if not leaves:
        told.append(("takes", side, peers.receives(rng, side)))
    if any(row[0] == "shuts" for row in told):
        return told  # what Linux tells then hangs on which of two segments is faster
    told.append(("closes", side, peers.closes(side)))
    return told


def real_conversation(seed: int) -> list[object]:
    from simulation.primitives import REAL_SOCKET

    listening = REAL_SOCKET(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    here = REAL_SOCKET(socket.AF_INET, socket.SOCK_STREAM)
    here.connect(listening.getsockname())
    there = REAL_SOCKET(socket.AF_INET, socket.SOCK_STREAM, fileno=listening._accept()[0])
    for end in (here, there):
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        # On the loopback a segment has arrived when `send` returns.
        return conversation(Peers((here, there), lambda: None), seed)
    finally:
        for end in (here, there, listening):
            end.close()


def simulated_conversation(seed: int) -> list[object]:
    with Simulation(seed) as sim:
        network = Network.of(sim)
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        here: Any = network.connect(listening.getsockname())  # type: ignore[arg-type]
        there, _ = listening.accept()
        return conversation(Peers((here, there), lambda: sim.sleep(1.0)), seed)


def test_streams_tell_what_sockets_of_the_system_tell() -> None:
    for seed in range(SOCKET_SEEDS):
        assert simulated_conversation(seed) == real_conversation(seed), f"seed {seed}"


def test_what_was_sent_before_a_reset_is_lost_to_the_reader() -> None:
    """The one freedom of TCP that is used: what a reader had not taken when its peer reset may be there or not. Here it never
    is."""
    with Simulation(1) as sim:
        network = Network.of(sim)
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        here: Any = network.connect(listening.getsockname())  # type: ignore[arg-type]
        there, _ = listening.accept()
        there.send(b"lost")
        sim.sleep(1.0)
        there.end.reset()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionResetError) as raised:
            here.recv(10)
        assert raised.value.errno == errno.ECONNRESET


def test_a_loop_of_the_simulation_tells_a_protocol_what_asyncio_tells() -> None:
    """The same events in the same order for a server's protocol: made, data, end of the stream, lost."""

    class Noted(asyncio.Protocol):
        def __init__(self) -> None:
            self.events: list[str] = []
            self.lost = asyncio.get_running_loop().create_future()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.events.append("made")
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            if self.events[-1] != "data":
                self.events.append("data")
            self.transport.write(data)  # type: ignore[attr-defined]

        def eof_received(self) -> bool:
            self.events.append("end")
            return False

        def connection_lost(self, error: Exception | None) -> None:
            self.events.append(f"lost {type(error).__name__}")
            self.lost.set_result(None)

    async def talk() -> list[str]:
        loop, made = asyncio.get_running_loop(), []

        def serve() -> Noted:
            made.append(Noted())
            return made[-1]

        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", 0))
        server = await loop.create_server(serve, sock=listening)
        client = Network.of(Simulation.active).connect(listening.getsockname())  # type: ignore[arg-type]
        await loop.sock_sendall(client, b"hello")  # type: ignore[arg-type]
        assert await loop.sock_recv(client, 100) == b"hello"  # type: ignore[arg-type]
        client.shutdown(socket.SHUT_WR)
        assert await loop.sock_recv(client, 100) == b""  # type: ignore[arg-type]
        await made[0].lost
        client.close()
        server.close()
        return made[0].events

    with Simulation(1), asyncio.Runner(loop_factory=SimLoop) as runner:
        assert runner.run(talk()) == ["made", "data", "end", "lost NoneType"]
