"""Every state of a transaction × every request about it × every epoch: what a broker answers, as a table.

    table = Prober(address, hold).table()        # {(situation, request): {who: answer}}

Each cell has a transactional id of its own: it is brought into the situation, asked once, and looked at. An answer is Kafka's
name of the error, and what DescribeTransactions tells afterwards where that has changed: `NONE, Ongoing 2 → ...`.

Epochs are told from the coordinator's (what DescribeTransactions has before the question): `older` is two below it,
`last` one below (what a client holds whose EndTxn of version 2 is being done, or was and its answer got lost), `current` is
that one, `next` one above. `stranger` has the current epoch and another producer id.

The states before the last marker is written are short. `hold` makes them long: until it is let go, partition HELD of the topic
takes no marker. In Kafka that is a partition of a second broker, which is stopped (SIGSTOP) meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from support.kafka_versions import NEWEST
from support.logs import batch
from support.patience import PATIENCE_S, until
from support.two_kafkas import FIRST, SECOND, two_kafkas
from support.wire_client import WireClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "transactions" / "kafka.tsv"
TOPIC, GROUP = "told", "group-told"
WRITTEN, HELD, ELSE = 0, 1, 2
"""Partitions: what is in the transaction, what is in it and takes no marker while it is held, and what is not in it."""
FIRST_EPOCH = 2
TIMEOUT_MS = 900_000
AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
NOTE = f"Apache Kafka {NEWEST}, asked by make.py in this folder; README.md says how. Do not edit."
OTHER_ID = 1_000_000
NOBODYS_ID = 2 * OTHER_ID
"""Further than producer ids get here, so that nobody has this one, or one that is OTHER_ID above one's own."""

WHO: dict[str, tuple[int, int]] = {
    "older": (0, -2),
    "last": (0, -1),
    "current": (0, 0),
    "next": (0, 1),
    "stranger": (OTHER_ID, 0),
}
"""→ (added to the producer id, added to the epoch)."""

Key = tuple[str, str]
Table = dict[Key, dict[str, str]]
Hold = Callable[[], AbstractContextManager[None]]


class Seen(NamedTuple):
    """What DescribeTransactions tells of a transactional id."""

    state: str
    producer_id: int
    epoch: int


class Told(NamedTuple):
    """The producer that asks, and the transactional id that it asks about."""

    transactional_id: str
    producer_id: int
    epoch: int


class Situation(NamedTuple):
    """How a transactional id is brought into a state. `steps` are methods of `Prober`; `held`: partition HELD is in it."""

    steps: tuple[str, ...]
    held: bool = False


_INIT = ("init", "init", "init")
_ONGOING_1 = (*_INIT, "add", "produce_11")
_ONGOING_2 = (*_INIT, "produce_12")
SITUATIONS: dict[str, Situation] = {
    "unknown": Situation(()),
    "Empty": Situation(_INIT),
    "Empty, continued": Situation(("init", "init", "init_again")),
    "Ongoing, version 1": Situation(_ONGOING_1),
    "Ongoing, version 2": Situation(_ONGOING_2),
    "CompleteCommit, version 1": Situation((*_ONGOING_1, "commit_4", "settle")),
    "CompleteCommit, version 2": Situation((*_ONGOING_2, "commit_5", "settle")),
    "CompleteAbort, version 1": Situation((*_ONGOING_1, "abort_4", "settle")),
    "CompleteAbort, version 2": Situation((*_ONGOING_2, "abort_5", "settle")),
    "CompleteAbort, fenced": Situation((*_ONGOING_1, "fence_held", "settle")),
    "PrepareCommit, version 1": Situation((*_ONGOING_1, "commit_4", "ended"), held=True),
    "PrepareCommit, version 2": Situation((*_ONGOING_1, "commit_5", "ended"), held=True),
    "PrepareAbort, version 1": Situation((*_ONGOING_1, "abort_4", "ended"), held=True),
    "PrepareAbort, version 2": Situation((*_ONGOING_1, "abort_5", "ended"), held=True),
    "PrepareAbort, fenced": Situation((*_ONGOING_1, "fence", "ended"), held=True),
}


