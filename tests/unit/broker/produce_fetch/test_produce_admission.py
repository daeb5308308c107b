"""Which batches of a transaction are let in, and what the others are told, by version of Produce."""

from __future__ import annotations

from typing import Any

import pytest
from support.logs import batch
from support.transactions import Node
from tidelog.broker.produce_fetch import produce_admission as transactional_produce
from tidelog.broker.produce_fetch.produce_admission import admit, produce_code, producer_of
from tidelog.broker.transactions.states import Producer
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.exceptions import InvalidProducerEpochError

E = ErrorCode


def of(producer: Producer, *, transactional: bool = True) -> bytearray:
    return batch(
        "a", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0,
        is_transactional=transactional,
    )  # fmt: skip


def ask(node: Node, version: int, *batches: tuple[str, int, bytearray], name: str = "tx") -> Any:
    buffer = bytearray(b"head")
    topics: list[tuple[str, list[tuple[int, int, int]]]] = []
    for topic, index, data in batches:
        topics.append((topic, [(index, len(buffer), len(buffer) + len(data))]))
        buffer += data
    return admit(node.services, buffer, topics, version, name)


def codes(admission: Any) -> dict[tuple[str, int], ErrorCode]:
    return {place: code for place, (code, _) in admission.refused.items()}


def test_whose_batch_it_is() -> None:
    data = of(Producer(1 << 40, 7))
    assert producer_of(bytearray(b"xx") + data, 2, 2 + len(data)) == Producer(1 << 40, 7)
    assert producer_of(data, 0, 60) is None
    assert producer_of(of(Producer(1, 0), transactional=False), 0, len(data)) is None
    data[16] = 1
    assert producer_of(data, 0, len(data)) is None


def test_version_12_adds_the_partition_once(node: Node) -> None:
    me = node.init()
    admission = ask(node, 12, ("t", 0, of(me)), ("u", 0, of(me)), ("u", 9, of(me)))
    assert (admission.refused, admission.wait, set(admission.added)) == ({}, None, {("t", 0), ("u", 0)})
    assert node.transactions.describe("tx").partitions == {("t", 0), ("u", 0)}


def test_below_it_the_client_must_have_added_it(node: Node) -> None:
    me = node.init()
    node.add("tx", me, ("t", 0))
    for version, code in ((3, E.INVALID_TXN_STATE), (10, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)):
        assert codes(ask(node, version, ("t", 0, of(me)), ("u", 0, of(me)))) == {("u", 0): code}
    node.config.transaction_partition_verification_enable = False
    assert codes(ask(node, 11, ("u", 0, of(me)))) == {}
    assert ask(node, 12, ("u", 0, of(me))).added == [("u", 0)], "which is no verification"


def test_with_records_in_the_partition_nobody_is_asked(node: Node) -> None:
    me = node.init()
    node.produce("tx", me, "t", 0, "a")
    node.transactions.close()
    assert codes(ask(node, 12, ("t", 0, of(me)))) == {}
    assert codes(ask(node, 12, ("t", 1, of(me)))) == {("t", 1): E.NOT_ENOUGH_REPLICAS}


