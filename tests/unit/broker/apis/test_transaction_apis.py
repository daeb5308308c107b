"""The APIs of transactions from wire to wire, in every version: what a request says reaches the coordinator, and what it
answers can be encoded, with the codes that clients of that version know. (One module for all: they share one wire_node, and
each handler is a translation.)"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from time import thread_time
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_logs import InlineExecutor
from support.mock_time import START_MS
from support.nodes import made
from support.permissions import EVERYTHING
from support.transactions import TOPIC_IDS, Node
from tidelog.broker.apis.add_offsets_to_txn import add_offsets_to_txn
from tidelog.broker.apis.add_partitions_to_txn import add_partitions_to_txn
from tidelog.broker.apis.describe_producers import describe_producers
from tidelog.broker.apis.describe_transactions import describe_transactions
from tidelog.broker.apis.end_txn import end_txn
from tidelog.broker.apis.init_producer_id import init_producer_id
from tidelog.broker.apis.list_transactions import list_transactions
from tidelog.broker.apis.txn_offset_commit import txn_offset_commit
from tidelog.broker.apis.write_txn_markers import write_txn_markers
from tidelog.broker.transactions.states import Producer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import add_partitions_to_txn as adding
from tidelog.protocol.messages import describe_producers as producers
from tidelog.protocol.messages import txn_offset_commit as committing
from tidelog.protocol.messages import write_txn_markers as markers
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.protocol.schema import decode, encode

E = ErrorCode


class WireNode(Node):
    """A node that is asked through the wire, by who may do what `rights` say."""

    rights: dict[str, Any] = EVERYTHING

    def ask(self, handler: Any, request: Any, response: type, version: int) -> Any:
        self.io_pool = InlineExecutor()
        decoded, _ = decode(type(request), version, encode(request, version))
        broker = SimpleNamespace(
            authorizer=None,
            transactions=made(self.transactions),
            groups=self.groups,
            partitions=self.partitions,
            config=self.config,
            time=self.time,
            loop=self.loop,
            io_pool=self.io_pool,
            producer_ids=SimpleNamespace(next=self._new_id),
        )
        answer = handler(decoded, SimpleNamespace(services=broker, api_version=version, **self.rights))
        if inspect.isawaitable(answer):
            answer = self.wait(answer)
        return decode(response, version, encode(answer, version))[0]  # type: ignore[type-var]

    def add_partitions(self, version: int, producer: Producer, *places: tuple[str, int], verify: bool = False) -> Any:
        topics = [adding.AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in places]
        if version < 4:
            request = adding.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="tx",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=topics,
            )
            answer = self.ask(add_partitions_to_txn, request, adding.AddPartitionsToTxnResponse, version)
            found = answer.results_by_topic_v3_and_below
        else:
            one = adding.AddPartitionsToTxnTransaction(
                transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch,
                verify_only=verify, topics=topics,
            )  # fmt: skip
            request = adding.AddPartitionsToTxnRequest(transactions=[one])
            answer = self.ask(add_partitions_to_txn, request, adding.AddPartitionsToTxnResponse, version)
            assert [result.transactional_id for result in answer.results_by_transaction] == ["tx"]
            found = answer.results_by_transaction[0].topic_results
        return [
            (topic.name, part.partition_index, part.partition_error_code)
            for topic in found
            for part in topic.results_by_partition
        ]

    def commit(self, version: int, producer: Producer, group: str = "g", **fields: Any) -> int:
        (code,) = self.commit_all(version, producer, [("t", 1)], group, **fields)
        return code

    def commit_all(
        self, version: int, producer: Producer, places: list[tuple[str, int]], group: str = "g", **fields: Any
    ) -> list[int]:
        """A topic for each place, by name or by id as the version has it; a code for each."""
        topics = [
            committing.TxnOffsetCommitRequestTopic(
                name=name if version < 6 else "",
                topic_id=TOPIC_IDS.get(name, b"?" * 16) if version >= 6 else bytes(16),
                partitions=[
                    committing.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=42, committed_metadata="m"
                    )
                ],
            )
            for name, index in places
        ]
        request = committing.TxnOffsetCommitRequest(
            transactional_id="tx", group_id=group, producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch, **fields, topics=topics,
        )  # fmt: skip
        answer = self.ask(txn_offset_commit, request, committing.TxnOffsetCommitResponse, version)
        asked = [(topic.name, topic.topic_id, topic.partitions[0].partition_index) for topic in topics]
        assert [(one.name, one.topic_id, one.partitions[0].partition_index) for one in answer.topics] == asked
        return [int(one.partitions[0].error_code) for one in answer.topics]

    def end_txn(self, version: int, producer: Producer, *, commit: bool = True) -> tuple[int, int, int]:
        request = EndTxnRequest(
            transactional_id="tx",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commit,
        )
        answer = self.ask(end_txn, request, EndTxnResponse, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.fixture
def wire_node() -> Iterator[WireNode]:
    wire_node = WireNode()
    yield wire_node
    wire_node.close()


def stale(producer: Producer) -> Producer:
    return Producer(producer.producer_id, producer.producer_epoch + 5)


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(wire_node: WireNode, version: int) -> None:
    def ask(**fields: Any) -> tuple[int, int, int]:
        request = InitProducerIdRequest(**{"transactional_id": "tx", "transaction_timeout_ms": 60_000, **fields})
        answer = wire_node.ask(init_producer_id, request, InitProducerIdResponse, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    assert ask() == (E.NONE, 1, 0)
    assert ask() == (E.NONE, 1, 1)
    assert ask(transactional_id="") == (E.INVALID_REQUEST, -1, -1)
    assert ask(transaction_timeout_ms=10_000_000) == (E.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    if version >= 3:
        assert ask(producer_id=1, producer_epoch=1) == (E.NONE, 1, 2)
        fenced = E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH
        assert ask(producer_id=1, producer_epoch=0) == (fenced, -1, -1)
        assert ask(producer_id=1, producer_epoch=-1) == (E.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", range(6))
def test_add_partitions(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()
    assert wire_node.add_partitions(version, me, ("t", 0), ("u", 0)) == [("t", 0, 0), ("u", 0, 0)]
    assert wire_node.transactions.describe("tx").client_version == (2 if version >= 4 else 0)
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert wire_node.add_partitions(version, stale(me), ("t", 0)) == [("t", 0, fenced)]
    assert wire_node.add_partitions(version, me, ("t", 0), ("gone", 0)) == [
        ("t", 0, E.OPERATION_NOT_ATTEMPTED),
        ("gone", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize(("version", "code"), [(4, E.INVALID_TXN_STATE), (5, E.TRANSACTION_ABORTABLE)])
def test_verify_partitions(wire_node: WireNode, version: int, code: ErrorCode) -> None:
    me = wire_node.init()
    wire_node.add("tx", me, ("t", 0))
    found = wire_node.add_partitions(version, me, ("t", 0), ("t", 1), verify=True)
    assert found == [("t", 0, E.NONE), ("t", 1, code)]
    assert wire_node.transactions.describe("tx").partitions == {("t", 0)}


@pytest.mark.parametrize("version", range(5))
def test_add_offsets(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()

    def ask(producer: Producer, group: str = "g") -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id="tx",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group,
        )
        return int(wire_node.ask(add_offsets_to_txn, request, AddOffsetsToTxnResponse, version).error_code)

    assert ask(me) == E.NONE
    assert wire_node.transactions.describe("tx").partitions == {wire_node.groups.partition_of("g")}
    assert ask(stale(me)) == (E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH)
    assert ask(me, "") == E.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(7))
def test_offsets_of_a_transaction(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()
    if version < 5:
        refusal = E.TRANSACTION_ABORTABLE if version == 4 else E.INVALID_TXN_STATE
        assert wire_node.commit(version, me) == refusal, "AddOffsetsToTxn comes first"
        wire_node.add("tx", me, wire_node.groups.partition_of("g"))
    assert wire_node.commit(version, me) == E.NONE
    assert wire_node.offset("g", partition=1, stable=False) == -1
    assert wire_node.commit(version, stale(me)) == E.INVALID_PRODUCER_EPOCH
    if version >= 3:
        stranger = {"generation_id_or_member_epoch": 3, "member_id": "m"}
        assert wire_node.commit(version, me, **stranger) == E.UNKNOWN_MEMBER_ID
    wire_node.end("tx", me, commit=True, version=2 if version >= 5 else 0)
    assert wire_node.offset("g", partition=1) == 42


@pytest.mark.parametrize("version", [4, 6])
def test_very_many_offsets_of_a_transaction_are_committed_in_pieces(
    wire_node: WireNode, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = wire_node.init()
    if version < 5:
        wire_node.add("tx", me, wire_node.groups.partition_of("g"))
    ends_at = 0
    turns = 0

    async def next_turn() -> None:
        nonlocal turns
        turns += 1
        if turns == ends_at:
            await wire_node.transactions.end("tx", me, True, 2 if version >= 5 else 0)

    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    places = [("t", number % 2) for number in range(1_000)]
    assert wire_node.commit_all(version, me, places) == [E.NONE] * 1_000
    ends_at = 2 * turns  # before the last piece
    codes = wire_node.commit_all(version, me, places)
    over = E.INVALID_PRODUCER_EPOCH if version >= 5 else E.TRANSACTION_ABORTABLE
    assert codes == [E.NONE] * 800 + [over] * 200
    assert wire_node.offset("g", partition=1) == 42


@pytest.mark.parametrize("version", range(3, 7))
def test_offsets_of_a_member_whose_group_is_not_there(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()
    wire_node.add("tx", me, wire_node.groups.partition_of("none"))
    code = wire_node.commit(version, me, "none", generation_id_or_member_epoch=0, member_id="m")
    assert code == (E.GROUP_ID_NOT_FOUND if version >= 6 else E.ILLEGAL_GENERATION)
    assert wire_node.groups.group_count == 0


@pytest.mark.parametrize("version", range(7))
def test_each_place_of_a_commit_has_its_own_answer(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()
    wire_node.add("tx", me, wire_node.groups.partition_of("g"))
    unknown = E.UNKNOWN_TOPIC_ID if version >= 6 else E.UNKNOWN_TOPIC_OR_PARTITION
    codes = wire_node.commit_all(version, me, [("t", 1), ("gone", 0), ("t", 7), ("u", 0), ("t", 1)])
    assert codes == [E.NONE, unknown, E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE, E.NONE]
    wire_node.end("tx", me, commit=True, version=2 if version >= 5 else 0)
    assert wire_node.offset("g", partition=1) == 42


def test_a_topic_that_may_not_be_read_is_refused_by_its_id_and_not_named(wire_node: WireNode) -> None:
    me = wire_node.init()
    asked = []

    def allows(operation: Any, kind: Any, name: str, *, quietly: bool = False) -> bool:
        asked.append(name)
        return name != "t"

    wire_node.rights = {**EVERYTHING, "allows": allows}
    codes = wire_node.commit_all(6, me, [("t", 1), ("gone", 0), ("u", 0)])
    assert codes == [E.TOPIC_AUTHORIZATION_FAILED, E.UNKNOWN_TOPIC_ID, E.NONE]
    assert asked == ["t", "u"], "of an id that nobody has, nobody is asked"


def test_a_commit_of_very_many_partitions_lets_others_in(wire_node: WireNode) -> None:
    me = wire_node.init()
    turns = []

    async def next_turn() -> None:
        turns.append(1)

    wire_node.rights = {**EVERYTHING, "next_turn": next_turn}
    codes = wire_node.commit_all(6, me, [("t", 0), ("gone", 0)] * 700)
    assert codes == [E.NONE, E.UNKNOWN_TOPIC_ID] * 700
    assert len(turns) >= 2


def test_offsets_of_partitions_that_are_not_there(wire_node: WireNode) -> None:
    me = wire_node.init()
    place = committing.TxnOffsetCommitRequestPartition(partition_index=9, committed_offset=42)
    topics = [committing.TxnOffsetCommitRequestTopic(name="t", partitions=[place])]
    request = committing.TxnOffsetCommitRequest(transactional_id="tx", group_id="g", producer_id=1, topics=topics)
    answer = wire_node.ask(txn_offset_commit, request, committing.TxnOffsetCommitResponse, 5)
    assert answer.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert wire_node.state() == "Empty"
    assert wire_node.commit(5, me, group="") == E.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(6))
def test_end(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()
    wire_node.produce("tx", me, "t", 0, "a")
    answer = wire_node.end_txn(version, me)
    assert answer == ((E.NONE, 1, 1) if version == 5 else (E.NONE, -1, -1))
    assert wire_node.committed("t") == [b"a"]
    assert wire_node.end_txn(version, stale(me))[0] == (E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH)
    assert wire_node.end_txn(version, me, commit=False)[0] == E.INVALID_TXN_STATE
    assert wire_node.end_txn(version, Producer(77, 0))[0] == E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [0, 1, 2])
def test_write_markers_ends_what_hangs(wire_node: WireNode, version: int) -> None:
    me = wire_node.init()
    wire_node.produce("tx", me, "t", 0, "a")
    wire_node.commit_offsets("tx", me, "g", ("t", 0, 3))
    place = wire_node.groups.partition_of("g")

    def ask(epoch: int, coordinator: int = 0) -> list[int]:
        marker = markers.WritableTxnMarker(
            producer_id=me.producer_id, producer_epoch=epoch, transaction_result=False, coordinator_epoch=coordinator,
            topics=[
                markers.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9]),
                markers.WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition]),
            ],
            transaction_version=2 if version == 2 else 0,
        )  # fmt: skip
        answer = wire_node.ask(
            write_txn_markers,
            markers.WriteTxnMarkersRequest(markers=[marker]),
            markers.WriteTxnMarkersResponse,
            version,
        )
        (one,) = answer.markers
        assert one.producer_id == me.producer_id
        return [part.error_code for topic in one.topics for part in topic.partitions]

    assert ask(-1)[0] == E.INVALID_PRODUCER_EPOCH
    if version == 2:
        assert ask(0)[0] == E.INVALID_PRODUCER_EPOCH, "in version 2 an end raises the epoch"
    assert ask(1 if version == 2 else 0, coordinator=3) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]
    assert (wire_node.log("t").last_stable_offset, wire_node.committed("t"), wire_node.offset("g")) == (2, [], -1)
    assert ask(5, coordinator=2)[0] == E.TRANSACTION_COORDINATOR_FENCED


def test_list(wire_node: WireNode) -> None:
    def ask(version: int = 2, **fields: Any) -> Any:
        answer = wire_node.ask(list_transactions, ListTransactionsRequest(**fields), ListTransactionsResponse, version)
        return answer.error_code, [
            (found.transactional_id, found.producer_id, found.transaction_state) for found in answer.transaction_states
        ]

    first, _ = wire_node.init("first"), wire_node.init("second")
    wire_node.produce("first", first, "t", 0, "a")
    wire_node.time.advance(seconds=3)
    one, two = ("first", 1, "Ongoing"), ("second", 2, "Empty")
    for version in range(3):
        assert ask(version) == (E.NONE, [one, two])
        assert ask(version, producer_id_filters=[2, 9]) == (E.NONE, [two])
    assert ask(1, duration_filter=2_000, state_filters=["Ongoing"]) == (E.NONE, [one])
    assert ask(1, duration_filter=4_000, state_filters=["Ongoing"]) == (E.NONE, [])
    assert ask(transactional_id_pattern="fi.*t") == (E.NONE, [one])
    assert ask(transactional_id_pattern="irst") == (E.NONE, []), "the whole id"
    assert ask(transactional_id_pattern="") == (E.NONE, [one, two])
    assert ask(transactional_id_pattern="(?=x)") == (E.INVALID_REGULAR_EXPRESSION, [])
    answer = wire_node.ask(
        list_transactions, ListTransactionsRequest(state_filters=["Nope", "Empty"]), ListTransactionsResponse, 0
    )
    assert (answer.unknown_state_filters, len(answer.transaction_states)) == (["Nope"], 1)
    wire_node.transactions.close()
    assert ask() == (E.COORDINATOR_NOT_AVAILABLE, [])


def test_no_pattern_holds_the_loop(wire_node: WireNode) -> None:
    """6,000 groups made one id of 249 characters take 25 seconds."""
    wire_node.init("a" * 249)

    def ask(pattern: str) -> Any:
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        return wire_node.ask(list_transactions, request, ListTransactionsResponse, 2)

    began = thread_time()
    assert len(ask("(.*?)" * 6000).transaction_states) == 1
    assert thread_time() - began < 1
    ways = "|".join(f".*a.{{{count}}}b" for count in range(100))
    assert ask(ways).error_code == E.INVALID_REGULAR_EXPRESSION, "a program that is large"


@pytest.mark.parametrize(
    ("pattern", "least"), [(None, 6), (".*", 6), ("|".join(f".*a.{{{n}}}b" for n in range(20)), 50)]
)
def test_others_have_their_turn_while_very_many_transactions_are_listed(
    wire_node: WireNode, monkeypatch: pytest.MonkeyPatch, pattern: str | None, least: int
) -> None:
    """A pattern that takes half a millisecond for an id took as many milliseconds as there are thousands of them, for anybody."""
    for number in range(600):
        wire_node.init("a" * 200 + f"{number}b")
    turns = 0

    async def next_turn() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    request = ListTransactionsRequest(transactional_id_pattern=pattern)
    answer = wire_node.ask(list_transactions, request, ListTransactionsResponse, 2)
    assert len(answer.transaction_states) == 600
    assert turns >= least


def test_describe_transactions(wire_node: WireNode) -> None:
    me = wire_node.init(timeout_ms=5_000)
    wire_node.time.advance(seconds=1)
    wire_node.add("tx", me, ("u", 0), ("t", 1), ("t", 0))
    request = DescribeTransactionsRequest(transactional_ids=["tx", "nobody", ""])
    answer = wire_node.ask(describe_transactions, request, DescribeTransactionsResponse, 0)
    known, nobody, empty = answer.transaction_states
    assert (known.error_code, known.transaction_state, known.transaction_timeout_ms) == (0, "Ongoing", 5_000)
    assert (known.producer_id, known.producer_epoch, known.transaction_start_time_ms) == (1, 0, START_MS + 1_000)
    assert known.topics == [TopicData(topic="t", partitions=[0, 1]), TopicData(topic="u", partitions=[0])]
    assert (nobody.transactional_id, nobody.error_code) == ("nobody", E.TRANSACTIONAL_ID_NOT_FOUND)
    assert empty.error_code == E.INVALID_REQUEST


def test_a_transaction_that_is_named_over_and_over_is_told_once(wire_node: WireNode) -> None:
    me = wire_node.init()
    wire_node.add("tx", me, ("u", 0), ("t", 1), ("t", 0))
    request = DescribeTransactionsRequest(transactional_ids=[*["tx"] * 1000, "nobody", "nobody"])
    answer = wire_node.ask(describe_transactions, request, DescribeTransactionsResponse, 0)
    assert [state.transactional_id for state in answer.transaction_states] == ["tx", "nobody"]


def test_describe_producers(wire_node: WireNode) -> None:
    me = wire_node.init()
    wire_node.produce("tx", me, "t", 1, "a", "b")
    request = producers.DescribeProducersRequest(topics=[producers.TopicRequest(name="t", partition_indexes=[1, 0, 7])])
    answer = wire_node.ask(describe_producers, request, producers.DescribeProducersResponse, 0)
    open_one, none, missing = answer.topics[0].partitions
    assert open_one.active_producers == [
        producers.ProducerState(
            producer_id=1, producer_epoch=0, last_sequence=1, last_timestamp=START_MS + 1, coordinator_epoch=-1,
            current_txn_start_offset=0,
        )
    ]  # fmt: skip
    assert (none.error_code, none.active_producers) == (0, [])
    assert missing.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    wire_node.end("tx", me, commit=True)
    answer = wire_node.ask(describe_producers, request, producers.DescribeProducersResponse, 0)
    (closed,) = answer.topics[0].partitions[0].active_producers
    assert (closed.producer_epoch, closed.current_txn_start_offset, closed.last_sequence) == (1, -1, -1)
    # Topics are a map by name in Kafka 4.4's classes, and still a list of which each is answered.
    twice = producers.DescribeProducersRequest(topics=[*request.topics, *request.topics])
    answer = wire_node.ask(describe_producers, twice, producers.DescribeProducersResponse, 0)
    assert [topic.name for topic in answer.topics] == ["t", "t"]
    assert answer.topics[0] == answer.topics[1]


def test_producers_of_partitions_that_are_named_over_and_over_do_not_fill_the_memory(
    wire_node: WireNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.broker.apis.describe_producers.MOST_PRODUCERS", 3, raising=False)
    me = wire_node.init()
    wire_node.produce("tx", me, "t", 1, "a")
    request = producers.DescribeProducersRequest(topics=[producers.TopicRequest(name="t", partition_indexes=[1] * 10)])
    answer = wire_node.ask(describe_producers, request, producers.DescribeProducersResponse, 0)
    rows = answer.topics[0].partitions
    assert [len(row.active_producers) for row in rows] == [1] * 3 + [0] * 7
    assert [row.error_code for row in rows] == [0] * 3 + [E.INVALID_REQUEST] * 7
