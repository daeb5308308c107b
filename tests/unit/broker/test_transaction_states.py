"""The tables of transactions, row by row: what Kafka's coordinator answers in each state, in both versions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tidelog.broker.group_offsets import TopicPartition
from tidelog.broker.transaction_states import (
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


def at(state: TransactionState, **changes: object) -> TransactionMetadata:
    partitions = frozenset({PLACE}) if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else frozenset()
    start = -1 if state is S.EMPTY else 500
    metadata = TransactionMetadata("tx", 7, 3, 60_000, state, 600, start, partitions, 7, client_version=2)
    return replace(metadata, **changes)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("state", "producer", "code"),
    [
        *((state, Producer(8, 3), E.INVALID_PRODUCER_ID_MAPPING) for state in (S.EMPTY, S.ONGOING, S.PREPARE_ABORT)),
        *((state, Producer(7, 2), E.PRODUCER_FENCED) for state in (S.EMPTY, S.ONGOING, S.PREPARE_ABORT)),
        (S.EMPTY, Producer(7, 4), E.PRODUCER_FENCED),
        (S.PREPARE_COMMIT, ME, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_ABORT, ME, E.CONCURRENT_TRANSACTIONS),
    ],
)
def test_who_may_not_add_or_write(state: TransactionState, producer: Producer, code: ErrorCode) -> None:
    assert add_partitions(at(state), producer, {PLACE}, NOW, 2) is code
    assert verify(at(state), producer, PLACE) is code


def test_only_what_is_in_a_transaction_under_way_is_verified() -> None:
    assert verify(at(S.ONGOING), ME, PLACE) is E.NONE
    assert verify(at(S.ONGOING), ME, TopicPartition("t", 1)) is E.TRANSACTION_ABORTABLE
    for state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        assert verify(at(state), ME, PLACE) is E.TRANSACTION_ABORTABLE


# -- EndTxn

COMMIT, ABORT = True, False
END_1 = {
    (S.EMPTY, COMMIT): E.INVALID_TXN_STATE,
    (S.EMPTY, ABORT): E.INVALID_TXN_STATE,
    (S.ONGOING, COMMIT): S.PREPARE_COMMIT,
    (S.ONGOING, ABORT): S.PREPARE_ABORT,
    (S.PREPARE_COMMIT, COMMIT): E.CONCURRENT_TRANSACTIONS,
    (S.PREPARE_COMMIT, ABORT): E.INVALID_TXN_STATE,
    (S.PREPARE_ABORT, COMMIT): E.INVALID_TXN_STATE,
    (S.PREPARE_ABORT, ABORT): E.CONCURRENT_TRANSACTIONS,
    (S.COMPLETE_COMMIT, COMMIT): E.NONE,
    (S.COMPLETE_COMMIT, ABORT): E.INVALID_TXN_STATE,
    (S.COMPLETE_ABORT, COMMIT): E.INVALID_TXN_STATE,
    (S.COMPLETE_ABORT, ABORT): E.NONE,
}


@pytest.mark.parametrize(("state", "commit"), END_1)
@pytest.mark.parametrize("version", [0, 1])
def test_end_in_version_1(state: TransactionState, commit: bool, version: int) -> None:
    outcome = end(at(state), ME, commit, NOW, version)
    expected = END_1[state, commit]
    if isinstance(expected, TransactionState):
        assert (moved(outcome).state, moved(outcome).producer_epoch, moved(outcome).partitions) == (
            expected,
            3,
            {PLACE},
        )
        assert moved(outcome).client_version == version
    else:
        assert outcome is expected


@pytest.mark.parametrize("epoch", [2, 4])
@pytest.mark.parametrize("state", sorted({state for state, _ in END_1}))
def test_version_1_knows_one_epoch_only(state: TransactionState, epoch: int) -> None:
    assert end(at(state), Producer(7, epoch), COMMIT, NOW, 0) is E.PRODUCER_FENCED
    assert end(at(state), Producer(8, 3), COMMIT, NOW, 0) is E.INVALID_PRODUCER_ID_MAPPING


#: (state, commit) → outcome for a request of this epoch, and for one of the epoch before, which has been seen.
END_2 = {
    (S.EMPTY, COMMIT): (E.INVALID_TXN_STATE, E.PRODUCER_FENCED),
    (S.EMPTY, ABORT): (S.PREPARE_ABORT, E.PRODUCER_FENCED),
    (S.ONGOING, COMMIT): (S.PREPARE_COMMIT, E.PRODUCER_FENCED),
    (S.ONGOING, ABORT): (S.PREPARE_ABORT, E.PRODUCER_FENCED),
    (S.PREPARE_COMMIT, COMMIT): (E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS),
    (S.PREPARE_COMMIT, ABORT): (E.PRODUCER_FENCED, E.INVALID_TXN_STATE),
    (S.PREPARE_ABORT, COMMIT): (E.PRODUCER_FENCED, E.INVALID_TXN_STATE),
    (S.PREPARE_ABORT, ABORT): (E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS),
    (S.COMPLETE_COMMIT, COMMIT): (E.INVALID_TXN_STATE, E.NONE),
    (S.COMPLETE_COMMIT, ABORT): (S.PREPARE_ABORT, E.INVALID_TXN_STATE),
    (S.COMPLETE_ABORT, COMMIT): (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    (S.COMPLETE_ABORT, ABORT): (S.PREPARE_ABORT, E.NONE),
}


@pytest.mark.parametrize(("state", "commit"), END_2)
def test_end_in_version_2(state: TransactionState, commit: bool) -> None:
    fresh, seen = END_2[state, commit]
    outcome = end(at(state), ME, commit, NOW, 2)
    if isinstance(fresh, TransactionState):
        ended = moved(outcome)
        assert (ended.state, ended.producer_epoch, ended.last_producer_epoch) == (fresh, 4, 3)
        assert (ended.client_version, ended.start_ms >= 0) == (2, True)
        assert next_producer(ended) == Producer(7, 4)
    else:
        assert outcome is fresh
    assert end(at(state), Producer(7, 2), commit, NOW, 2) is seen
    assert end(at(state), Producer(7, 1), commit, NOW, 2) is E.PRODUCER_FENCED
    assert end(at(state), Producer(7, 4), commit, NOW, 2) is E.PRODUCER_FENCED
    assert end(at(state), Producer(8, 3), commit, NOW, 2) is E.INVALID_PRODUCER_ID_MAPPING


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