def test_a_batch_does_not_take_the_place_of_one_before_it_that_is_sent_again(node: Node) -> None:
    """Two are on their way; the first comes while the last transaction is still being written, the second when it has been."""
    me = node.init()
    later = batch(
        "b", producer_id=me.producer_id, producer_epoch=me.producer_epoch, base_sequence=1, is_transactional=True
    )
    assert codes(ask(node, 12, ("t", 0, later))) == {("t", 0): E.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert node.state() == "Ongoing", "which the coordinator was asked for first, as in Kafka"
    node.produce("tx", me, "t", 0, "a")
    assert codes(ask(node, 12, ("t", 0, later))) == {}
    assert codes(ask(node, 12, ("u", 0, later))) == {("u", 0): E.OUT_OF_ORDER_SEQUENCE_NUMBER}


def test_up_to_version_11_what_was_refused_tells_the_order(node: Node) -> None:
    """Such a producer may begin anywhere: the partition may have forgotten it."""
    me = node.init()
    first, later = (
        batch("b", producer_id=me.producer_id, producer_epoch=me.producer_epoch, base_sequence=n, is_transactional=True)
        for n in (5, 6)
    )
    node.add("tx", me, ("u", 0))
    assert codes(ask(node, 11, ("u", 0, later))) == {}
    assert codes(ask(node, 11, ("t", 0, first))) == {("t", 0): E.TRANSACTION_ABORTABLE}
    node.add("tx", me, ("t", 0))
    assert codes(ask(node, 11, ("t", 0, later))) == {("t", 0): E.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert codes(ask(node, 11, ("t", 0, first))) == {}
    assert codes(ask(node, 11, ("t", 0, later))) == {}, "also where the partition has forgotten the producer since"


def test_what_was_refused_is_forgotten_when_its_producer_has_written(node: Node) -> None:
    """Kafka clears its verification state with each transactional batch or marker of the producer. A producer whose state a
    partition has dropped would be out of order for ever, for the sake of a batch that was let in long ago."""
    me = node.init()
    assert codes(ask(node, 11, ("t", 0, of(me)))) == {("t", 0): E.TRANSACTION_ABORTABLE}
    partition = node.partitions.get("t", 0)
    assert partition is not None
    assert list(partition.refused_sequences) == [me]
    node.produce("tx", me, "t", 0, "a")
    node.end("tx", me, commit=True)
    ask(node, 11, ("t", 0, of(me)))
    assert not partition.refused_sequences


def test_what_was_refused_is_remembered_of_so_many_producers(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_produce, "MOST_REFUSED", 3)
    for number in range(10):
        ask(node, 11, ("t", 0, of(Producer(number, 0))), name="nobody")
    partition = node.partitions.get("t", 0)
    assert partition is not None
    assert list(partition.refused_sequences) == [Producer(number, 0) for number in (7, 8, 9)]


def test_what_the_log_refuses_for_good_does_not_wait_for_the_coordinator(node: Node) -> None:
    """A batch of an older epoch than the partition has seen, while the coordinator can only say that one is to come again."""
    old = node.init()
    node.produce("tx", old, "t", 0, "a")
    node.end("tx", old, commit=True)
    node.transactions.close()
    assert codes(ask(node, 12, ("t", 0, of(old)))) == {}
    with pytest.raises(InvalidProducerEpochError):
        node.produce("tx", old, "t", 0, "b", sequence=1)
    assert codes(ask(node, 12, ("t", 1, of(old)))) == {("t", 1): E.NOT_ENOUGH_REPLICAS}, "which has not seen it"


def test_batches_that_are_in_no_transaction_are_not_asked_about(node: Node) -> None:
    assert ask(node, 12, ("t", 0, of(Producer(1, 0), transactional=False))) == ({}, None, ())


def test_one_producer_a_request(node: Node) -> None:
    me = node.init()
    other = Producer(99, 0)
    assert codes(ask(node, 12, ("t", 0, of(me)), ("u", 0, of(other)))) == dict.fromkeys(
        [("t", 0), ("u", 0)], E.INVALID_PRODUCER_ID_MAPPING
    )


@pytest.mark.parametrize("version", [11, 12])
def test_one_producer_a_partition_that_is_named_twice(node: Node, version: int) -> None:
    me = node.init()
    node.add("tx", me, ("t", 0))
    mixed = {("t", 0): E.INVALID_PRODUCER_ID_MAPPING}
    for other in (Producer(99, 0), Producer(me.producer_id, 7)):
        assert codes(ask(node, version, ("t", 0, of(other)), ("t", 0, of(me)))) == mixed
        assert codes(ask(node, version, ("t", 0, of(me)), ("t", 0, of(other)))) == mixed
    assert codes(ask(node, version, ("t", 0, of(me)), ("t", 0, of(me)))) == {}


@pytest.mark.parametrize("version", [11, 12])
def test_strangers_are_refused(node: Node, version: int) -> None:
    me = node.init()
    stale, stranger = Producer(me.producer_id, 7), Producer(99, 0)
    assert codes(ask(node, version, ("t", 0, of(stale)))) == {("t", 0): E.INVALID_PRODUCER_EPOCH}
    assert codes(ask(node, version, ("t", 0, of(stranger)))) == {("t", 0): E.INVALID_PRODUCER_ID_MAPPING}
    assert codes(ask(node, version, ("t", 0, of(me)), name="nobody")) == {("t", 0): E.INVALID_PRODUCER_ID_MAPPING}


def test_version_12_waits_until_the_partition_is_durably_in_the_transaction() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    me = node.init()
    wait = ask(node, 12, ("t", 0, of(me))).wait
    assert not wait.done()
    assert ask(node, 12, ("t", 0, of(me))).wait is wait
    node.settle()
    assert wait.result() is None
    assert ask(node, 12, ("t", 0, of(me))).wait is None
    node.close()


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (E.COORDINATOR_LOAD_IN_PROGRESS, 12, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, 12, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_NOT_AVAILABLE, 3, E.NOT_ENOUGH_REPLICAS),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
        (E.CONCURRENT_TRANSACTIONS, 12, E.CONCURRENT_TRANSACTIONS),
        (E.PRODUCER_FENCED, 12, E.INVALID_PRODUCER_EPOCH),
        (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
        (E.INVALID_PRODUCER_ID_MAPPING, 3, E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_codes_that_clients_of_a_version_expect(code: ErrorCode, version: int, told: ErrorCode) -> None:
    assert produce_code(code, version) is told
