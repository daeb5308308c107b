"""The driver's side of the sink: `KafkaCluster` does to a real cluster what the commit protocol decides.

The query's driver has a transactional id of its own, `PREFIX-QUERY`: a driver that takes it (InitProducerId) fences the one
before, so that of two drivers only the later one can write tokens. Tasks' ids are `PREFIX-QUERY-RUN-TASK-ATTEMPT-PHASE`.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.fetch import PartitionData
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...protocol.records.builder import build_batch
from ...protocol.records.record_batch import Record
from ..exceptions import BrokerError, UnsupportedBrokerError
from ..wire.client import KafkaClient, leaders
from ..wire.errors import check
from ..wire.partitions import EARLIEST, Fetch, fetched, leader_in, list_offsets, send_fetch, topic_now
from .commit_log import CommitLog, closed_key, encode_mark, encode_token, mark_key, token_key
from .commit_protocol import Committer, Outcome, Part, Token, View
from .producer import Producer, ProducerId, end_transaction, end_transactions, init_producer

#: Of the driver's own transaction, which lives for a moment.
_DRIVER_TIMEOUT_MS = 60_000
_TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # Readers begin at its start: what is not yet cleaned should be little.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "86400000",
}


#: Of a task's id, over the batches.
PHASES = 4


def driver_id(prefix: str, query: str) -> str:
    return f"{prefix}-{query}"


def task_id(prefix: str, query: str, run: str, task: int, attempt: int, batch: int) -> str:
    """Transactional id of an attempt at a task: no two attempts that can be alive at once have the same, and over all batches
    an attempt has no more than PHASES of them."""
    return f"{prefix}-{query}-{run}-{task}-{attempt}-{batch % PHASES}"


#: Of the commit topic: always the same, whatever partitions somebody adds to it later.
COMMIT_PARTITION = 0


def ensure_commit_topic(client: KafkaClient, topic: str) -> None:
    """Makes it if it is missing. BrokerError."""
    if _is_there(client, topic):
        return
    wanted = CreatableTopic(
        name=topic, num_partitions=1, replication_factor=-1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in _TOPIC_SETTINGS.items()],
    )  # fmt: skip

    def create() -> None:
        controller = client.metadata([]).controller_id
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=client.settings.request_timeout_ms)
        answer = client.request_from(controller, request, CreateTopicsResponse, up_to=5, at_least=4)
        code = answer.topics[0].error_code
        if code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(
                code, f"the commit topic {topic} can't be created: {answer.topics[0].error_message or ''}".rstrip(" :")
            )

    def look() -> None:
        if not _is_there(client, topic):
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic} is being created", retriable=True)

    client.retry(create)
    client.retry(look)


def _is_there(client: KafkaClient, topic: str) -> bool:
    found = leaders(client.metadata([topic])).get((topic, COMMIT_PARTITION))
    return found is not None and found.node_id >= 0


class KafkaCluster:
    """A `Cluster` for one query's run; driver, one thread. Errors of the wire, DeliveryError, CommitTopicError."""

    def __init__(
        self, client: KafkaClient, topic: str, prefix: str, query: str, run: str, *, start: Start | None = None
    ) -> None:
        """`start`: where everything begins that matters of the query, if that is known; else all of the topic is read."""
        self._client, self._topic, self._prefix, self._query, self._run = client, topic, prefix, query, run
        ensure_commit_topic(client, topic)
        self._producer: ProducerId | None = None
        self._reader = CommitReader(topic, start)

    def fence(self) -> None:
        self._producer = init_producer(self._client, driver_id(self._prefix, self._query), _DRIVER_TIMEOUT_MS)

    def read(self) -> View:
        return self._reader.read(self._client).view(self._query)

    def end(self, part: Part, *, commit: bool) -> bool:
        return end_transaction(
            self._client, part.transactional_id, ProducerId(part.producer_id, part.epoch), commit=commit
        )

    def end_all(self, parts: Sequence[Part], *, commit: bool) -> bool:
        named = [(part.transactional_id, ProducerId(part.producer_id, part.epoch)) for part in parts]
        return all(end_transactions(self._client, named, commit=commit))

    def close(self, batch: int, *, over: bool = False) -> None:
        # Outside of transactions, and without fencing: it says something of this run alone, and any driver may say it.
        sender = Producer(self._client, init_producer(self._client, None))
        sender.partitions(self._topic)
        record = Record(0, now_ms(), closed_key(self._query), None if over else encode_mark(batch, self._run))
        made = build_batch(
            [record], producer_id=sender.producer.id, producer_epoch=sender.producer.epoch, base_sequence=0
        )
        sender.send(self._topic, [(COMMIT_PARTITION, 1, bytearray(made))])
        sender.flush()

    def write(self, token: Token) -> None:
        self._write([(token_key(self._query), encode_token(token))])

    def forget(self, tasks: Sequence[int]) -> None:
        """Takes the query's token and marks away: nothing will ask for them again. Attempts that begin later find it over."""
        self.fence()
        gone = [token_key(self._query), closed_key(self._query), *(mark_key(self._query, task) for task in tasks)]
        self._write([(key, None) for key in gone])

    def sweep(self, keep: Sequence[Part]) -> None:
        # At every commit: an attempt that lost, of whatever number, may have died with its node, and its open transaction
        # would hold back committed readers until it times out. A live one is in state Ongoing from its mark on.
        self._take(r"[^-]+-[0-9]+-[0-9]+-" + f"[0-{PHASES - 1}]", keep, ["Ongoing"])

    def abandon(self, batch: int, keep: Sequence[Part]) -> None:
        """Takes the transactional ids of all who write `batch` in this run, besides these: what they have open is aborted,
        and tasks that still run, begun or not, can write no more.
        """
        self._take(rf"{re.escape(self._run)}-[0-9]+-[0-9]+-{batch % PHASES}", keep, ["Ongoing", "Empty"])

    # -- inside

    def _take(self, form: str, keep: Sequence[Part], states: Sequence[str]) -> None:
        """`form`: what follows the query's name, in what Python's expressions and the brokers' (RE2) have in common."""
        kept = {part.transactional_id for part in keep}
        # Another query's name may begin with this one's: no other has ids of just this form.
        pattern = re.escape(driver_id(self._prefix, self._query)) + "-" + form
        own = re.compile(pattern)
        for name in self._transactions(states, pattern):
            if name not in kept and own.fullmatch(name):
                with contextlib.suppress(BrokerError):  # somebody else ends it at this moment
                    init_producer(self._client, name)

    def _write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        assert self._producer is not None
        name, producer = driver_id(self._prefix, self._query), self._producer
        sender = Producer(self._client, producer, transactional_id=name)
        sender.partitions(self._topic)
        batch = build_batch(
            [Record(0, now_ms(), key, value) for key, value in records],
            producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True,
        )  # fmt: skip
        sender.send(self._topic, [(COMMIT_PARTITION, len(records), bytearray(batch))])
        sender.flush()
        if not end_transaction(self._client, name, producer, commit=True):
            raise BrokerError(
                ErrorCode.PRODUCER_FENCED,
                f"another driver of the query {self._query} has taken over; this one must stop",
                retriable=False,
            )

    def _transactions(self, states: Sequence[str], pattern: str) -> list[str]:
        """Transactional ids whose transaction is in one of `states`: one request a broker. None from one that can't list them.

        Brokers from Kafka 4.1 on, and tidelog, leave out by themselves what `pattern` does not match; others tell all.
        """
        return [
            name
            for broker in self._client.metadata([]).brokers
            for name in self._listed(broker.node_id, states, pattern)
        ]

    def _listed(self, node: int, states: Sequence[str], pattern: str) -> list[str]:
        everything = ListTransactionsRequest(state_filters=list(states))
        wanted = ListTransactionsRequest(state_filters=list(states), transactional_id_pattern=pattern)
        try:
            answer = self._client.request_from(node, wanted, ListTransactionsResponse, up_to=2, at_least=2)
        except UnsupportedBrokerError:
            try:
                answer = self._client.request_from(node, everything, ListTransactionsResponse, up_to=1)
            except UnsupportedBrokerError:
                return []
        check(answer.error_code, "listing transactions")
        return [transaction.transactional_id for transaction in answer.transaction_states]