class Prober:
    """One connection to one broker, which has one partition of each internal topic."""

    def __init__(self, address: tuple[str, int], hold: Hold) -> None:
        self._client = WireClient(address, timeout_s=PATIENCE_S)
        self._hold = hold
        self._count = 0
        self._produced: int | None = None  # the epoch of the last batch in WRITTEN, of this cell's transactional id

    def close(self) -> None:
        self._client.socket.close()

    # -- the table

    def prepare(self, assignment: Mapping[int, int] | None = None) -> None:
        """Makes the topics. `assignment`: partition → broker, where there is more than one."""
        for kind, key in ((0, GROUP), (1, "any")):
            self._until(lambda kind=kind, key=key: self._find(kind, key))  # type: ignore[misc]
        wanted = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)
        if assignment is not None:
            wanted = CreatableTopic(
                name=TOPIC,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=[broker])
                    for index, broker in assignment.items()
                ],
            )
        answer = self._client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 5, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer
        self._init(Told("warm", -1, -1))  # the coordinator is there from now on

    def table(self) -> Table:
        found: Table = {}
        for name, situation in SITUATIONS.items():
            if not situation.held:
                found |= self.rows(name)
        with self._hold():
            for name, situation in SITUATIONS.items():
                if situation.held:
                    found |= self.rows(name)
        return found

    def rows(self, name: str) -> Table:
        """Those of one situation."""
        found: Table = {}
        for request, ask in REQUESTS.items():
            who = {"current": WHO["current"]} if request in WITHOUT_PRODUCER else WHO
            found[name, request] = {label: self._cell(name, ask, added) for label, added in who.items()}
        return found

    def _cell(self, name: str, ask: Ask, added: tuple[int, int]) -> str:
        told = self._brought(SITUATIONS[name])
        before = self._seen(told.transactional_id)
        if before is not None:
            told = told._replace(producer_id=before.producer_id, epoch=before.epoch)
        code = ask(self, told._replace(producer_id=told.producer_id + added[0], epoch=told.epoch + added[1]))
        if not SITUATIONS[name].held:
            self._settled(told.transactional_id)
        after = self._seen(told.transactional_id)
        if after == before:
            return code.name
        if after is None or before is None:
            return f"{code.name}, {after and after.state}"
        new_id = ", new id" if after.producer_id != before.producer_id else ""
        return f"{code.name}, {after.state} {after.epoch - before.epoch:+d}{new_id}"

    # -- situations

    def _brought(self, situation: Situation) -> Told:
        self._count += 1
        self._produced = None
        told = Told(f"told-{self._count}", NOBODYS_ID, FIRST_EPOCH)
        for step in situation.steps:
            told = getattr(self, f"_{step}")(told) or told
        return told

    def _init(self, told: Told) -> Told:
        def ask() -> Any:
            return self._init_answer(told._replace(producer_id=-1, epoch=-1))

        answer = self._until(ask)
        return told._replace(producer_id=answer.producer_id, epoch=answer.producer_epoch)

    def _init_again(self, told: Told) -> Told:
        answer = self._until(lambda: self._init_answer(told))
        return told._replace(epoch=answer.producer_epoch)

    def _add(self, told: Told) -> None:
        self._until_none(lambda: ask_add(3, WRITTEN, HELD)(self, told))

    def _produce_11(self, told: Told) -> None:
        self._until_none(lambda: ask_produce(11, WRITTEN)(self, told))

    def _produce_12(self, told: Told) -> None:
        self._until_none(lambda: ask_produce(12, WRITTEN)(self, told))

    def _commit_4(self, told: Told) -> None:
        assert ask_end(4, is_commit=True)(self, told) is ErrorCode.NONE

    def _commit_5(self, told: Told) -> None:
        assert ask_end(5, is_commit=True)(self, told) is ErrorCode.NONE

    def _abort_4(self, told: Told) -> None:
        assert ask_end(4, is_commit=False)(self, told) is ErrorCode.NONE

    def _abort_5(self, told: Told) -> None:
        assert ask_end(5, is_commit=False)(self, told) is ErrorCode.NONE

    def _fence(self, told: Told) -> None:
        answer = self._init_answer(told._replace(producer_id=-1, epoch=-1))
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    def _fence_held(self, told: Told) -> None:
        with self._hold():  # who has no other broker to wait for may be done before the answer
            self._fence(told)

    def _settle(self, told: Told) -> None:
        self._settled(told.transactional_id)

    def _ended(self, told: Told) -> None:
        """The marker of WRITTEN is written, that of HELD is not."""
        wanted = TopicRequest(name=TOPIC, partition_indexes=[WRITTEN])

        def is_marked() -> bool:
            answer = self._client.ask(DescribeProducersRequest(topics=[wanted]), 0, DescribeProducersResponse)
            known = answer.topics[0].partitions[0].active_producers
            return [one.current_txn_start_offset for one in known if one.producer_id == told.producer_id] == [-1]

        until(is_marked, "the marker")
        seen = self._seen(told.transactional_id)
        assert seen is not None
        assert seen.state.startswith("Prepare"), seen

    def _settled(self, transactional_id: str) -> None:
        """Nothing is being done for the id any more."""

        def is_settled() -> bool:
            seen = self._seen(transactional_id)
            return seen is None or not seen.state.startswith("Prepare")

        until(is_settled, f"the end of {transactional_id}'s transaction")

    # -- single requests

    def ask(self, request: Any, version: int, response: Any) -> Any:
        return self._client.ask(request, version, response)

    def _init_answer(self, told: Told, version: int = 5) -> Any:
        request = InitProducerIdRequest(
            transactional_id=told.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=told.producer_id,
            producer_epoch=told.epoch,
        )
        return self.ask(request, version, InitProducerIdResponse)

    def init(self, told: Told, version: int) -> ErrorCode:
        return ErrorCode(self._init_answer(told, version).error_code)

    def produce(self, told: Told, version: int, partition: int) -> ErrorCode:
        goes_on = partition == WRITTEN and told.epoch == self._produced
        data = batch(
            "value", timestamp=int(time.time() * 1000), producer_id=told.producer_id, producer_epoch=told.epoch,
            base_sequence=int(goes_on), is_transactional=True,
        )  # fmt: skip
        of = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=bytes(data))])
        request = ProduceRequest(transactional_id=told.transactional_id, acks=-1, timeout_ms=5000, topic_data=[of])
        answer = self.ask(request, version, ProduceResponse)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE and partition == WRITTEN:
            self._produced = told.epoch
        return code

    def _find(self, kind: int, key: str) -> Any:
        return self.ask(FindCoordinatorRequest(key=key, key_type=kind), 3, FindCoordinatorResponse)

    def _seen(self, transactional_id: str) -> Seen | None:
        answer = self.ask(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0, DescribeTransactionsResponse
        )
        (one,) = answer.transaction_states
        if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        assert one.error_code == 0, one
        return Seen(one.transaction_state, one.producer_id, one.producer_epoch)

    def _until(self, ask: Callable[[], Any]) -> Any:
        """The first answer that does not ask to come again."""

        def answer() -> Any:
            found = ask()
            return None if ErrorCode(found.error_code) in AGAIN else found

        found = until(answer, "an answer")
        assert found.error_code == 0, found
        return found

    def _until_none(self, ask: Callable[[], ErrorCode]) -> None:
        codes: list[ErrorCode] = []

        def is_answered() -> bool:
            codes.append(ask())
            return codes[-1] not in AGAIN

        until(is_answered, "an answer")
        assert codes[-1] is ErrorCode.NONE, codes[-1]


