"""Transactions' states held to Kafka's: every row of the table that was made of Kafka 4.3.1 (tests/golden/transactions), and what
is not in it, the last epochs and time, by themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.transaction_table import ELSE, WHO, WRITTEN, read_table
from tidelog.broker.groups.store.offsets import TopicPartition
from tidelog.broker.transactions.states import (
    LAST_EPOCH,
    NEXT,
    Producer,
    TransactionMetadata,
    TransactionState,
    add_partitions,
    completed,
    created,
    end,
    fenced,
    init_producer_id,
    may_need_new_id,
    next_producer,
    verify,
)
from tidelog.protocol.errors import ErrorCode

S, E = TransactionState, ErrorCode
PLACE = TopicPartition("t", 0)
ME = Producer(7, 3)
NOW = 1_000
COMMIT, ABORT = True, False


def at(state: TransactionState, **changes: object) -> TransactionMetadata:
    partitions = frozenset({PLACE}) if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else frozenset()
    start = -1 if state is S.EMPTY else 500
    metadata = TransactionMetadata("tx", 7, 3, 60_000, state, 600, start, partitions, 7, client_version=2)
    return replace(metadata, **changes)  # type: ignore[arg-type]


# -- Kafka's table

GOLDEN = read_table()
PLACES = {WRITTEN: PLACE, ELSE: TopicPartition("t", ELSE)}
#: A situation of the table → its state here. Who is Empty and has gone on after an error has a last epoch; who is past an end in
#: version 2 has one too.
SITUATIONS = {
    "Empty": at(S.EMPTY),
    "Empty, continued": at(S.EMPTY, last_producer_epoch=2),
    **{
        f"{state.label}, version {version}": at(
            state, client_version=2 * (version - 1), last_producer_epoch=2 if version == 2 and state is not S.ONGOING else -1
        )
        for state in (
            S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT,
        )
        for version in (1, 2)
    },
    **{f"{state.label}, fenced": at(state, last_producer_epoch=2) for state in (S.PREPARE_ABORT, S.COMPLETE_ABORT)},
}  # fmt: skip
#: A request of the table → what is asked here. Other versions have other names for an error; that is the APIs'.
ASKED: dict[str, Callable[[TransactionMetadata, Producer], TransactionMetadata | ErrorCode]] = {
    "InitProducerId 5, new instance": lambda metadata, _: init_producer_id(metadata, 1, None, NOW, 2, 99),
    "InitProducerId 5": lambda metadata, who: init_producer_id(metadata, 1, who, NOW, 2, 99),
    "AddPartitionsToTxn 3": lambda metadata, who: add_partitions(metadata, who, {PLACE}, NOW, 0),
    "AddPartitionsToTxn 5, verify": lambda metadata, who: verify(metadata, who, PLACE),
    "AddPartitionsToTxn 5, verify another partition": lambda metadata, who: verify(metadata, who, PLACES[ELSE]),
    "AddOffsetsToTxn 4": lambda metadata, who: add_partitions(metadata, who, {PLACES[ELSE]}, NOW, 0),
    "EndTxn 4, commit": lambda metadata, who: end(metadata, who, COMMIT, NOW, 0),
    "EndTxn 4, abort": lambda metadata, who: end(metadata, who, ABORT, NOW, 0),
    "EndTxn 5, commit": lambda metadata, who: end(metadata, who, COMMIT, NOW, 2),
    "EndTxn 5, abort": lambda metadata, who: end(metadata, who, ABORT, NOW, 2),
}


def told(metadata: TransactionMetadata, request: str, who: Producer) -> str:
    """In the table's words."""
    outcome = ASKED[request](metadata, who)
    if isinstance(outcome, ErrorCode):
        return outcome.name
    if outcome.state is S.ONGOING and outcome.state is metadata.state:
        return "NONE"  # nothing that DescribeTransactions' state and epoch show
    # What fences is answered with CONCURRENT_TRANSACTIONS: the producer is to come again when that is done.
    code = "CONCURRENT_TRANSACTIONS" if outcome.is_prepared and request.startswith("Init") else "NONE"
    settled = completed(outcome, NOW) if outcome.is_prepared else outcome
    raised = settled.producer_epoch - metadata.producer_epoch
    if (settled.state, raised) == (metadata.state, 0):
        return code
    return f"{code}, {settled.state.label} {raised:+d}"


