"""The life of a coordinator: it opens its shards, reads them back, finds them by key, writes to them, and stops.

A coordinator keeps its state in the partitions of an internal topic. A shard is one partition in memory; a key (a group, a
transactional id) lives in the partition that it hashes to, as in Kafka, so that a directory can change hands. Until a shard is
loaded its keys are not known, and requests for them are told to come back. A partition that cannot be loaded has no coordinator.

    no topic ── ensure_topic ──► open, all shards loaded ─┐
    topic ───── open ──► loading, one shard at a time ────┴──► close
               a shard that cannot be loaded: failed, until its disk can be read, or the next start

Loop thread, except that `load` reads the log in pool threads. It holds no lock: everything happens between two turns of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.exceptions import KafkaStorageError, says_what_is_wrong
from ..runtime.error_codes import error_code

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..runtime.timer import Timer, TimerHandle
    from .internal_topic import CoordinatorLog, CoordinatorRecord, ReplayBatch

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Time after which a partition is read again that the disk, or a lack of descriptors or memory, has kept from being read.
RELOAD_MS = 30_000
#: Runs a function in a pool thread.
RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]
#: The durability of a write: None when it is as durable as the topic asks for. Shared: await it with asyncio.shield.
Unsynced = asyncio.Future[None] | None

#: Errors of a failed write that a coordinator's clients understand. The second line makes them look for the coordinator anew.
_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_failure(error: BaseException) -> ProtocolError:
    """Error for the client whose records could not be written."""
    code, message = error_code(error if isinstance(error, Exception) else RuntimeError(repr(error)))
    return ProtocolError(_APPEND_ERRORS.get(code, code), message)


async def when_durable(unsynced: Unsynced, answer: T) -> T:
    """Returns `answer` once the write is durable; raises ProtocolError when its sync failed.

    The future is shared: a client that goes away must not cancel it."""
    if unsynced is not None:
        try:
            await asyncio.shield(unsynced)
        except Exception as error:
            raise append_failure(error) from error
    return answer


class Written(Protocol):
    """State with a write that may still be lost: wait for `CoordinatorRuntime.unsynced_of` before it is read or built on."""

    unsynced: Unsynced


def keep_unsynced(written: Written, unsynced: Unsynced) -> None:
    """`written.unsynced` is this write's durability, until it is durable: None then."""

    def synced(done: asyncio.Future[None]) -> None:
        # A failed one stays: what it covered may be lost with the power, and nothing may be built on it until a later sync.
        if written.unsynced is done and not done.cancelled() and done.exception() is None:
            written.unsynced = None

    written.unsynced = unsynced
    if unsynced is not None:
        unsynced.add_done_callback(synced)


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 code units, in 32 signed bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a key's records. (Kafka's Utils.abs makes 0 of the one int that has no absolute value.)"""
    value = java_hash(key)
    return (0 if value == -0x8000_0000 else abs(value)) % partition_count


class Shard(Protocol):
    """State of one partition in memory."""

    index: int
    loaded: bool


ShardT = TypeVar("ShardT", bound=Shard)


class CoordinatorRuntime(Generic[ShardT]):
    """All shards of a coordinator; none while its topic does not exist. Loop thread."""

    def __init__(
        self,
        topic: str,
        log: CoordinatorLog,
        new_shard: Callable[[int], ShardT],
        time: Time,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
    ) -> None:
        self.topic = topic
        self.log = log
        self._new_shard = new_shard
        self._time = time
        self._timer = timer
        self._loop = loop
        self._run_blocking = run_blocking
        self._shards: list[ShardT] = []
        #: Why shards cannot be loaded, by their index. Replaced as a whole: any thread may read it.
        self.failed: Mapping[int, str] = {}
        self._jobs: list[TimerHandle] = []
        # What `in_turns` has not come to the end of, and when it goes on.
        self._in_turns: dict[Iterator[None], TimerHandle] = {}
        # What reads failed shards again, or waits to.
        self._reload: TimerHandle | asyncio.Task[None] | None = None
        self.closed = False
        #: The task of `start`, which may go on after it.
        self.loading: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[ShardT]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> ShardT:
        return self._shards[index]

    # -- life

    @property
    def is_open(self) -> bool:
        """True once the internal topic exists."""
        return len(self._shards) > 0

    @property
    def is_loaded(self) -> bool:
        return all(shard.loaded for shard in self._shards)

    @property
    def loading_count(self) -> int:
        """Number of partitions that are neither loaded nor impossible to load: they are being read, or will be."""
        return sum(not shard.loaded and shard.index not in self.failed for shard in self._shards)

    @property
    def unloaded(self) -> dict[str, str]:
        """Partitions that cannot be loaded, by name, and why. Any thread."""
        return {f"{self.topic}-{index}": why for index, why in self.failed.items()}

    def open(self, *, loaded: bool = False) -> None:
        """Makes the shards if there is the topic, unless they are there; `loaded`: it is new, so there is nothing to load."""
        if not self._shards:
            self._shards = [self._new_shard(index) for index in range(self.log.partition_count)]
            for shard in self._shards:
                shard.loaded = loaded

    async def start(self, load: Coroutine[Any, Any, None], patience_s: float) -> None:
        """Begin to answer requests, with COORDINATOR_LOAD_IN_PROGRESS where the log is not read yet.

        Returns when `load` is done, or after `patience_s`, and it goes on in the background. Some tools take that error for
        final, so what can be loaded at once is. Called when topics are known."""
        self.open()
        self.loading = self._loop.create_task(load)
        self.loading.add_done_callback(self._tell_failure)
        await asyncio.wait((self.loading,), timeout=patience_s)

    def _tell_failure(self, loading: asyncio.Task[None]) -> None:
        error = None if loading.cancelled() else loading.exception()
        if error is not None:
            log.error("the loading of %s failed: %s", self.topic, error, exc_info=error)

    async def load(
        self, replay: Callable[[str, Iterator[ReplayBatch]], T], loaded: Callable[[ShardT, T], None]
    ) -> None:
        """Reads all partitions, one after the other; each serves as soon as it is there.

        `replay` is called in a pool thread with the name of the partition and its batches; `loaded` in the loop thread, with
        what that returned, in the turn in which the shard begins to serve. Neither is called for an empty partition. Where
        one of them fails, that is logged, and as in Kafka nobody is served from that partition until the next start: its
        clients would go on from a state that is wrong. One that the disk would not give, or that there was no memory for, is
        read again every `RELOAD_MS`: Kafka's leadership would move, and this daemon is the only one."""
        await self._load_shards(list(self._shards), replay, loaded)

    async def _load_shards(
        self,
        shards: Sequence[ShardT],
        replay: Callable[[str, Iterator[ReplayBatch]], T],
        loaded: Callable[[ShardT, T], None],
    ) -> None:
        again: list[ShardT] = []
        for shard in shards:
            if shard.loaded:
                continue
            if self.log.is_empty(shard.index):
                self._sound(shard)
                continue
            name, is_serving = f"{self.topic}-{shard.index}", False
            try:
                found: T = await self._run_blocking(self._reader(replay, name, shard.index))
                if self.closed:
                    return
                self._sound(shard)
                is_serving = True
                loaded(shard, found)
            except Exception as error:
                why = str(error) or type(error).__name__  # a MemoryError has no text
                if self.failed.get(shard.index) != why:  # once, not with each time that it is read again
                    log.error("%s cannot be loaded: %s", name, why, exc_info=not says_what_is_wrong(error))
                self.failed = {**self.failed, shard.index: why}
                if is_serving:
                    self._shards[shard.index] = self._new_shard(shard.index)  # nothing of what was taken over by half
                elif isinstance(error, OSError | KafkaStorageError | MemoryError):
                    again.append(shard)
        if again and not self.closed:
            self._reload = self._timer.call_later(RELOAD_MS, lambda: self._load_again(again, replay, loaded))

    def _load_again(
        self,
        shards: Sequence[ShardT],
        replay: Callable[[str, Iterator[ReplayBatch]], T],
        loaded: Callable[[ShardT, T], None],
    ) -> None:
        self._reload = task = self._loop.create_task(self._load_shards(shards, replay, loaded))
        task.add_done_callback(self._tell_failure)

    def _sound(self, shard: ShardT) -> None:
        """The shard begins to serve: what is taken over may be written to at once."""
        shard.loaded = True
        if shard.index in self.failed:
            log.info("%s-%d can be read again", self.topic, shard.index)
            self.failed = {index: why for index, why in self.failed.items() if index != shard.index}

    def _reader(self, replay: Callable[[str, Iterator[ReplayBatch]], T], name: str, index: int) -> Callable[[], T]:
        return lambda: replay(name, self.log.replay(index))

    async def ensure_topic(self) -> None:
        """Makes the topic if there is none. Raises what making a topic raises."""
        if self.is_open or self.closed:
            return
        await self.log.ensure_topic()
        self.open(loaded=True)  # unless another request was first

    def every(self, interval_ms: float, work: Callable[[], Iterator[None] | None]) -> None:
        """Does `work` after each `interval_ms`, until closed. A generator is gone through one step in each turn of the loop.
        What fails is logged, and done again after the next interval."""
        number = len(self._jobs)

        def steps() -> Iterator[None]:
            yield from work() or ()

        def begin() -> None:
            go_on(steps())

        def go_on(rest: Iterator[None]) -> None:
            try:
                next(rest)
            except StopIteration:
                self._jobs[number] = self._timer.call_later(interval_ms, begin)
            except Exception:
                log.exception("%s: a periodic task (every %d ms) failed", self.topic, interval_ms)
                self._jobs[number] = self._timer.call_later(interval_ms, begin)
            else:
                self._jobs[number] = self._timer.call_later(0, lambda: go_on(rest))

        self._jobs.append(self._timer.call_later(interval_ms, begin))

    def in_turns(self, steps: Iterator[None]) -> None:
        """Takes the first step at once, and each other one in a turn of the loop of its own. What is left when this closes is
        done then. A step that fails is logged, and is the last one."""
        if self._step(steps):
            self._in_turns[steps] = self._timer.call_later(0, lambda: self._go_on(steps))

    def _go_on(self, steps: Iterator[None]) -> None:
        del self._in_turns[steps]
        self.in_turns(steps)

    def _step(self, steps: Iterator[None]) -> bool:
        try:
            next(steps)
        except StopIteration:
            return False
        except Exception:
            log.exception("%s: work in turns failed", self.topic)
            return False
        return True

    def close(self) -> None:
        """Takes no requests any more."""
        for steps, handle in self._in_turns.items():
            handle.cancel()
            while self._step(steps):
                pass
        self._in_turns.clear()
        self.closed = True
        for job in self._jobs:
            job.cancel()
        if self._reload is not None:
            self._reload.cancel()
        if self.loading is not None:
            self.loading.cancel()

    # -- keys and records

    def shard_of(self, key: str) -> ShardT:
        """The shard that the key belongs to, loaded or not, of a topic that is there."""
        return self._shards[partition_for(key, len(self._shards))]

    def find(self, key: str, invalid: ProtocolError | None = None) -> ShardT:
        """The loaded shard of a key.

        Raises ProtocolError: COORDINATOR_NOT_AVAILABLE after close; `invalid`, why there cannot be such a key; NOT_COORDINATOR
        while there is no topic, which makes the client ask FindCoordinator, which makes the topic, and of a shard that cannot
        be loaded; COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self.closed:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if invalid is not None:
            raise invalid
        if not self._shards:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR)
        shard = self.shard_of(key)
        if not shard.loaded:
            self._check_sound(shard)
            raise ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def _check_sound(self, shard: ShardT) -> None:
        if shard.index in self.failed:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR, f"{self.topic}-{shard.index} could not be loaded")

    def check_complete(self) -> None:
        """Raises ProtocolError, COORDINATOR_LOAD_IN_PROGRESS, while any partition is loading: a list of all would be false.

        Partitions that cannot be loaded are left out of such lists, as in Kafka."""
        if self.closed:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.loading_count:
            raise ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def append(
        self, shard: ShardT, records: Sequence[CoordinatorRecord], producer_id: int = -1, producer_epoch: int = -1
    ) -> tuple[int, Unsynced]:
        """Writes one batch, with a producer inside its transaction: the offset of the first record, and the durability.

        Raises ProtocolError, in words that clients of a coordinator understand; nothing is written then. Into a shard that
        cannot be loaded nothing is: what it would follow is not known."""
        self._check_sound(shard)
        try:
            return self.log.append(shard.index, records, self._time.milliseconds(), producer_id, producer_epoch)
        except Exception as error:
            raise append_failure(error) from error

    def unsynced_of(self, written: Written, shard: ShardT) -> Unsynced:
        """What to wait for before `written` of that shard is read or built on; None when it is durable.

        Where its sync has failed, that is another one: a full disk fails a sync, and has room later. A log that has failed for
        good fails that too."""
        unsynced = written.unsynced
        if unsynced is not None and unsynced.done() and (unsynced.cancelled() or unsynced.exception() is not None):
            with suppress(ProtocolError):  # there is no such partition any more: the failed one stays
                keep_unsynced(written, self.log.sync_again(shard.index))
        return written.unsynced


class Coordinator(Generic[ShardT]):
    """Facts of the life of any coordinator, which its runtime has."""

    __slots__ = ("_runtime",)

    _runtime: CoordinatorRuntime[ShardT]

    @property
    def is_open(self) -> bool:
        """True once the internal topic exists."""
        return self._runtime.is_open

    @property
    def is_loaded(self) -> bool:
        return self._runtime.is_loaded

    @property
    def loading_count(self) -> int:
        """Number of partitions of the topic that are neither loaded nor impossible to load."""
        return self._runtime.loading_count

    @property
    def unloaded(self) -> dict[str, str]:
        """Partitions of the topic that cannot be loaded, by name, and why. Any thread."""
        return self._runtime.unloaded

    async def ensure_topic(self) -> None:
        """Makes the internal topic if there is none. Raises what making a topic raises."""
        await self._runtime.ensure_topic()
