"""TopicRegistry: all topics; creates, changes and deletes them, and repairs what a crash interrupted.

The truth about a topic is in two places: its row in `metadata.db`, and its partitions' directories with the topic id in
`partition.metadata`. Each operation commits its row first and touches directories after, so that a start knows from
the row what is left to do:

- create: row, then logs. Without its directories the row makes them again, empty: nobody was told of the topic yet.
- add partitions: the row's count, then logs. The same.
- delete: the row marked `deleting`, then directories renamed, then the row removed. A marked row means: go on deleting.
  Without the mark, a directory that is still there would bring the topic back.
- alter: the row, then the logs. A start reads the row.

Directories without a row (metadata.db was lost) become topics again, with one log line each, and keep everything until they are
given settings; so do partitions beyond the row's count. Topics that Apache Kafka made have their rows by then
(`kraft/import_.py`). Where the topic id differs, `partition.metadata` wins.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from ...config.definitions import TOPIC_SETTINGS
from ...config.exceptions import ConfigError
from ...config.log_config import LogConfig, log_config
from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.deletion_policy import check_policies
from ...storage.exceptions import DeletionPolicyError, KafkaStorageError, says_what_is_wrong
from ...storage.segment.names import CLUSTER_METADATA_TOPIC, MAX_TOPIC_LENGTH, is_valid_topic
from ..runtime.garbage import freeze_if_many
from .creation_limits import NOBODYS, Claim, Makers, PrincipalTopicCounts, released
from .store import MetadataStore, TopicRecord
from .topic_repairs import NO_ID, FoundLog, Repairs, plan_repairs

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.log.unified_log import UnifiedLog

T = TypeVar("T")
log = logging.getLogger(__name__)

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

KEEP_EVERYTHING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings that prevent deletion and cleaning."""

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Partitions that one request may create: Kafka's limit on the records of one operation, and ours on files and memory.
"""


_TASKS = 6
_PARTITIONS_PER_TASK = 32


class Logs(Protocol):
    """The part of `LogManager` that is used here. `get` is for the loop thread, the rest blocks."""

    def get(self, topic: str, partition: int) -> UnifiedLog | None: ...
    def get_or_create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> UnifiedLog: ...
    def delete(self, topic: str, partition: int) -> object: ...
    def logs(self) -> Iterable[UnifiedLog]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Topic:
    """State of a topic, immutable. `config` is what its logs have, `overrides` its own settings."""

    name: str
    topic_id: UUID
    partition_count: int
    overrides: Mapping[str, str]
    config: LogConfig
    makers: Makers = NOBODYS

    @property
    def is_internal(self) -> bool:
        """True for a topic that the broker made for itself; clients list such topics apart."""
        return self.name in INTERNAL_TOPICS


class TopicRegistry:
    """All topics, by name and by id. Loop thread, except for `config_of`, which loading threads call before that
    starts.

    Operations on one name (and on names that collide with it) run one after the other; each goes on to its end even
    when the request that asked for it is gone.
    """

    def __init__(
        self, config: BrokerConfig, store: MetadataStore, pool: Executor, time: Time, new_id: Callable[[], UUID]
    ) -> None:
        """`store` must be open; its topics are read here. `new_id` makes random topic ids."""
        self._config = config
        self._store = store
        self._pool = pool
        self._time = time
        self._new_id = new_id
        self._logs: Logs | None = None
        self._records = {record.name: record for record in store.open()}
        self._defaults = log_config(config, {})
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._by_folded: dict[str, str] = {}
        self._busy: dict[str, asyncio.Future[None]] = {}
        # Topic → partitions that a growth which failed would have given it: some of their logs may have been made.
        self._unfinished: dict[str, int] = {}
        # Topic that could be neither made nor taken back → partitions whose logs may be there. Its row is.
        self._left: dict[str, int] = {}
        self._operations: set[asyncio.Task[Any]] = set()
        self.makers = PrincipalTopicCounts(config)
        """Topics and partitions by the principal that created them, and the limits on both."""
        self.producer_id_floor = 0
        """After `start`: producer ids below this one are in use in some log, and must not be assigned."""
        self.on_deleted: list[Callable[[str], object]] = []
        """Called with the name of each topic that was deleted, on the loop thread."""
        self.on_changed: list[Callable[[str, bool], object]] = []
        """Called with the name of each topic that was made, changed or deleted, and whether it is new. Loop thread."""

    # -- life

    def config_of(self, name: str) -> LogConfig:
        """Settings for loading a topic's logs: its stored ones over the broker's. Any thread."""
        record = self._records.get(name)
        return self._in_force(name, self._adopted(name) if record is None else record.overrides)

    def _in_force(self, name: str, overrides: Mapping[str, str]) -> LogConfig:
        """A topic's own settings over the broker's; those that are not allowed are left out, and logged. Any thread."""
        if not overrides:
            return self._defaults
        try:
            return log_config(self._config, overrides)
        except ConfigError as error:
            log.error("topic %s has stored settings that are left out: %s", name, "; ".join(error.problems))
            return log_config(self._config, _only_valid(self._config, overrides))

    async def start(self, logs: Logs) -> None:
        """Take over the loaded logs, repair what a crash left, and make the topics known. Called once, before any
        request.
        """
        self._logs = logs
        found = [
            FoundLog(loaded.topic, loaded.partition, loaded.topic_id or NO_ID)
            for loaded in logs.logs()
            if loaded.topic != CLUSTER_METADATA_TOPIC
        ]
        repairs = plan_repairs(self._records.values(), found)
        await self._repair(repairs, logs)
        for record in self._records.values():
            self._publish(
                Topic(
                    record.name,
                    record.topic_id,
                    record.partitions,
                    dict(record.overrides),
                    self.config_of(record.name),
                    record.makers,
                )
            )
        if repairs.adopt:
            # metadata.db may have been lost, and with it which producer ids were given out.
            known = (entry.producer_id for loaded in logs.logs() for entry in loaded.producers.active_producers())
            self.producer_id_floor = max(known, default=-1) + 1
        by_topic: dict[str, list[int]] = {}
        for name, partition in repairs.create:
            by_topic.setdefault(name, []).append(partition)
        for name, partitions in by_topic.items():
            log.warning("topic %s: partitions that have no directory and are made, empty: %d", name, len(partitions))
            await self._make_logs(self._by_name[name], partitions)
        self._records.clear()

    async def stop(self) -> None:
        """Wait for running operations; the caller starts no new ones."""
        while self._operations:
            await asyncio.wait(self._operations)

    def use(self, config: BrokerConfig) -> None:
        """Apply a changed configuration: topics, and their logs, follow in all settings that they do not override."""
        self._config = config
        self.makers.use(config)
        before, self._defaults = self._defaults, log_config(config, {})
        if self._defaults == before:
            return
        # With thousands of topics their settings take long to read, and most have the same.
        known: dict[frozenset[tuple[str, str]], LogConfig] = {}
        for topic in list(self._by_name.values()):
            own = frozenset(topic.overrides.items())
            if (in_force := known.get(own)) is None:
                in_force = known[own] = self._in_force(topic.name, topic.overrides)
            if in_force != topic.config:
                altered = dataclasses.replace(topic, config=in_force)
                self._publish(altered)
                self._configure_logs(altered)

    def _configure_logs(self, topic: Topic) -> None:
        for partition in range(topic.partition_count):
            if (found := self.log(topic.name, partition)) is not None:
                found.update_config(topic.config)

    # -- looking up

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID | bytes) -> Topic | None:
        """Topic by id, given as a UUID or as its 16 bytes."""
        return self._by_id.get(topic_id if isinstance(topic_id, UUID) else UUID(bytes=topic_id))

    def all(self) -> list[Topic]:
        """All topics, internal ones too, sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def log(self, name: str, partition: int) -> UnifiedLog | None:
        """Log of a partition of an existing topic; None otherwise, also while the topic is being deleted."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= partition < topic.partition_count or self._logs is None:
            return None
        return self._logs.get(name, partition)

    # -- changing

    def check_new(self, name: str, partitions: int, overrides: Mapping[str, str]) -> LogConfig:
        """Settings that such a topic would have. Raises `ProtocolError`, with Kafka's code, if it can't be created."""
        check_name(name)
        if name in self._by_name:
            raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{name}' is there already")
        if (other := self._by_folded.get(_folded(name))) is not None:
            raise ProtocolError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic '{name}' collides with '{other}': '.' and '_' count as the same in metric names",
            )
        if partitions < 1:
            raise ProtocolError(ErrorCode.INVALID_PARTITIONS, f"a topic can't have {partitions} partitions")
        if partitions > MAX_PARTITIONS_PER_REQUEST:
            raise ProtocolError(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} partitions are more than the {MAX_PARTITIONS_PER_REQUEST} that can be made at once",
            )
        return self._resolve(overrides)

    async def create(
        self, name: str, partitions: int, overrides: Mapping[str, str], claim: Claim | None = None
    ) -> Topic:
        """Create a topic; returns when it is durable and can be written to.

        `claim` is on whose account (`makers.claim`), the broker's own without; it is released here. Raises `ProtocolError`
        (see `check_new`), or `KafkaStorageError`, after which the topic is not there.
        """

        async def operation() -> Topic:
            with released(claim) as principal:
                async with self._alone(name):
                    return await self._create(name, partitions, overrides, principal)

        return await self._finish(operation())

    async def ensure(self, name: str, claim_for: Callable[[int], Claim] | None = None) -> Topic:
        """The topic, created with the broker's defaults if missing; concurrent calls create it once. Raises as
        `create`.

        For a client's request `claim_for` says whose limit it counts against: it is called with the number of partitions, when
        the topic is not there and may be made, and raises `ProtocolError` to refuse. The broker's own topics are on nobody's.
        """
        if (topic := self._by_name.get(name)) is not None:
            return topic

        async def operation() -> Topic:
            async with self._alone(name):
                if (made := self._by_name.get(name)) is not None:
                    return made
                partitions, overrides = self._defaults_of(name)
                self.check_new(name, partitions, overrides)
                claim = None if claim_for is None or name in INTERNAL_TOPICS else claim_for(partitions)
                with released(claim) as principal:
                    return await self._create(name, partitions, overrides, principal)

        return await self._finish(operation())

    async def delete(self, name: str, topic_id: UUID | None = None) -> None:
        """Delete a topic: at once for clients, its files after `file.delete.delay.ms`.

        With `topic_id` that topic alone: not one of its name that was made while this waited for its turn.

        Raises `ProtocolError` UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION for an internal one, or
        `KafkaStorageError`; if that comes after the deletion is stored, the next start goes on with it.
        """

        async def operation() -> None:
            async with self._alone(name):
                if topic_id is not None and topic_id not in self._by_id:
                    raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic '{name}' with that id is gone")
                topic = self._known(name)
                if topic.is_internal:
                    raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{name}' is the broker's own")
                await self._store.mark_deleting(name)
                self._withdraw(topic)
                self._tell_deleted(name)
                partitions = max(topic.partition_count, self._unfinished.pop(name, 0))
                await self._spread(partial(self._delete_logs, name), range(partitions))
                await self._store.remove_topic(name)
                log.info("topic %s deleted", name)

        await self._finish(operation())

    def _tell_deleted(self, name: str) -> None:
        """Call all of `on_deleted`. A failure is logged: the deletion is stored, so its files have to go in any case."""
        for callback in self.on_deleted:
            try:
                callback(name)
            except Exception:
                log.exception("topic %s is deleted; what is known of it could not be forgotten", name)

    def check_growth(self, name: str, partitions: int) -> Topic:
        """The topic, if it may grow to `partitions` partitions. Raises `ProtocolError`."""
        topic = self._known(name)
        if topic.is_internal:
            raise ProtocolError(
                ErrorCode.INVALID_PARTITIONS, f"the number of partitions of '{name}' decides where its keys are"
            )
        if partitions <= topic.partition_count:
            raise ProtocolError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic '{name}' has {topic.partition_count} of them; {partitions} partitions would not be more",
            )
        if partitions - topic.partition_count > MAX_PARTITIONS_PER_REQUEST:
            raise ProtocolError(
                ErrorCode.POLICY_VIOLATION, f"at most {MAX_PARTITIONS_PER_REQUEST} partitions can be added at once"
            )
        return topic

    async def add_partitions(self, name: str, partitions: int, claim: Claim | None = None) -> Topic:
        """Grow a topic to `partitions` partitions, charged to `claim` (see `create`). Raises as `check_growth`, and
        `KafkaStorageError`.
        """

        async def operation() -> Topic:
            with released(claim) as principal:
                async with self._alone(name):
                    return await self._grow(name, partitions, principal)

        return await self._finish(operation())

    def check_alter(self, name: str, change: Callable[[Topic], Mapping[str, str]]) -> dict[str, str]:
        """Overrides that the topic would have after `change` (see `alter`). Raises `ProtocolError`."""
        overrides = dict(change(self._known(name)))
        self._resolve(overrides)
        return overrides

    async def alter(self, name: str, change: Callable[[Topic], Mapping[str, str]]) -> Topic:
        """Replace a topic's overrides by what `change` returns for the topic; its logs follow at once.

        `change` gets the topic as it is when no other operation on it is under way, so that none gets lost. Raises
        `ProtocolError` UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG or what `change` raises, `KafkaStorageError`.
        """

        async def operation() -> Topic:
            async with self._alone(name):
                overrides = self.check_alter(name, change)
                await self._store.set_overrides(name, overrides)
                # Only now: the broker's settings may have changed meanwhile.
                config = self._in_force(name, overrides)
                altered = dataclasses.replace(self._known(name), overrides=overrides, config=config)
                self._publish(altered)
                self._configure_logs(altered)
                log.info("topic %s has these settings of its own now: %s", name, overrides)
                return altered

        return await self._finish(operation())

    # -- inside

    async def _create(self, name: str, partitions: int, overrides: Mapping[str, str], principal: str) -> Topic:
        if name in self._left:
            await self._take_back(name, self._left[name])
        config = self.check_new(name, partitions, overrides)
        makers = Makers.of_new(principal, partitions)
        topic = Topic(name, self._new_id(), partitions, dict(overrides), config, makers)
        await self._store.add_topic(
            TopicRecord(
                name, topic.topic_id, partitions, topic.overrides, self._time.milliseconds(), makers=topic.makers
            )
        )
        try:
            await self._make_logs(topic, range(partitions))
        except Exception as error:
            # The disk is full, or gone, or there is no descriptor left (which whoever answers the client logs): take back what
            # was made, so that the client may try again.
            if not says_what_is_wrong(error):
                log.exception("topic %s can't be made", name)
            await self._take_back(name, partitions)
            raise
        topic = self._publish_made(topic)
        log.info("topic %s made; partitions: %d, id %s", name, partitions, topic.topic_id)
        return topic

    async def _take_back(self, name: str, partitions: int) -> None:
        """Remove what there is of a topic that nobody was told of. After a `KafkaStorageError` the next creation of the name goes
        on with it; or the next start, if it is logs that could not be deleted.
        """
        self._left[name] = partitions
        await self._store.mark_deleting(name)
        del self._left[name]
        await self._in_pool(self._delete_logs, name, range(partitions))
        self._left[name] = 0
        await self._store.remove_topic(name)
        del self._left[name]

    async def _grow(self, name: str, partitions: int, principal: str) -> Topic:
        topic = self.check_growth(name, partitions)
        makers = topic.makers.grown(principal, partitions - topic.partition_count)
        await self._store.set_partitions(name, partitions, makers)
        grown = dataclasses.replace(topic, partition_count=partitions, makers=makers)
        self._unfinished[name] = most = max(partitions, self._unfinished.get(name, 0))
        await self._make_logs(grown, range(topic.partition_count, partitions))
        if partitions == most:
            del self._unfinished[name]
        grown = self._publish_made(grown)
        log.info("topic %s has %d partitions now", name, partitions)
        return grown

    def _publish_made(self, topic: Topic) -> Topic:
        """Publish a topic of which logs were just made with its settings: the broker's may have changed meanwhile."""
        present = dataclasses.replace(topic, config=self._in_force(topic.name, topic.overrides))
        self._publish(present)
        if present.config != topic.config:
            self._configure_logs(present)
        return present

    def _resolve(self, overrides: Mapping[str, str]) -> LogConfig:
        if not overrides:
            return self._defaults
        try:
            config = log_config(self._config, overrides)
            if "deletion.policies" in overrides:
                check_policies(config.deletion_policies)
            return config
        except ConfigError as error:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, "; ".join(error.problems)) from None
        except DeletionPolicyError as error:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def _defaults_of(self, name: str) -> tuple[int, dict[str, str]]:
        """Partitions and settings of a topic that is created on demand."""
        if name == CONSUMER_OFFSETS:
            return self._config.offsets_topic_num_partitions, _internal_overrides(
                self._defaults, self._config.offsets_topic_segment_bytes, "producer"
            )
        if name == TRANSACTION_STATE:
            return self._config.transaction_state_log_num_partitions, _internal_overrides(
                self._defaults, self._config.transaction_state_log_segment_bytes, "uncompressed"
            )
        if name == SHARE_GROUP_STATE:  # its coordinator says what is redundant
            return self._config.share_coordinator_state_topic_num_partitions, {
                **_internal_overrides(
                    self._defaults, self._config.share_coordinator_state_topic_segment_bytes, "producer"
                ),
                **KEEP_EVERYTHING,
            }
        return self._config.num_partitions, {}

    def _adopted(self, name: str) -> dict[str, str]:
        """Settings of a topic that has directories but no row.

        The broker's own are compacted, as ever. Their lost policies are unknown: they may have been compaction, or to keep for
        ever. So they keep everything until somebody says otherwise.
        """
        return self._defaults_of(name)[1] if name in INTERNAL_TOPICS else dict(KEEP_EVERYTHING)

    def _known(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        return topic

    def _publish(self, topic: Topic) -> None:
        before = self._by_name.get(topic.name)
        is_new = before is None
        if before is not None:
            self.makers.disappeared(before.makers, before.partition_count)
        self.makers.appeared(topic.makers, topic.partition_count)
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self._by_folded[_folded(topic.name)] = topic.name
        for callback in self.on_changed:
            callback(topic.name, is_new)

    def _withdraw(self, topic: Topic) -> None:
        del self._by_name[topic.name], self._by_id[topic.topic_id]
        self.makers.disappeared(topic.makers, topic.partition_count)
        if self._by_folded.get(_folded(topic.name)) == topic.name:
            del self._by_folded[_folded(topic.name)]
        for callback in self.on_changed:
            callback(topic.name, False)

    async def _make_logs(self, topic: Topic, partitions: Iterable[int]) -> None:
        logs = self._logs
        assert logs is not None, "start() comes first"

        def make(partitions: Iterable[int]) -> None:
            for partition in partitions:
                logs.get_or_create(topic.name, partition, topic.topic_id, topic.config)

        wanted = tuple(partitions)
        await self._spread(make, wanted)
        freeze_if_many(len(wanted))

    async def _spread(self, task: Callable[[Sequence[int]], object], partitions: Iterable[int]) -> None:
        """Run `task` in the pool, in several threads if there are many partitions: concurrent syncs share journal
        commits.
        """
        wanted = tuple(partitions)
        size = max(_PARTITIONS_PER_TASK, -(-len(wanted) // _TASKS))
        tasks = [self._in_pool(task, wanted[first : first + size]) for first in range(0, len(wanted), size)]
        # All are waited for, so that nobody makes what is taken back after a failure.
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _delete_logs(self, name: str, partitions: Iterable[int]) -> None:
        assert self._logs is not None, "start() comes first"
        for partition in partitions:
            if self._logs.get(name, partition) is not None:
                self._logs.delete(name, partition)

    async def _in_pool(self, task: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, task, *arguments)
        except OSError as error:
            raise KafkaStorageError(str(error)) from error

    async def _finish(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run an operation to its end, even if the client that asked for it disconnects."""
        task = asyncio.get_running_loop().create_task(operation)
        self._operations.add(task)
        task.add_done_callback(self._operation_done)
        return await asyncio.shield(task)

    def _operation_done(self, task: asyncio.Task[Any]) -> None:
        self._operations.discard(task)
        # The client may be gone; then the error is only logged.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("an operation on a topic failed: %s", error)

    @contextlib.asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """Exclude other operations on the name, and on names that collide with it."""
        folded = _folded(name)
        while (other := self._busy.get(folded)) is not None:
            await asyncio.wait((other,))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._busy[folded] = done
        try:
            yield
        finally:
            del self._busy[folded]
            done.set_result(None)

    async def _repair(self, repairs: Repairs, logs: Logs) -> None:
        """Repair rows; missing directories are created when all topics are known."""
        if repairs.finish_deleting:

            def delete() -> None:
                for name, partition in repairs.delete:
                    logs.delete(name, partition)

            await self._in_pool(delete)
            for name in repairs.finish_deleting:
                log.warning("topic %s: its deletion was cut short and is finished now", name)
                await self._store.remove_topic(name)
                del self._records[name]
        pending: list[Awaitable[None]] = []
        for name, topic_id in repairs.identify:
            log.warning("topic %s: partition.metadata has another id than metadata.db, and wins: %s", name, topic_id)
            self._records[name] = dataclasses.replace(self._records[name], topic_id=topic_id)
            pending.append(self._store.set_topic_id(name, topic_id))
        for name, count in repairs.grow:
            log.warning("topic %s: directories for %d partitions are there, more than metadata.db knows", name, count)
            self._records[name] = dataclasses.replace(self._records[name], partitions=count)
            pending.append(self._store.set_partitions(name, count, self._records[name].makers))
        for name, known_id, count in repairs.adopt:
            record = TopicRecord(
                name, known_id or self._new_id(), count, self._adopted(name), self._time.milliseconds()
            )
            log.warning(
                "topic %s is not in metadata.db: taken from its %d directories, with these settings of its own: %s",
                name,
                count,
                dict(record.overrides),
            )
            self._records[name] = record
            pending.append(self._store.add_topic(record))
        await asyncio.gather(*pending)


def check_name(name: str) -> None:
    """Raise `ProtocolError` INVALID_TOPIC_EXCEPTION for a topic name that Kafka does not allow."""
    if is_valid_topic(name):
        return
    if not name:
        problem = "the name is empty"
    elif name in (".", ".."):
        problem = f"'{name}' can't be a name"
    elif len(name) > MAX_TOPIC_LENGTH:
        problem = f"the name has {len(name)} characters, {MAX_TOPIC_LENGTH} are allowed"
    else:
        problem = f"'{name[:64]}' has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _folded(name: str) -> str:
    """Key under which names collide: metric names have '_' for '.'."""
    return name.replace(".", "_")


def _internal_overrides(defaults: LogConfig, segment_bytes: int, compression: str) -> dict[str, str]:
    """Kafka's settings for its own topics; and indexes just large enough for a segment, since each topic has fifty.

    A time index entry (12 bytes) each index.interval.bytes is the most that a segment can have.
    """
    entries = segment_bytes // max(defaults.index_interval_bytes, 1) + 2
    return {
        "cleanup.policy": "compact",
        "compression.type": compression,
        "segment.bytes": str(segment_bytes),
        "segment.index.bytes": str(min(12 * entries, defaults.segment_index_bytes)),
    }


def _only_valid(config: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, str]:
    """The overrides that are still valid, each checked alone."""
    kept = {}
    for name, value in overrides.items():
        if name in TOPIC_SETTINGS:
            with contextlib.suppress(ConfigError):
                log_config(config, {name: value})
                kept[name] = value
    return kept