@pytest.mark.parametrize(("situation", "request_"), [key for key in GOLDEN if key[0] in SITUATIONS and key[1] in ASKED])
def test_each_request_in_each_state_is_answered_as_kafka_answers_it(situation: str, request_: str) -> None:
    metadata = SITUATIONS[situation]
    answers = {
        who: told(metadata, request_, Producer(7 + WHO[who][0], 3 + WHO[who][1])) for who in GOLDEN[situation, request_]
    }
    assert answers == GOLDEN[situation, request_]


def test_every_situation_of_the_table_has_its_state_here() -> None:
    assert {situation for situation, _ in GOLDEN} - {"unknown"} == SITUATIONS.keys()
    assert ASKED.keys() <= {request for _, request in GOLDEN}


def test_while_it_is_decided_and_not_all_written_nobody_is_told_that_it_is_fenced() -> None:
    """With version 2 the next epoch is the client's before the last marker is written, and where epochs run out the next id."""
    decided = moved(end(at(S.ONGOING, producer_epoch=LAST_EPOCH), Producer(7, LAST_EPOCH), COMMIT, NOW, 2, 99))
    for who in (next_producer(decided), Producer(7, LAST_EPOCH), Producer(7, 1)):
        assert end(decided, who, ABORT, NOW, 2) is E.CONCURRENT_TRANSACTIONS
        assert add_partitions(decided, who, {PLACE}, NOW, 2) is E.CONCURRENT_TRANSACTIONS
        assert init_producer_id(decided, 1, who, NOW, 2) is E.CONCURRENT_TRANSACTIONS


def moved(outcome: TransactionMetadata | ErrorCode) -> TransactionMetadata:
    assert isinstance(outcome, TransactionMetadata), outcome
    return outcome


# -- InitProducerId


def test_a_new_id_begins_with_epoch_0() -> None:
    made = moved(init_producer_id(created("tx", 9, 5_000, NOW), 5_000, None, NOW, 2, 9))
    assert (made.producer_id, made.producer_epoch, made.state, made.timeout_ms) == (9, 0, S.EMPTY, 5_000)
    assert (made.start_ms, made.previous_producer_id, made.partitions) == (-1, 9, frozenset())


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_new_instance_gets_the_next_epoch(state: TransactionState) -> None:
    made = moved(init_producer_id(at(state), 30_000, None, NOW, 2))
    assert (made.producer_id, made.producer_epoch, made.last_producer_epoch) == (7, 4, -1)
    assert (made.state, made.timeout_ms, made.last_update_ms, made.start_ms) == (S.EMPTY, 30_000, NOW, -1)


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_what_is_decided_is_completed_first(state: TransactionState) -> None:
    assert init_producer_id(at(state), 1, None, NOW, 2) is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(("version", "last"), [(0, -1), (1, -1), (2, 3)])
def test_a_transaction_under_way_is_aborted_with_a_higher_epoch(version: int, last: int) -> None:
    aborting = moved(init_producer_id(at(S.ONGOING), 1, None, NOW, version))
    assert (aborting.state, aborting.producer_epoch, aborting.last_producer_epoch) == (S.PREPARE_ABORT, 4, last)
    assert (aborting.partitions, aborting.timeout_ms, aborting.client_version) == ({PLACE}, 60_000, version)


