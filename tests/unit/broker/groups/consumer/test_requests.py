"""What can be refused without looking at the group."""

from __future__ import annotations

import pytest
from tidelog.broker.groups.consumer.heartbeat import HeartbeatRequest, check
from tidelog.protocol.errors import ErrorCode, ProtocolError

JOIN = {"rebalance_timeout_ms": 1, "subscribed_topics": frozenset("t"), "owned": {}}


def request(epoch=0, **fields):
    return HeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": epoch, **fields})


@pytest.mark.parametrize(
    "good",
    [
        request(**JOIN),
        request(**{**JOIN, "subscribed_topics": None, "expression": ""}),
        request(**JOIN, server_assignor="range"),
        request(5),
        request(-1),
        request(-2, instance_id="i"),
        request(**{**JOIN, "member_id": "", "chooses_id": False}),
    ],
)
def test_good(good):
    check(good, ("uniform", "range"))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (request(**{**JOIN, "member_id": ""}), "MemberId can't be empty."),
        (request(1, member_id=" ", chooses_id=False), "MemberId can't be empty."),
        (request(-1, member_id="", chooses_id=False), "MemberId can't be empty."),
        (request(**{**JOIN, "group_id": ""}), "GroupId can't be empty."),
        (request(**JOIN, instance_id=""), "InstanceId can't be empty."),
        (request(**JOIN, rack_id=" "), "RackId can't be empty."),
        (request(**{**JOIN, "rebalance_timeout_ms": -1}), "RebalanceTimeoutMs must be provided in first request."),
        (request(**{**JOIN, "owned": None}), "TopicPartitions must be empty when (re-)joining."),
        (request(**{**JOIN, "owned": {b"t" * 16: frozenset({0})}}), "TopicPartitions must be empty when (re-)joining."),
        (
            request(**{**JOIN, "subscribed_topics": None}),
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (request(-2), "InstanceId can't be null."),
        (request(-3), "MemberEpoch is invalid."),
    ],
)
def test_invalid(bad, why):
    with pytest.raises(ProtocolError) as caught:
        check(bad, ("uniform", "range"))
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, why)


def test_an_assignor_that_there_is_not():
    with pytest.raises(ProtocolError) as caught:
        check(request(**JOIN, server_assignor="mine"), ("uniform", "range"))
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in caught.value.message


def test_a_full_request():
    assert request(3, **JOIN).is_full
    assert not request(3, rebalance_timeout_ms=1, owned={}).is_full