Ask = Callable[[Prober, Told], ErrorCode]


def ask_init(version: int, *, known: bool) -> Ask:
    def ask(prober: Prober, told: Told) -> ErrorCode:
        return prober.init(told if known else told._replace(producer_id=-1, epoch=-1), version)

    return ask


def ask_add(version: int, *partitions: int) -> Ask:
    def ask(prober: Prober, told: Told) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=told.transactional_id,
            v3_and_below_producer_id=told.producer_id,
            v3_and_below_producer_epoch=told.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
        )
        answer = prober.ask(request, version, AddPartitionsToTxnResponse)
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    return ask


def ask_verify(partition: int) -> Ask:
    """Verification of a partition, as one broker asks another."""

    def ask(prober: Prober, told: Told) -> ErrorCode:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=told.transactional_id,
            producer_id=told.producer_id,
            producer_epoch=told.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
        )
        answer = prober.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 5, AddPartitionsToTxnResponse)
        assert answer.error_code == 0
        (topic,) = answer.results_by_transaction[0].topic_results
        return ErrorCode(topic.results_by_partition[0].partition_error_code)

    return ask


def ask_offsets(version: int) -> Ask:
    def ask(prober: Prober, told: Told) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=told.transactional_id,
            producer_id=told.producer_id,
            producer_epoch=told.epoch,
            group_id=GROUP,
        )
        return ErrorCode(prober.ask(request, version, AddOffsetsToTxnResponse).error_code)

    return ask


def ask_end(version: int, *, is_commit: bool) -> Ask:
    def ask(prober: Prober, told: Told) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=told.transactional_id,
            producer_id=told.producer_id,
            producer_epoch=told.epoch,
            committed=is_commit,
        )
        return ErrorCode(prober.ask(request, version, EndTxnResponse).error_code)

    return ask


