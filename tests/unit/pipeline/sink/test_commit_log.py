"""Tokens and marks as they stand in the commit topic: what is open, committed and aborted, markers taken as they come."""

from __future__ import annotations

import pytest
from tidelog.pipeline.sink.commit_log import (
    CommitLog,
    CommitTopicError,
    decode_token,
    encode_mark,
    encode_token,
    mark_key,
    token_key,
)
from tidelog.pipeline.sink.commit_protocol import Outcome, Part, Token, View
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.producers.transaction_marker import TransactionMarker

DRIVER = 90
PARTS = (Part(0, "a", 10, 4, 5, 77), Part(1, "b", 11, 0, 6, 1 << 63))
TOKEN = Token(3, "run", PARTS)


class Log:
    """Batches in order, each with the next offset."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end = 0

    def write(self, producer: int, epoch: int, key: bytes, value: bytes | None) -> Log:
        self.data += build_batch(
            [Record(0, 1, key, value)], base_offset=self.end, producer_id=producer, producer_epoch=epoch,
            base_sequence=0, is_transactional=True,
        )  # fmt: skip
        self.end += 1
        return self

    def mark(self, part: Part) -> Log:
        return self.write(part.producer_id, part.epoch, mark_key("q", part.task), encode_mark(3, "run"))

    def token(self, token: Token = TOKEN, query: str = "q", *, producer: int = DRIVER) -> Log:
        return self.write(producer, 0, token_key(query), encode_token(token))

    def ends(self, producer: int, *, commit: bool = True) -> Log:
        marker = TransactionMarker(commit, 0)
        self.data += build_batch(
            [Record(0, 1, marker.key(), marker.value())], base_offset=self.end, producer_id=producer, producer_epoch=9,
            is_transactional=True, is_control=True,
        )  # fmt: skip
        self.end += 1
        return self

    def view(self, stable: int = 0, query: str = "q") -> View:
        log = CommitLog()
        assert log.feed(bytes(self.data)) == (self.end or None)
        log.finish(stable)
        return log.view(query)


def test_a_token_is_what_was_encoded() -> None:
    assert decode_token(encode_token(TOKEN)) == TOKEN


DEEP = pytest.param(b"[" * 100_000, id="deep")
INFINITE = b'{"batch": 1e999, "run": "r", "parts": []}'


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b'{"batch": 1, "run": "r", "parts": [{}]}', b"\xff", DEEP, INFINITE]
)
def test_what_is_no_token_is_told(value: bytes) -> None:
    with pytest.raises(CommitTopicError, match=r"is commit.topic another program's"):
        decode_token(value)


def test_an_empty_topic_says_nothing() -> None:
    assert Log().view() == View()


def test_parts_are_open_until_their_marker_comes() -> None:
    log = Log().mark(PARTS[0]).mark(PARTS[1]).token().ends(DRIVER)
    assert log.view().outcomes == {PARTS[0]: Outcome.OPEN, PARTS[1]: Outcome.OPEN}
    log.ends(10).ends(11, commit=False)
    assert log.view().outcomes == {PARTS[0]: Outcome.COMMITTED, PARTS[1]: Outcome.GONE}


@pytest.mark.parametrize("commit", [False, None])
def test_a_token_counts_once_it_is_committed(commit: bool | None) -> None:
    log = Log().token().ends(DRIVER).token(Token(4, "later", ()))
    if commit is not None:
        log.ends(DRIVER, commit=commit)
    assert log.view().token == TOKEN
    assert Log().token().ends(DRIVER).token(Token(4, "later", ())).ends(DRIVER).view().token == Token(4, "later", ())


def test_marks_of_another_transaction_are_not_a_parts() -> None:
    other = Part(0, "a", 10, 5, 5, 77)
    log = Log().mark(PARTS[0]).ends(10, commit=False).mark(other).ends(10).token().ends(DRIVER)
    assert log.view().outcomes == {PARTS[0]: Outcome.GONE, PARTS[1]: Outcome.GONE}


def test_below_the_last_stable_offset_what_has_no_marker_was_committed() -> None:
    """Cleaning takes the marker of a committed transaction before its records."""
    log = Log().mark(PARTS[0]).token()
    assert log.view(stable=2).outcomes == {PARTS[0]: Outcome.COMMITTED, PARTS[1]: Outcome.GONE}
    assert log.view(stable=1).token is None


def test_a_query_that_was_forgotten_has_no_token() -> None:
    log = Log().token().ends(DRIVER).token(Token(1, "r", ()), "other", producer=91).ends(91)
    log.write(DRIVER, 1, token_key("q"), None).ends(DRIVER)
    assert log.view() == View()
    found = CommitLog()
    found.feed(log.data)
    assert found.queries() == ["other"]


@pytest.mark.parametrize("key", [b"\0", b"[]", b"{}", b"[" * 100_000], ids=["no JSON", "a list", "no query", "deep"])
def test_a_key_of_another_program_is_told(key: bytes) -> None:
    found = CommitLog()
    found.feed(Log().write(DRIVER, 0, key, b"x").ends(DRIVER).data)
    with pytest.raises(CommitTopicError, match=r"is commit.topic another program's"):
        found.queries()


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    log = Log().mark(PARTS[0]).token()
    found = CommitLog()
    assert found.feed(log.data[:-1]) == 1
    assert found.feed(b"") is None
