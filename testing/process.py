"""Broker in a process of its own: it can be killed, and shares nothing with the test but a socket and a pipe.

The child is this module run by Python: it opens a `Broker`, and does what it is told over its standard input, one JSON object
a line, each answered by one. So its clock moves and its requests fail as those of an in-process broker do; the daemon that
`tidelog serve` runs knows nothing of this. When the input ends, because the test is done or has died, the broker stops
cleanly. Tests in other languages can start it too:

    $ python -m tidelog.testing.process '{"settings": {"num.partitions": "3"}}'
    {"bootstrap_servers": "127.0.0.1:40321", "directory": "/tmp/tidelog-x1", "addresses": ["PLAINTEXT://127.0.0.1:40321"]}
    {"do": "advance", "seconds": 60}
    {"done": null}
"""

from __future__ import annotations

import contextlib
import json
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from .clock import STEPS, Clock
from .faults import Fault, Faults
from .life import SETTLE_TIMEOUT_S, BrokerError, BrokerLife, same_listeners, setting_text

if TYPE_CHECKING:
    from .broker import Broker

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
#: What is to be killed may hang.
KILL_TIMEOUT_S = 1.0
_FAULT_FIELDS = ("times", "probability", "handled", "delay_s", "after_bytes")


class BrokerProcess(BrokerLife):
    """A `Broker` in a process of its own. Any thread; one call at a time.

    Attributes:
        clock, faults, directory: as `Broker` has them.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, directory: Path | str | None = None, seed: int = 0
    ) -> None:
        """Arguments as of `Broker`. Does not start the process."""
        self.settings = {name: setting_text(value) for name, value in (settings or {}).items()}
        self.clock = Clock(_RemoteTime(self._ask), lambda milliseconds: self._ask("move", milliseconds=milliseconds))
        self.faults = _RemoteFaults(seed, self._ask)
        self._seed = seed
        self._given = Path(directory) if directory is not None else None
        self.directory = self._given or Path()
        self._temporary: weakref.finalize[..., Any] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap = ""
        self._addresses: list[str] = []
        self._lock = threading.Lock()
        self._ahead_ms = 0.0

    def open(self) -> Self:
        """Starts it, after `kill` on what the last one left, at the same ports; returns when clients can connect. BrokerError."""
        if self._process is not None:
            raise BrokerError("the broker is open already")
        makes_directory = self._given is None and (self._temporary is None or not self._temporary.alive)
        if makes_directory:
            self.directory = Path(tempfile.mkdtemp(prefix="tidelog-"))
            self._temporary = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        settings = self.settings | same_listeners(self._addresses)
        options = {
            "settings": settings,
            "directory": str(self.directory),
            "seed": self._seed,
            "ahead_ms": self._ahead_ms,
        }
        # A session of its own: Ctrl-C at the terminal reaches the test run, which then closes the broker in order.
        self._process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", __name__, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            ready = self._read(START_TIMEOUT_S)
        except BrokerError as error:
            self.kill()
            if makes_directory:  # else it has the data of a life before
                self._remove()
            raise BrokerError(f"the broker did not start: {error}") from None
        self._bootstrap = ready["bootstrap_servers"]
        self._addresses = ready["addresses"]
        self.faults.begin()
        return self

    def close(self) -> None:
        """Stops it cleanly and removes its temporary directory. Harmless when it is closed. BrokerError."""
        try:
            self._end()
        finally:
            self._remove()

    def _remove(self) -> None:
        if self._temporary is not None:
            self._temporary()

    def kill(self) -> None:
        """SIGKILL, as a crash would; the data and the faults stay, and `open` starts it again on the same ports."""
        if self._process is not None:
            self._count_faults(KILL_TIMEOUT_S)
            self._process.kill()
            self._process.wait()
            self._forget()

    def restart(self) -> Self:
        """A clean stop and a start on the same directory, ports and time."""
        self._end()
        return self.open()

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        self._count_faults(STOP_TIMEOUT_S)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"the broker did not stop within {STOP_TIMEOUT_S:g} s and was killed") from None
        self._forget()
        if code != 0:
            raise BrokerError(f"the broker ended with code {code}; its messages are on stderr")

    def _count_faults(self, timeout_s: float) -> None:
        """Keep what the process knows of faults, which outlive it; the last counts that are known, where it does not answer."""
        hits = None
        if self.faults.are_held and self._lock.acquire(timeout=timeout_s):
            try:
                with contextlib.suppress(BrokerError):
                    hits = self._exchange("all_hits", {}, timeout_s).get("done")
            finally:
                self._lock.release()
        # An answer to something else where a call was interrupted.
        self.faults.end(hits if isinstance(hits, list) else ())

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT`, for every client's setting of that name."""
        if not self._bootstrap:
            raise BrokerError("the broker has not been started")
        return self._bootstrap

    @property
    def pid(self) -> int:
        """Process id of the broker. BrokerError when it is closed."""
        if self._process is None:
            raise BrokerError("the broker is not open")
        return self._process.pid

    def create_topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic, as `Broker.create_topic`."""
        settings = {key: setting_text(value) for key, value in (config or {}).items()}
        self._ask("create_topic", name=name, partitions=partitions, config=settings)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, as `Broker.delete_topic`."""
        self._ask("delete_topic", name=name)

    def clean(self, topic: str) -> dict[str, int]:
        """Clean a topic, as `Broker.clean`."""
        removed: dict[str, int] = self._ask("clean", topic=topic)
        return removed

    def _ask(self, what: str, **arguments: Any) -> Any:
        with self._lock:
            answer = self._exchange(what, arguments, STEPS * SETTLE_TIMEOUT_S)
            if what == "move":
                self._ahead_ms = answer["done"]
        if "error" in answer:
            raise BrokerError(answer["error"])
        return answer["done"]

    def _exchange(self, what: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        process = self._process
        if process is None:
            raise BrokerError("the broker is not open")
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise BrokerError("the broker's process has died; its messages are on stderr") from None
        return self._read(timeout_s)

    def _read(self, timeout_s: float) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = _read_line(self._process.stdout, timeout_s)
        if not line.endswith(b"\n"):
            raise BrokerError(
                "its process has ended; its messages are on stderr" if line == b"" else "no answer in time"
            )
        answer = json.loads(line)
        if "failed" in answer:
            raise BrokerError(answer["failed"])
        return answer


def _read_line(pipe: IO[bytes], timeout_s: float) -> bytes:
    """Up to and with the line's end; without one, the pipe has ended (b"") or the time is over (b"?")."""
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if not selector.select(max(deadline - time.monotonic(), 0)):
            return b"?"
    # The child writes whole lines: a part of one is followed by the rest, or by the end.
    return pipe.readline()


class _RemoteTime:
    """The child's time, as `Clock` asks for it."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    @property
    def ahead_ms(self) -> float:
        return float(self._ask("time")["ahead_ms"])

    def milliseconds(self) -> int:
        return int(self._ask("time")["now_ms"])


class _RemoteFault(Fault):
    """A rule that a child keeps. `number`: in the present child, None in none; `struck`: what it did in those before."""

    number: int | None = None
    ask: Callable[..., Any]

    @property
    def hits(self) -> int:
        return self.struck + (0 if self.number is None else int(self.ask("hits", fault=self.number)))


class _RemoteFaults(Faults):
    """Checks rules as `Faults` does, and has the child keep them, and the next one what is left of them."""

    def __init__(self, seed: int, ask: Callable[..., Any]) -> None:
        super().__init__(seed)
        self._ask = ask
        self._has_child = False
        self._held: list[_RemoteFault] = []

    @property
    def are_held(self) -> bool:
        """True if the child has been told of faults."""
        return bool(self._held)

    def begin(self) -> None:
        """A child has started: it is told of the rules that may still strike."""
        self._has_child = True
        for rule in self.rules:
            assert isinstance(rule, _RemoteFault)
            self._tell(rule)

    def end(self, hits: Sequence[int]) -> None:
        """The child is about to go. `hits`: of the faults that it was told of; none where it did not say."""
        for fault, count in zip(self._held, hits, strict=False):
            fault.struck += count
        for fault in self._held:
            fault.number = None
        self._held.clear()
        self._has_child = False

    def _add(self, fault: Fault) -> Fault:
        remote = _RemoteFault(fault.api_key, fault.times, fault.probability)
        for name in (*_FAULT_FIELDS, "code"):
            setattr(remote, name, getattr(fault, name))
        remote.ask = self._ask
        super()._add(remote)
        if self._has_child:
            self._tell(remote)
        return remote

    def _tell(self, fault: _RemoteFault) -> None:
        fields = {name: getattr(fault, name) for name in _FAULT_FIELDS}
        if fault.times is not None:
            fields["times"] = fault.times - fault.struck
        code = None if fault.code is None else fault.code.name
        fault.number = self._ask("fault", api=fault.api_key.name, code=code, **fields)
        self._held.append(fault)

    def remove(self, fault: Fault) -> None:
        if fault in self._rules and isinstance(fault, _RemoteFault) and fault.number is not None:
            self._ask("remove_fault", fault=fault.number)
        super().remove(fault)

    def clear(self) -> None:
        if self._has_child:
            self._ask("clear_faults")
        super().clear()


class _Child:
    """Commands that the child process executes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._faults: list[Fault] = []

    def answer(self, line: bytes) -> dict[str, Any]:
        """Execute one command; the answer is `{"done": …}` or `{"error": …}`."""
        try:
            command = json.loads(line)
            does = getattr(self, f"do_{command.pop('do')}", None)
            if does is None:
                return {"error": f"there is no such command; there are {', '.join(sorted(self.commands()))}"}
            return {"done": does(**command)}
        except (BrokerError, ValueError, TypeError, LookupError, AttributeError) as error:
            return {"error": f"{error}"}

    @classmethod
    def commands(cls) -> list[str]:
        return [name.removeprefix("do_") for name in dir(cls) if name.startswith("do_")]

    def do_advance(self, **span: float) -> None:
        self._broker.clock.advance(**span)

    def do_move(self, milliseconds: float) -> float:
        self._broker.move(milliseconds)
        return self._broker.clock.ahead_s * 1000

    def do_time(self) -> dict[str, float]:
        clock = self._broker.clock
        return {"now_ms": clock.now.timestamp() * 1000, "ahead_ms": clock.ahead_s * 1000}

    def do_create_topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        self._broker.create_topic(name, partitions, config)

    def do_delete_topic(self, name: str) -> None:
        self._broker.delete_topic(name)

    def do_clean(self, topic: str) -> dict[str, int]:
        return self._broker.clean(topic)

    def do_error(self, api: str, code: str, **options: Any) -> int:
        return self._keep(self._broker.faults.error(api, code, **options))

    def do_delay(self, api: str, seconds: float, **options: Any) -> int:
        return self._keep(self._broker.faults.delay(api, seconds, **options))

    def do_disconnect(self, api: str, **options: Any) -> int:
        return self._keep(self._broker.faults.disconnect(api, **options))

    def do_fault(self, api: str, code: str | None, **fields: Any) -> int:
        return self._keep(self._broker.faults.add(api, code, **fields))

    def do_hits(self, fault: int) -> int:
        return self._faults[fault].hits

    def do_all_hits(self) -> list[int]:
        return [fault.hits for fault in self._faults]

    def do_remove_fault(self, fault: int) -> None:
        self._broker.faults.remove(self._faults[fault])

    def do_clear_faults(self) -> None:
        self._broker.faults.clear()

    def _keep(self, fault: Fault) -> int:
        self._faults.append(fault)
        return len(self._faults) - 1


_OPTIONS = {"settings", "directory", "seed", "ahead_ms"}


def main(options_text: str) -> int:
    """The child: opens, obeys until the input ends, stops cleanly."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupted)
    # Here, not above: the parent does not need the daemon, which takes most of a start to import.
    from .broker import Broker

    try:
        options = _options(options_text)
        broker = Broker(
            options.get("settings"),
            directory=options.get("directory"),
            seed=options.get("seed", 0),
            ahead_ms=options.get("ahead_ms", 0.0),
        )
        broker.open()
    except BrokerError as error:
        _say({"failed": str(error)})
        return 1
    try:
        ready = {"bootstrap_servers": broker.bootstrap_servers, "directory": str(broker.directory)}
        _say({**ready, "addresses": broker.addresses})
        child = _Child(broker)
        for line in sys.stdin.buffer:
            if line.strip():
                _say(child.answer(line))
    except (_Interrupted, BrokenPipeError):
        pass
    finally:
        broker.close()
    return 0


def _options(text: str) -> dict[str, Any]:
    """The program's argument. BrokerError: it is none that was meant."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise BrokerError(f"the argument is not JSON: {error}") from None
    if not isinstance(options, dict) or not isinstance(options.get("settings") or {}, dict):
        raise BrokerError("the argument is an object, and so are the settings in it")
    if unknown := sorted(options.keys() - _OPTIONS):
        raise BrokerError(f"there is no option {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")
    return options


class _Interrupted(Exception):
    pass


def _interrupted(*_: object) -> None:
    raise _Interrupted


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "{}"))