def ask_commit_offsets(version: int) -> Ask:
    def ask(prober: Prober, told: Told) -> ErrorCode:
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=told.transactional_id,
            group_id=GROUP,
            producer_id=told.producer_id,
            producer_epoch=told.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])],
        )
        answer = prober.ask(request, version, TxnOffsetCommitResponse)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    return ask


def ask_produce(version: int, partition: int) -> Ask:
    return lambda prober, told: prober.produce(told, version, partition)


def ask_marker(version: int) -> Ask:
    """Writing of a marker, as by `Admin.abortTransaction` or a coordinator."""

    def ask(prober: Prober, told: Told) -> ErrorCode:
        marker = WritableTxnMarker(
            producer_id=told.producer_id,
            producer_epoch=told.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[WRITTEN])],
            coordinator_epoch=0,
            transaction_version=2 if version >= 2 else 0,
        )
        answer = prober.ask(WriteTxnMarkersRequest(markers=[marker]), version, WriteTxnMarkersResponse)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    return ask


WITHOUT_PRODUCER = {"InitProducerId 5, new instance"}
REQUESTS: dict[str, Ask] = {
    "InitProducerId 5, new instance": ask_init(5, known=False),
    "InitProducerId 5": ask_init(5, known=True),
    "InitProducerId 3": ask_init(3, known=True),
    "AddPartitionsToTxn 3": ask_add(3, WRITTEN),
    "AddPartitionsToTxn 1": ask_add(1, WRITTEN),
    "AddPartitionsToTxn 3, another partition": ask_add(3, ELSE),
    "AddPartitionsToTxn 5, verify": ask_verify(WRITTEN),
    "AddPartitionsToTxn 5, verify another partition": ask_verify(ELSE),
    "AddOffsetsToTxn 4": ask_offsets(4),
    "AddOffsetsToTxn 1": ask_offsets(1),
    "EndTxn 1, commit": ask_end(1, is_commit=True),
    "EndTxn 1, abort": ask_end(1, is_commit=False),
    "EndTxn 4, commit": ask_end(4, is_commit=True),
    "EndTxn 4, abort": ask_end(4, is_commit=False),
    "EndTxn 5, commit": ask_end(5, is_commit=True),
    "EndTxn 5, abort": ask_end(5, is_commit=False),
    "TxnOffsetCommit 3": ask_commit_offsets(3),
    "TxnOffsetCommit 4": ask_commit_offsets(4),
    "TxnOffsetCommit 5": ask_commit_offsets(5),
    "Produce 10": ask_produce(10, WRITTEN),
    "Produce 11": ask_produce(11, WRITTEN),
    "Produce 11, another partition": ask_produce(11, ELSE),
    "Produce 12": ask_produce(12, WRITTEN),
    "Produce 12, another partition": ask_produce(12, ELSE),
    "WriteTxnMarkers 1, abort": ask_marker(1),
    "WriteTxnMarkers 2, abort": ask_marker(2),
}


def kafkas_table(folder: Path) -> Table:
    """The table of Apache Kafka, on two nodes."""
    with two_kafkas(folder) as kafkas:
        prober = Prober(kafkas.address, kafkas.hold)
        try:
            prober.prepare({WRITTEN: FIRST, HELD: SECOND, ELSE: FIRST})
            return prober.table()
        finally:
            prober.close()


# -- on disk: a row for each situation and request, a column for each producer


def read_table(path: Path = GOLDEN) -> Table:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    names = lines[0].split("\t")[2:]
    found: Table = {}
    for line in lines[1:]:
        situation, request, *cells = line.split("\t")
        found[situation, request] = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
    return found


def table_text(table: Table, notes: Sequence[str] = ()) -> str:
    lines = [*(f"# {note}" for note in notes), "\t".join(("situation", "request", *WHO))]
    for (situation, request), cells in table.items():
        lines.append("\t".join((situation, request, *(cells.get(who, "") for who in WHO))))
    return "\n".join(lines) + "\n"


def differences(found: Table, golden: Table) -> list[str]:
    """One line for each cell that differs."""
    return [
        f"{situation} | {request} | {who}: {cells.get(who)}, Kafka: {golden[situation, request].get(who)}"
        for (situation, request), cells in found.items()
        for who in golden[situation, request]
        if cells.get(who) != golden[situation, request][who]
    ]
