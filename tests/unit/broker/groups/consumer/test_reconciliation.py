"""One member's way to its target, step by step."""

from __future__ import annotations

import pytest
from tidelog.broker.groups.consumer.group import ConsumerMember
from tidelog.broker.groups.consumer.reconciliation import reconciled
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.protocol.errors import ErrorCode, ProtocolError

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def step(member, target, *, epoch=5, owners=None, subscribed=(T, U), reported=None, changed=False):
    return reconciled(
        member,
        epoch,
        {topic: frozenset(each) for topic, each in target.items()},
        lambda topic, partition: (owners or {}).get((topic, partition)),
        subscribed,
        None if reported is None else {topic: frozenset(each) for topic, each in reported.items()},
        subscription_changed=changed,
    )


def member(state=STABLE, epoch=4, **fields):
    return ConsumerMember(member_id="m", state=state, member_epoch=epoch, previous_member_epoch=epoch - 1, **fields)


def seen(it):
    return it.state, it.member_epoch, it.previous_member_epoch, it.assigned, it.pending


def test_there_already():
    here = member(epoch=5, assigned={T: {0: 2}})
    assert step(here, {T: {0, 1}}) is here


def test_it_gets_what_is_free_and_keeps_since_when_it_has_the_rest():
    it = step(member(assigned={T: {0: 2}}), {T: {0, 1}, U: {3}})
    assert seen(it) == (STABLE, 5, 4, {T: {0: 2, 1: 5}, U: {3: 5}}, {})


def test_it_waits_for_what_is_anothers():
    it = step(member(assigned={T: {0: 2}}), {T: {0, 1, 2}}, owners={(T, 1): "other"})
    assert seen(it) == (UNRELEASED, 5, 4, {T: {0: 2, 2: 5}}, {})
    assert step(it, {T: {0, 1, 2}}, owners={(T, 1): "other"}).assigned == it.assigned
    there = step(it, {T: {0, 1, 2}})
    assert (there.state, there.assigned) == (STABLE, {T: {0: 2, 2: 5, 1: 5}})


def test_it_gives_up_before_it_gets_anything():
    first = step(member(assigned={T: {0: 2, 1: 3}}), {T: {0, 2}}, reported={T: {0, 1}})
    assert seen(first) == (UNREVOKED, 4, 4, {T: {0: 2}}, {T: {1: 3}})
    # It says nothing, or still has it: nothing moves.
    assert step(first, {T: {0, 2}}) is first
    assert step(first, {T: {0, 2}}, reported={T: {1}}) is first
    then = step(first, {T: {0, 2}}, reported={T: {0}})
    assert seen(then) == (STABLE, 5, 4, {T: {0: 2, 2: 5}}, {})


def test_what_it_has_given_up_already_needs_no_step():
    it = step(member(assigned={T: {0: 2, 1: 3}}), {T: {0}}, reported={T: {0}})
    assert seen(it) == (STABLE, 5, 4, {T: {0: 2}}, {})


def test_it_may_have_back_what_it_was_giving_up():
    it = step(member(UNREVOKED, assigned={}, pending={T: {1: 3}}), {T: {1}}, owners={(T, 1): "m"}, reported={})
    assert seen(it) == (STABLE, 5, 4, {T: {1: 5}}, {})


def test_a_target_of_what_it_does_not_read_any_more():
    it = step(member(assigned={T: {0: 2}}), {T: {0}, U: {0}}, subscribed=(U,), reported={})
    assert seen(it) == (STABLE, 5, 4, {U: {0: 5}}, {})


def test_unsubscribing_gives_up_before_there_is_a_new_target():
    here = member(epoch=5, assigned={T: {0: 2}, U: {0: 2}})
    it = step(here, {T: {0}, U: {0}}, subscribed=(U,), changed=True)
    assert seen(it) == (UNREVOKED, 5, 5, {U: {0: 2}}, {T: {0: 2}})
    given_up = step(here, {T: {0}, U: {0}}, subscribed=(U,), changed=True, reported={U: {0}})
    assert seen(given_up) == (STABLE, 5, 5, {U: {0: 2}}, {})
    assert step(here, {T: {0}, U: {0}}, changed=True) is here
    more = step(it, {}, subscribed=(), changed=True)
    assert seen(more) == (UNREVOKED, 5, 5, {}, {T: {0: 2}, U: {0: 2}})


def test_a_state_that_only_a_later_kafka_knows():
    strange = member(UNKNOWN, assigned={T: {0: 2}})
    for reported in (None, {T: {0}}):
        with pytest.raises(ProtocolError) as caught:
            step(strange, {T: {0}}, reported=reported)
        assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(strange, {T: {0}}, reported={}).state is STABLE
