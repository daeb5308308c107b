"""Batches onto the wire: one producer id, up to five requests in flight to each broker, and transactions.

A batch that fails for a reason that passes (its leader has moved, the connection broke) is sent again with everything behind
it on its partition, in order, one request at a time; sequence numbers let the broker drop what it has already (KIP-98). With
version 2 of transactions (KIP-890: Produce 12, EndTxn 5) a broker adds partitions by itself, before that they are added here.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...clients.kafka.connection import Connection
from ...clients.kafka.conversations import CoordinatorKind
from ...clients.kafka.protocol import Ticket, error_text
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ..exceptions import BrokerError, BrokerUnreachableError, PipelineError
from ..wire.client import KafkaClient, leaders
from ..wire.errors import check

#: As Kafka's producers: a broker remembers the last five batches of a producer on a partition, to know them again.
MOST_IN_FLIGHT = 5
#: EndTxn requests that wait for their answers, of one coordinator.
MOST_ENDS = 50
#: Bytes of batches in one request; one that is larger goes alone.
REQUEST_BYTES = 1 << 20
#: The versions of Produce and EndTxn before KIP-890's transactions, and with them.
PRODUCE_V1, PRODUCE_V2 = 11, 12
END_V1, END_V2 = 4, 5
_TRANSACTION_VERSION = "transaction.version"

Place = tuple[str, int]


class ProducerId(NamedTuple):
    """A producer id assigned by a broker."""

    id: int
    epoch: int


@dataclass(slots=True)
class Pending:
    """A batch that is not acknowledged."""

    place: Place
    records: int
    data: bytearray


class _Flight(NamedTuple):
    ticket: Ticket[ProduceResponse]
    batches: list[Pending]


class DeliveryError(PipelineError):
    """A batch was refused, or not taken within delivery.timeout.ms."""


class RefusedError(DeliveryError):
    """A batch of `records` records was refused for good. `record_errors`: index in the batch and message of each that is to
    blame, where the broker tells; `code` is Kafka's number, `why` its sentence."""

    def __init__(
        self, place: Place, records: int, code: int, why: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        named = "; ".join(f"record {index}: {text}" for index, text in record_errors[:3])
        said = " ".join(part for part in (why, named) if part)
        super().__init__(f"{_name(place)}: {records} records were refused: {error_text(code)} {said}".rstrip())
        self.place = place
        self.records = records
        self.code = code
        self.why = why
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.place, self.records, self.code, self.why, self.record_errors), vars(self)


