from __future__ import annotations

import pytest
from tidelog.broker.share.sessions import MAX_EPOCH, MemberKey, ShareSessions, TopicIdPartition
from tidelog.protocol.errors import ErrorCode, ProtocolError

ANN, BOB = MemberKey("g", "ann"), MemberKey("g", "bob")
A, B, C = (TopicIdPartition(b"t" * 16, index) for index in range(3))


def opened(sessions: ShareSessions, key: MemberKey = ANN, connection: object = "c1") -> object:
    return sessions.opened(key, connection, [A, B], has_acknowledgements=False)


def code_of(call: object, *arguments: object, **named: object) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        call(*arguments, **named)  # type: ignore[operator]
    return caught.value.code


def test_each_request_has_the_next_epoch() -> None:
    sessions = ShareSessions(10)
    opened(sessions)
    session = sessions.checked(ANN, 1)
    sessions.add(session, [C])
    sessions.forget(session, [A, C, A])
    sessions.add(session, [C])
    assert list(session.partitions) == [B, C]
    assert code_of(sessions.checked, ANN, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.checked(ANN, 2).epoch == 3


def test_epochs_begin_anew_behind_the_last() -> None:
    sessions = ShareSessions(10)
    opened(sessions)
    session = sessions.get(ANN)
    assert session is not None
    session.epoch = MAX_EPOCH
    assert sessions.checked(ANN, MAX_EPOCH).epoch == 1


def test_what_is_not_open_cannot_go_on() -> None:
    sessions = ShareSessions(10)
    assert code_of(sessions.checked, ANN, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert code_of(sessions.checked, ANN, -1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert code_of(sessions.checked, ANN, 0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_session_begins_without_acknowledgements() -> None:
    sessions = ShareSessions(10)
    assert code_of(sessions.opened, ANN, "c", [A], has_acknowledgements=True) is ErrorCode.INVALID_REQUEST
    assert len(sessions) == 0


def test_there_are_no_more_than_the_limit_but_a_member_may_begin_anew() -> None:
    sessions = ShareSessions(1)
    first = opened(sessions)
    assert code_of(sessions.opened, BOB, "c2", [A], has_acknowledgements=False) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert opened(sessions, connection="c2") is not first
    assert (len(sessions), sessions.partition_count) == (1, 2)
    assert sessions.first_of("c1") is None, "it is another connection's by now"


def test_all_sessions_have_no_more_partitions_than_the_limit() -> None:
    sessions = ShareSessions(10, max_partitions=5)
    opened(sessions)
    opened(sessions, BOB, "c2")
    session = sessions.checked(ANN, 1)
    sessions.add(session, [A, B, C, C])
    assert sessions.partition_count == 5
    assert code_of(sessions.add, session, [TopicIdPartition(b"t" * 16, 3)]) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert list(session.partitions) == [A, B, C]
    cat = MemberKey("h", "cat")
    assert code_of(sessions.opened, cat, "c3", [A], has_acknowledgements=False) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert not sessions.hold(1), "nor do requests with many wait"
    sessions.add(session, [A])
    sessions.forget(session, [C])
    assert sessions.hold(1)
    assert code_of(sessions.opened, cat, "c3", [A], has_acknowledgements=False) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.let_go(1)
    sessions.opened(cat, "c3", [A], has_acknowledgements=False)
    assert sessions.partition_count == 5


def test_a_session_that_ended_counts_no_more_whatever_its_request_does() -> None:
    sessions = ShareSessions(10, max_partitions=4)
    opened(sessions)
    session = sessions.checked(ANN, 1)
    sessions.remove(ANN)
    assert code_of(sessions.add, session, [C]) is ErrorCode.SHARE_SESSION_NOT_FOUND
    sessions.forget(session, [A])
    assert sessions.partition_count == 0
    opened(sessions)
    opened(sessions)
    sessions.remove(ANN)
    assert sessions.partition_count == 0


def test_sessions_are_known_by_connection_and_by_group() -> None:
    sessions = ShareSessions(10)
    ann = opened(sessions)
    bob = opened(sessions, BOB)
    cat = opened(sessions, MemberKey("h", "cat"), "c2")
    assert (sessions.first_of("c1"), sessions.first_of("c2"), sessions.first_of("c3")) == (ann, cat, None)
    sessions.remove(ANN)
    assert (sessions.first_of("c1"), sessions.has_group("g")) == (bob, True)
    sessions.remove(BOB)
    assert (sessions.first_of("c1"), sessions.has_group("g"), sessions.has_group("h")) == (None, False, True)
    assert sessions.remove(ANN) is None


def test_an_answer_tells_what_is_new() -> None:
    sessions = ShareSessions(10)
    opened(sessions)
    session = sessions.checked(ANN, 1)
    sessions.add(session, [C])
    assert not session.has_news(A, records=False, error=False)
    assert session.has_news(C, records=False, error=False), "it is new in the session"
    assert not session.has_news(C, records=False, error=False)
    assert session.has_news(A, records=True, error=False)
    assert list(session.partitions) == [B, C, A], "who had records comes last"
    assert session.has_news(B, records=False, error=True)
    assert session.has_news(B, records=False, error=False), "that the error is over is news"
    assert session.has_news(TopicIdPartition(b"x" * 16, 0), records=False, error=True)
