"""A broker inside of the process that tests with it: the daemon's own code, on an event loop in a thread of its own.

The thread keeps it apart from the test, whatever that does: a sync client may block, an async test may have one loop per
function. A free port, a temporary directory that goes when the broker is closed, no HTTP unless asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidelog.broker.server.node import Node
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config
from tidelog.protocol.errors import ProtocolError
from tidelog.storage.exceptions import StorageError

from .clock import Clock, MovableTime, MovableTimer, steps_of
from .faults import Faults
from .life import SETTLE_TIMEOUT_S, BrokerError, BrokerLife, same_listeners, setting_text
from .schedule import Rule, Schedule
from .scheduled import Effects, ScheduledDispatcher, ScheduleState
from .trace import Trace

if TYPE_CHECKING:
    from tidelog.broker.network.connection import Dispatches

log = logging.getLogger("tidelog.testing")
T = TypeVar("T")

START_TIMEOUT_S = 60.0
#: For the event loop to say how something ended.
ANSWER_TIMEOUT_S = 5.0
#: Turns of the loop after a timer has fired: coroutines that it woke get to their next wait.
TURNS = 8

#: Differences from `tidelog serve`: no waits that a test has no use for.
DEFAULTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "http.listener": "",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "log.cleaner.process.enable": "false",  # a test starts no processes that it does not know of
}


class Broker(BrokerLife):
    """A broker to test with. Use as a context manager (plain or async), or `await Broker.start()` and `await stop()`.

        with Broker({"num.partitions": 3}) as broker:
            client = Producer({"bootstrap.servers": broker.bootstrap_servers})

    Its methods block and may be called from any thread, also in async tests: the broker has a thread of its own.

    Attributes:
        clock: moves its time (`clock.advance(days=8)`).
        faults: lets requests fail (`faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)`).
        trace: what came and what became of it, `str(broker.trace)`; empty without a schedule.
        directory: where its logs are.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | str | None = None,
        seed: int = 0,
        ahead_ms: float = 0.0,
        faults: Schedule | Sequence[Rule] | None = None,
    ) -> None:
        """Starts nothing. `settings` are the daemon's, by Kafka's names; values may be of any type.

        With a directory of your own the data stay there. `seed` decides what faults with a probability do; `ahead_ms` is
        where its clock begins, after the machine's. `faults` are rules that hold from the first request on
        (`Schedule(seed=17)`); with them, even an empty list, there is a trace.
        """
        self.settings = {**DEFAULTS, **{name: setting_text(value) for name, value in (settings or {}).items()}}
        self.faults = Faults(seed)
        self.trace = Trace()
        self._scheduled: ScheduleState | None = None
        if faults is not None:
            schedule = faults if isinstance(faults, Schedule) else Schedule(faults)
            self._scheduled = ScheduleState(schedule, self.trace)
        self._time = MovableTime()
        self._time.move(ahead_ms)
        self.clock = Clock(self._time, self.move)
        self._given = Path(directory) if directory is not None else None
        self._temporary: weakref.finalize[..., Any] | None = None
        self.directory = self._given or Path()
        self._addresses: list[str] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._timer: MovableTimer | None = None
        self._stop: asyncio.Event | None = None
        self._failures: list[BaseException] = []

    # --- life ---

    def open(self) -> Self:
        """Starts it; returns when clients can connect. BrokerError, and then nothing is left running."""
        if self._thread is not None:
            raise BrokerError("the broker is open already")
        makes_directory = self._given is None and (self._temporary is None or not self._temporary.alive)
        if makes_directory:
            self.directory = Path(tempfile.mkdtemp(prefix="tidelog-"))
            self._temporary = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        started = threading.Event()
        self._failures.clear()
        self._thread = threading.Thread(target=self._run, args=(started,), name="tidelog-broker", daemon=True)
        self._thread.start()
        if not started.wait(START_TIMEOUT_S):
            raise BrokerError(f"the broker is not ready after {START_TIMEOUT_S:g} s")
        if self._failures:
            self._thread.join()
            self._thread = None
            if makes_directory:  # else it has the data of a life before
                self._remove()
            raise BrokerError(f"the broker did not start: {self._failures[0]}") from self._failures[0]
        return self

    def close(self) -> None:
        """Stops it cleanly and removes its temporary directory. Harmless when it is closed."""
        self._end()
        self._remove()

    def _remove(self) -> None:
        if self._temporary is not None:
            self._temporary()

    def restart(self) -> Self:
        """A clean stop and a start on the same directory, ports and time; connections are lost."""
        self._end()
        self.settings |= same_listeners(self._addresses)
        return self.open()

    def _end(self) -> None:
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(stop.set)
        thread.join()
        self._thread = None

    # --- where it is ---

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT`, for every client's setting of that name."""
        for address in self._addresses:
            name, _, place = address.partition("://")
            if name != "http":
                return place
        raise BrokerError("the broker has not been started")

    def listener(self, name: str) -> str:
        """`127.0.0.1:PORT` of one of several listeners: `listener("SASL_SSL")`. BrokerError when there is none."""
        for address in self._addresses:
            if address.startswith(f"{name.upper()}://"):
                return address.partition("://")[2]
        raise BrokerError(f"the broker has no listener {name}")

    @property
    def http_url(self) -> str:
        """Address of /metrics and /health, if `http.listener` was set (`127.0.0.1:0`). BrokerError if not."""
        for address in self._addresses:
            if address.startswith(("http://", "https://")):
                return address
        raise BrokerError('the broker has no HTTP: start it with {"http.listener": "127.0.0.1:0"}')

    # --- what a test asks of it ---

    def create_topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, object] | None = None
    ) -> None:
        """A topic with settings of its own: `create_topic("t", config={"cleanup.policy": "compact"})`. BrokerError.

        `partitions`: None for num.partitions.
        """
        settings = {key: setting_text(value) for key, value in (config or {}).items()}
        services = self._running().services
        count = services.config.num_partitions if partitions is None else partitions
        self._in_loop(lambda: services.topics.create(name, count, settings))

    def delete_topic(self, name: str) -> None:
        """BrokerError when there is none."""
        services = self._running().services
        self._in_loop(lambda: services.topics.delete(name))

    def clean(self, topic: str) -> dict[str, int]:
        """Cleans the topic or applies its retention, now, as `tidelog clean --wait` does; returns removed records by cause.

        Rolls the active segment and takes no notice of the dirty ratio; what is promised to consumers holds
        (min.compaction.lag.ms, open transactions, delete.retention.ms). BrokerError.
        """
        services = self._running().services

        async def ask() -> Any:
            found = services.topics.get(topic)
            if found is None:
                raise BrokerError(f"there is no topic {topic}")
            logs = [log for log in services.logs.logs() if log.topic == topic]
            return services.cleaner.requests.ask(topic, logs)

        request = self._in_loop(ask)
        if not request.done.wait(SETTLE_TIMEOUT_S):
            raise BrokerError(f"{topic} is not cleaned after {SETTLE_TIMEOUT_S:g} s")
        if request.errors:
            raise BrokerError("; ".join(f"{topic}-{number}: {text}" for number, text in request.errors.items()))
        removed: dict[str, int] = request.describe()["removed"]
        return removed

    @property
    def struck(self) -> tuple[Rule, ...]:
        """Rules of the schedule that have struck a request, in the order of their first."""
        return () if self._scheduled is None else tuple(self._scheduled.struck)

    # --- inside ---

    def _running(self) -> Node:
        if self._thread is None or self._node is None:
            raise BrokerError("the broker is not open")
        return self._node

    def _in_loop(self, make: Callable[[], Awaitable[T]]) -> T:
        """Runs it on the broker's loop. BrokerError."""
        assert self._loop is not None
        if threading.current_thread() is self._thread:
            raise BrokerError("called on the broker's own thread, where it would wait for itself")

        async def run() -> T:
            return await make()

        # What is waited for within it has its own limit, and a sentence of its own: that is to come first.
        limit_s = SETTLE_TIMEOUT_S + ANSWER_TIMEOUT_S
        try:
            return asyncio.run_coroutine_threadsafe(run(), self._loop).result(limit_s)
        except TimeoutError:
            raise BrokerError(f"the broker's event loop has not done it after {limit_s:g} s") from None
        except (ProtocolError, ConfigError, StorageError, OSError) as error:
            raise BrokerError(str(error)) from error

    def move(self, milliseconds: float) -> None:
        """Move the clock by one step of `clock.advance`, which is what tests call. Returns when all that became due is done.
        BrokerError.
        """
        self._running()
        self._in_loop(lambda: self._move(milliseconds))

    async def _move(self, milliseconds: float) -> None:
        services = self._running().services
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        self._time.move(milliseconds)
        await self._settle_timer()
        services.scheduler.time_moved()
        for what, settle in (("scheduled work", services.scheduler.settle), ("cleaning", services.cleaner.pool.settle)):
            if not await asyncio.to_thread(settle, max(deadline - time.monotonic(), 0.1)):
                raise BrokerError(f"{what} that became due is not done after {SETTLE_TIMEOUT_S:g} s")
        await self._settle_timer()

    async def _jump(self, milliseconds: float) -> None:
        for step in steps_of(milliseconds):
            await self._move(step)

    def _around(self, inner: Dispatches, loop: asyncio.AbstractEventLoop) -> Dispatches:
        """The dispatcher of the node behind what the test has fail."""
        inner = self.faults.around(inner, loop)
        if self._scheduled is None:
            return inner
        effects = Effects(lambda: self._running().services, self._jump)
        return ScheduledDispatcher(self._scheduled, inner, effects)

    async def _settle_timer(self) -> None:
        assert self._timer is not None
        quiet = 0
        while quiet < TURNS:
            quiet = 0 if self._timer.run_due() else quiet + 1
            await asyncio.sleep(0)

    def _run(self, started: threading.Event) -> None:
        try:
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            self._failures.append(error)
            if started.is_set():
                log.exception("the broker ended with an error")
        finally:
            started.set()

    async def _serve(self, started: threading.Event) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        settings = {"log.dirs": str(self.directory), **self.settings}
        config = load_config(None, {}, [f"{name}={text}" for name, text in settings.items()])
        self._timer = MovableTimer(loop, self._time)
        self._node = node = Node(
            config, loop, time=self._time, timer=self._timer, around=lambda inner: self._around(inner, loop)
        )
        try:
            self._addresses = await node.start()
            started.set()
            await self._stop.wait()
        finally:
            await node.stop()
            self._node = None