def init_producer(client: KafkaClient, transactional_id: str | None, timeout_ms: int = 60_000) -> ProducerId:
    """A producer id. With a transactional id: everybody who had it is fenced, and what was open is aborted. BrokerError."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    if transactional_id is None:

        def ask() -> InitProducerIdResponse:
            given = client.request(request, InitProducerIdResponse, up_to=4)
            check(given.error_code, "a producer id")
            return given

        answer = client.retry(ask)  # the coordinator of a broker that has just started is still loading
    else:
        answer = client.request_coordinator(
            transactional_id, CoordinatorKind.TRANSACTION, request, InitProducerIdResponse, up_to=4
        )
    return ProducerId(answer.producer_id, answer.producer_epoch)


def has_transactions_v2(client: KafkaClient) -> bool:
    """True if brokers add partitions to transactions by themselves, and change the epoch with every transaction."""
    return client.retry(lambda: client.any_connection().features.get(_TRANSACTION_VERSION, 0) >= 2)


def end_transaction(client: KafkaClient, transactional_id: str, producer: ProducerId, *, commit: bool) -> bool:
    """False: there is no such transaction that can be ended so (any more); nothing is known of how it ended then."""
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer.id, producer_epoch=producer.epoch, committed=commit
    )
    version = END_V2 if has_transactions_v2(client) else END_V1
    try:
        client.request_coordinator(
            transactional_id, CoordinatorKind.TRANSACTION, request, EndTxnResponse, up_to=version
        )
    except BrokerError as error:
        if error.code in _ENDED:
            return False
        raise
    return True


def end_transactions(client: KafkaClient, named: Sequence[tuple[str, ProducerId]], *, commit: bool) -> list[bool]:
    """As `end_transaction` for each (transactional id, producer), with `MOST_ENDS` on their way to each coordinator."""
    if len(named) < 2:
        return [end_transaction(client, name, producer, commit=commit) for name, producer in named]
    version = END_V2 if has_transactions_v2(client) else END_V1
    found: dict[int, bool] = {}
    waiting: dict[int, deque[tuple[int, Connection, Ticket[EndTxnResponse]]]] = {}

    def receive(node: int) -> None:
        number, connection, ticket = waiting[node].popleft()
        code = connection.receive(ticket).error_code
        if not code or code in _ENDED:
            found[number] = not code

    # What fails here, for whatever reason, is asked again below by itself: to end a transaction twice is harmless.
    nodes = client.coordinators([name for name, _ in named], CoordinatorKind.TRANSACTION)
    for number, (name, producer) in enumerate(named):
        node = nodes.get(name)
        if node is None:
            continue
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer.id, producer_epoch=producer.epoch, committed=commit
        )
        with contextlib.suppress(BrokerError, BrokerUnreachableError):
            if len(waiting.setdefault(node, deque())) >= MOST_ENDS:
                receive(node)
            connection = client.connection(node)
            waiting[node].append((number, connection, connection.send(request, EndTxnResponse, up_to=version)))
    for node, left in waiting.items():
        while left:
            with contextlib.suppress(BrokerError, BrokerUnreachableError):
                receive(node)
    return [
        found[number] if number in found else end_transaction(client, name, producer, commit=commit)
        for number, (name, producer) in enumerate(named)
    ]


#: Errors of a coordinator to a producer that comes too late.
_ENDED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE,
    }
)  # fmt: skip
_AGAIN = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_KNOWN = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
_OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Producer:
    """Sends sealed batches under one producer id; a task's thread. `send` blocks when enough is in flight, `flush` until all
    is there. DeliveryError, BrokerError, BrokerUnreachableError; then nothing more may be sent with it.
    """

    def __init__(
        self,
        client: KafkaClient,
        producer: ProducerId,
        *,
        transactional_id: str | None = None,
        acks: int = -1,
        delivery_timeout_ms: int = 120_000,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """`on_wait` is told for what a batch is held back, each time before it is tried again."""
        self._client = client
        self.producer = producer
        self._on_wait = on_wait
        self._transactional_id = transactional_id
        self._acks = acks
        self._timeout_s = delivery_timeout_ms / 1000
        self._clock = clock
        self._sleep = sleep
        self._v2 = transactional_id is not None and has_transactions_v2(client)
        self._version = PRODUCE_V1 if transactional_id is None or not self._v2 else PRODUCE_V2
        self._added: set[Place] = set()
        self._begun: set[Place] = set()
        self._started: set[Place] = set()
        self._leaders: dict[Place, int] = {}
        self._topics: set[str] = set()
        self._gathered: dict[int, list[Pending]] = {}
        self._flights: dict[int, deque[_Flight]] = {}
        #: Why a batch was last refused that is sent again.
        self._refusal = ""
        self.bytes_sent = 0
        #: Records that are in the log, by partition: all of them from the partition's first on.
        self.acknowledged: dict[Place, int] = {}

    def partitions(self, topic: str) -> int:
        """Number of partitions of a topic, once it has been made. DeliveryError if the topic does not exist."""
        self.flush()  # leaders may be others now, and nothing may overtake what is on its way to the old ones
        self._topics.add(topic)

        def look() -> None:
            code = self._look_up().get(topic, 0)
            if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                check(code, f"topic {topic}")

        self._client.retry(look)
        count = 1 + max((number for name, number in self._leaders if name == topic), default=-1)
        if not count:
            raise DeliveryError(f"there is no topic {topic}; create it first: tidelog topics create {topic}")
        return count

    def send(self, topic: str, batches: Iterable[tuple[int, int, bytearray]]) -> None:
        """(partition, records, batch), as a `BatchBuilder` gives them."""
        for partition, records, data in batches:
            pending = Pending((topic, partition), records, data)
            node = self._leaders.get(pending.place, -1)
            gathered = self._gathered.get(node, [])
            full = sum(len(batch.data) for batch in gathered) + len(data) > REQUEST_BYTES
            if gathered and (full or any(batch.place == pending.place for batch in gathered)):
                self._dispatch(node)
                node = self._leaders.get(pending.place, -1)  # an answer may have had them looked up anew
            self._gathered.setdefault(node, []).append(pending)
            self.bytes_sent += len(data)

    def flush(self) -> None:
        """Returns when all that was sent is in the log."""
        for node in list(self._gathered):
            self._dispatch(node)
        for node in list(self._flights):
            while self._flights.get(node):
                self._receive(node)

    # -- inside

    def _look_up(self) -> dict[str, int]:
        """Find the leaders; the error of each topic, or 0."""
        answer = self._client.metadata(sorted(self._topics))
        self._leaders = {place: leader.node_id for place, leader in leaders(answer).items()}
        return {topic.name or "": topic.error_code for topic in answer.topics}

    def _dispatch(self, node: int) -> None:
        # Meanwhile they stay among what is gathered: where an answer has all sent again, they go with it, to the leaders of then.
        while len(self._flights.get(node, ())) >= MOST_IN_FLIGHT:
            self._receive(node)
        # A broker that knows nothing of a producer takes any sequence number: a partition's first batch goes alone.
        while self._flights.get(node) and any(
            batch.place in self._started - self._begun for batch in self._gathered.get(node, ())
        ):
            self._receive(node)
        batches = self._gathered.pop(node, [])
        if not batches:
            return
        self._started.update(batch.place for batch in batches)
        self._add_partitions([batch.place for batch in batches])
        try:
            ticket = self._submit(self._client.connection(node), batches)
        except BrokerUnreachableError:
            self._again(node, [], batches)
            return
        self._flights.setdefault(node, deque()).append(_Flight(ticket, batches))

    def _submit(self, connection: Connection, batches: list[Pending]) -> Ticket[ProduceResponse]:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topics.setdefault(batch.place[0], []).append(PartitionProduceData(index=batch.place[1], records=batch.data))
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._client.settings.request_timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()],
        )
        return connection.send(request, ProduceResponse, up_to=self._version, at_least=3)

    def _receive(self, node: int) -> None:
        """Receive and handle the oldest answer."""
        flight = self._flights[node][0]
        try:
            answer = self._client.connection(node).receive(flight.ticket)
        except BrokerUnreachableError:
            self._again(node, [])
            return
        self._flights[node].popleft()
        failed = self._failed(flight.batches, answer)
        if failed:
            self._again(node, failed)

    def _failed(self, batches: list[Pending], answer: ProduceResponse, *, in_order: bool = False) -> list[Pending]:
        """Batches to send again. DeliveryError for one that is refused for good, once all are counted that were accepted."""
        results: dict[Place, PartitionProduceResponse] = {
            (topic.name, response.index): response
            for topic in answer.responses
            for response in topic.partition_responses
        }
        failed = []
        refusals: list[DeliveryError] = []
        for batch in batches:
            result = results.get(batch.place)
            if result is None:
                why = f"{_name(batch.place)}: the broker's answer has no word of this partition"
                refusals.append(DeliveryError(why))
                continue
            code = result.error_code
            if not code or code == _KNOWN:
                self._begun.add(batch.place)
                self.acknowledged[batch.place] = self.acknowledged.get(batch.place, 0) + batch.records
                continue
            if code in _AGAIN or _is_retriable(code) or (code == _OUT_OF_ORDER and not in_order):
                self._refusal = result.error_message or error_text(code)
                failed.append(batch)
                continue
            blamed = tuple((error.batch_index, error.batch_index_error_message or "") for error in result.record_errors)
            refusals.append(RefusedError(batch.place, batch.records, code, result.error_message or "", blamed))
        if refusals:
            raise refusals[0]
        return failed

    def _again(self, node: int, failed: list[Pending], unsent: Iterable[Pending] = ()) -> None:
        """Sends what is not acknowledged again, in order, to the present leaders; what waits to be sent, too.

        Leaders are looked up anew, so nothing may stay on its way to those of before: a newer batch would overtake it.
        """
        left = list(failed)
        for number in [node, *(other for other in self._flights if other != node)]:
            left += self._drain(number)
        left += unsent
        gathered, self._gathered = self._gathered, {}
        left += [batch for batches in gathered.values() for batch in batches]
        deadline = self._clock() + self._timeout_s
        pause = self._client.settings.backoff_ms / 1000
        # A batch that comes again while one before it on its partition is missing is out of order: one at a time.
        while left:
            batch = left[0]
            why: object = "the partition has no leader"
            try:
                self._look_up()
                leader = self._leaders.get(batch.place, -1)
                if leader >= 0:
                    self._started.add(batch.place)
                    self._add_partitions([batch.place])
                    connection = self._client.connection(leader)
                    answer = connection.receive(self._submit(connection, [batch]))
                    if not self._failed([batch], answer, in_order=True):
                        left.pop(0)
                        deadline = self._clock() + self._timeout_s
                        pause = self._client.settings.backoff_ms / 1000
                        continue
                    why = self._refusal
            except BrokerUnreachableError as error:
                why = error
            if self._clock() + pause > deadline:
                raise DeliveryError(
                    f"{_name(batch.place)}: {batch.records} records were not taken within delivery.timeout.ms "
                    f"({self._timeout_s:g} s): {why}"
                )
            self._on_wait(f"{_name(batch.place)}: {why}")
            self._sleep(pause)
            pause = min(2 * pause, self._client.settings.max_backoff_ms / 1000)

    def settle(self) -> None:
        """Counts what else was accepted of what is on its way, when a batch was refused. Nothing is sent again."""
        flights, self._flights = self._flights, {}
        self._gathered.clear()
        for node, waiting in flights.items():
            for flight in waiting:
                try:
                    answer = self._client.connection(node).receive(flight.ticket)
                except BrokerUnreachableError:
                    break
                for batch in flight.batches:
                    with contextlib.suppress(DeliveryError):
                        self._failed([batch], answer)

    def _drain(self, node: int) -> list[Pending]:
        """Batches of a broker's requests that were not accepted, or whose fate is unknown. DeliveryError, with what is behind
        still on its way, for `settle`.
        """
        left: list[Pending] = []
        broken = False
        flights = self._flights.get(node, deque())
        while flights:
            flight = flights.popleft()
            if not broken:
                try:
                    answer = self._client.connection(node).receive(flight.ticket)
                except BrokerUnreachableError:
                    broken = True
                else:
                    left += self._failed(flight.batches, answer)
                    continue
            left += flight.batches
        return left

    def _add_partitions(self, places: Iterable[Place]) -> None:
        new = sorted(set(places) - self._added)
        if self._transactional_id is None or not new:
            return
        self._added.update(new)
        if self._v2:
            return
        topics: dict[str, list[int]] = {}
        for name, number in new:
            topics.setdefault(name, []).append(number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self.producer.id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=parts) for name, parts in topics.items()
            ],
        )
        self._client.request_coordinator(
            self._transactional_id, CoordinatorKind.TRANSACTION, request, AddPartitionsToTxnResponse, up_to=3,
            error_of=_first_error,
        )  # fmt: skip


def _first_error(answer: Any) -> int:
    codes = [
        int(result.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
        if result.partition_error_code
    ]
    # The others were not tried because of the one that has a reason.
    return next((code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED), 0)


def _is_retriable(code: int) -> bool:
    return any(known == code and known.retriable for known in ErrorCode)


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