class Start(NamedTuple):
    """A place in the commit topic. `topic_id`: a topic that was made anew has another one; zeros from brokers before 2.8."""

    topic_id: bytes
    offset: int


class CommitReader:
    """The commit topic, read on from where the last look ended; from `start` the first time, or from its beginning. One thread.

    Errors of the wire; nothing is left out in silence.
    """

    def __init__(self, topic: str, start: Start | None = None) -> None:
        self._topic = topic
        self._topic_id: bytes | None = None if start is None else start.topic_id
        self._position: int | None = None if start is None else start.offset
        self._log = CommitLog()

    def read(self, client: KafkaClient) -> CommitLog:
        """All that is written up to now, open transactions included. The same object each time."""
        end = stable = None
        while end is None or self._position is None or self._position < end:
            answer = client.retry(lambda: self._fetch(client))
            if answer is None:
                self._log, self._position = CommitLog(), None
                end = stable = None
                continue
            if stable is None or end is None:
                # Transactions that have ended by now have their markers below this high watermark: read at least up to there.
                stable, end = answer.last_stable_offset, answer.high_watermark
            self._position = self._log.feed(answer.records or b"") or self._position
        self._log.finish(stable or 0)
        return self._log

    def start_of(self, query: str, task: int) -> Start | None:
        """Where a driver of the query may begin to read, as of the last look."""
        offset = self._log.start_of(query, task)
        return None if offset is None or self._topic_id is None else Start(self._topic_id, offset)

    # -- inside

    def _fetch(self, client: KafkaClient) -> PartitionData | None:
        """None: there is no such offset, or it is another topic now. BrokerError, also where nothing came of what is there."""
        now = topic_now(client, self._topic)
        if now.topic_id != self._topic_id:
            known, self._topic_id = self._topic_id, now.topic_id
            if known is not None:
                return None
        connection = client.connection(leader_in(now, self._topic, COMMIT_PARTITION))
        if self._position is None:
            place = (self._topic, COMMIT_PARTITION)
            self._position = dict(list_offsets(connection, {place: EARLIEST}, f"reading {self._topic}"))[place]
        position = self._position
        assert position is not None, "every log has a beginning"
        wanted = Fetch(self._topic, COMMIT_PARTITION, position, client.settings.fetch_max_bytes)
        data = fetched(connection.receive(send_fetch(connection, wanted)), self._topic, COMMIT_PARTITION)
        if data is None:
            return None
        if not data.records and position < data.high_watermark:
            # Cleaning keeps a log's last batch: there is something below the end, and it will come.
            raise BrokerError(
                ErrorCode.REQUEST_TIMED_OUT, f"nothing came of {self._topic}-{COMMIT_PARTITION} at {position}",
                retriable=True,
            )  # fmt: skip
        return data