@pytest.mark.parametrize(
    ("expected", "last", "outcome"),
    [
        (Producer(7, 3), -1, (7, 4, 3)),  # goes on after an error
        (Producer(7, 2), 2, (7, 3, 2)),  # the same request again
        (Producer(7, 2), -1, E.PRODUCER_FENCED),
        (Producer(7, 4), -1, E.PRODUCER_FENCED),
        (Producer(8, 3), -1, E.PRODUCER_FENCED),
        (Producer(6, LAST_EPOCH), -1, E.PRODUCER_FENCED),
    ],
)
def test_a_producer_that_goes_on(expected: Producer, last: int, outcome: tuple[int, int, int] | ErrorCode) -> None:
    answer = init_producer_id(at(S.EMPTY, last_producer_epoch=last), 1, expected, NOW, 2)
    if isinstance(answer, TransactionMetadata):
        assert (answer.producer_id, answer.producer_epoch, answer.last_producer_epoch) == outcome
    else:
        assert answer is outcome


@pytest.mark.parametrize(
    ("epoch", "last", "expected", "outcome"),
    [
        (LAST_EPOCH - 1, -1, None, (7, LAST_EPOCH, -1)),
        (LAST_EPOCH, -1, None, (99, 0, -1)),
        (LAST_EPOCH, -1, Producer(7, LAST_EPOCH), (99, 0, LAST_EPOCH)),
        (LAST_EPOCH, 5, Producer(7, 5), (7, LAST_EPOCH, 5)),
        (LAST_EPOCH + 1, LAST_EPOCH, Producer(7, LAST_EPOCH), (99, 0, LAST_EPOCH + 1)),
        (LAST_EPOCH + 1, LAST_EPOCH, None, (99, 0, -1)),
    ],
)
def test_epochs_run_out(epoch: int, last: int, expected: Producer | None, outcome: tuple[int, int, int]) -> None:
    metadata = at(S.COMPLETE_ABORT, producer_epoch=epoch, last_producer_epoch=last)
    assert may_need_new_id(metadata) is (epoch >= LAST_EPOCH)
    made = moved(init_producer_id(metadata, 1, expected, NOW, 2, 99))
    assert (made.producer_id, made.producer_epoch, made.last_producer_epoch) == outcome
    assert made.previous_producer_id == 7


def test_the_answer_with_the_new_id_got_lost() -> None:
    metadata = at(S.EMPTY, producer_id=99, producer_epoch=0, last_producer_epoch=LAST_EPOCH, previous_producer_id=7)
    made = moved(init_producer_id(metadata, 1, Producer(7, LAST_EPOCH), NOW, 2))
    assert (made.producer_id, made.producer_epoch) == (99, 0)


# -- partitions


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_first_partitions_begin_a_transaction(state: TransactionState) -> None:
    begun = moved(add_partitions(at(state), ME, {PLACE}, NOW, 2))
    assert (begun.state, begun.start_ms, begun.partitions, begun.client_version) == (S.ONGOING, NOW, {PLACE}, 2)
    assert begun.timeout_ms == 60_000


def test_more_partitions_keep_its_start() -> None:
    more = moved(add_partitions(at(S.ONGOING), ME, {TopicPartition("u", 1)}, NOW, 2))
    assert (more.start_ms, more.partitions) == (500, {PLACE, TopicPartition("u", 1)})
    assert add_partitions(at(S.ONGOING), ME, {PLACE}, NOW, 2) is E.NONE


def test_only_what_is_in_a_transaction_under_way_is_verified() -> None:
    assert verify(at(S.ONGOING), ME, PLACE) is E.NONE
    assert verify(at(S.ONGOING), ME, TopicPartition("t", 1)) is E.TRANSACTION_ABORTABLE
    for state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        assert verify(at(state), ME, PLACE) is E.TRANSACTION_ABORTABLE


# -- EndTxn


@pytest.mark.parametrize("version", [0, 1])
def test_version_1_keeps_the_epoch(version: int) -> None:
    for is_commit, state in ((COMMIT, S.PREPARE_COMMIT), (ABORT, S.PREPARE_ABORT)):
        ended = moved(end(at(S.ONGOING), ME, is_commit, NOW, version))
        assert (ended.state, ended.producer_epoch, ended.partitions) == (state, 3, {PLACE})
        assert ended.client_version == version


@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_version_2_raises_it(state: TransactionState) -> None:
    ended = moved(end(at(state), ME, ABORT, NOW, 2))
    assert (ended.state, ended.producer_epoch, ended.last_producer_epoch) == (S.PREPARE_ABORT, 4, 3)
    assert (ended.client_version, ended.start_ms >= 0) == (2, True)
    assert next_producer(ended) == Producer(7, 4)


def test_the_last_epoch_goes_over_into_a_new_id() -> None:
    ongoing = at(S.ONGOING, producer_epoch=LAST_EPOCH)
    assert ongoing.needs_new_id_to_end
    prepared = moved(end(ongoing, Producer(7, LAST_EPOCH), COMMIT, NOW, 2, 99))
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, LAST_EPOCH + 1, 99)
    assert next_producer(prepared) == Producer(99, 0)
    assert end(prepared, Producer(7, LAST_EPOCH), COMMIT, NOW, 2) is E.CONCURRENT_TRANSACTIONS
    done = completed(prepared, NOW)
    assert (done.producer_id, done.producer_epoch, done.next_producer_id, done.previous_producer_id) == (99, 0, -1, 7)
    assert end(done, Producer(7, LAST_EPOCH), COMMIT, NOW, 2) is E.NONE
    assert end(done, Producer(7, LAST_EPOCH), ABORT, NOW, 2) is E.INVALID_TXN_STATE
    assert end(done, Producer(7, 5), COMMIT, NOW, 2) is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("state", "after"), [(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)]
)
def test_completed(state: TransactionState, after: TransactionState) -> None:
    done = completed(at(state), NOW)
    assert (done.state, done.partitions, done.start_ms, done.producer_epoch) == (after, frozenset(), 500, 3)


def test_a_client_of_version_1_that_the_server_has_fenced_in_version_2() -> None:
    aborted = completed(fenced(at(S.ONGOING, client_version=0), NOW, 2), NOW)
    assert end(aborted, ME, COMMIT, NOW, 0) is E.PRODUCER_FENCED
    assert add_partitions(aborted, ME, {PLACE}, NOW, 0) is E.PRODUCER_FENCED


# -- time


@pytest.mark.parametrize("state", list(NEXT))
def test_what_time_does(state: TransactionState) -> None:
    metadata = at(state, last_update_ms=600, start_ms=500)
    assert metadata.is_overdue(60_501) is (state is S.ONGOING)
    assert not metadata.is_overdue(60_500)
    assert metadata.expires(1_600, 1_000) is (state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT))
    assert not metadata.expires(1_599, 1_000)


def test_every_transition_is_in_the_table() -> None:
    """Each function in each state, with whatever a client may say: what comes out is a state that may follow."""
    producers = [Producer(i, e) for i in (6, 7) for e in (2, 3, 4)]
    for state, version, producer in itertools.product(NEXT, (0, 2), producers):
        if not NEXT[state]:
            continue
        metadata = at(state)
        outcomes = [
            init_producer_id(metadata, 1, None, NOW, version),
            init_producer_id(metadata, 1, producer, NOW, version),
            add_partitions(metadata, producer, {TopicPartition("v", 1)}, NOW, version),
            end(metadata, producer, COMMIT, NOW, version),
            end(metadata, producer, ABORT, NOW, version),
        ]
        if metadata.is_prepared:
            outcomes.append(completed(metadata, NOW))
        for outcome in outcomes:
            if isinstance(outcome, TransactionMetadata):
                assert outcome.state in NEXT[state]
                assert outcome.producer_epoch >= metadata.producer_epoch