_readers = threading.local()
_MOST_READERS = 8


def kept_reader(client: KafkaClient, topic: str) -> CommitReader:
    """This thread's reader of that topic: a Python worker of Spark lives for many tasks, and each reads what has come since."""
    kept: dict[tuple[object, str], CommitReader] = getattr(_readers, "kept", {})
    _readers.kept = kept
    key = (client.settings.bootstrap, topic)
    if key not in kept:
        if len(kept) >= _MOST_READERS:
            kept.clear()
        kept[key] = CommitReader(topic)
    return kept[key]


def read_commit_log(client: KafkaClient, topic: str) -> CommitLog:
    """Read all of the commit topic up to now, open transactions included. Raises errors of the wire."""
    return CommitReader(topic).read(client)


def settle_all(client: KafkaClient, topic: str, pause: Callable[[int], None] = time.sleep) -> dict[str, int]:
    """Carries out every token of the commit topic that still waits for it: harmless at any time, for anybody.

    Query → how many of its parts were open. LostPartError and errors of the wire.
    """
    found: dict[str, int] = {}
    if not _is_there(client, topic):
        return found
    log = read_commit_log(client, topic)
    for query in log.queries():
        still_open = len(log.view(query).parts(Outcome.OPEN))
        if still_open:
            cluster = KafkaCluster(client, topic, "", query, "")
            Committer(cluster, "", pause=pause).settle(cluster.read())
            found[query] = still_open
    return found


def now_ms() -> int:
    """The writer's clock: ms since 1970."""
    return time.time_ns() // 1_000_000
