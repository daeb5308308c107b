"""The commit topic: the bytes of tokens and marks, and what they say as the topic stands.

    key     {"query": q}                 value   {"batch": n, "run": r, "parts": [{"task": …, "id": …, "producer": …, …}]}
    key     {"query": q, "task": t}      value   {"batch": n, "run": r}

JSON, so that people can read it with any consumer; the fields may get company in later versions. Both are written in
transactions: a token in its driver's, a mark as the first record of its task's. `CommitLog` takes raw batches, markers too,
and tells of each transaction whether it is open, committed or aborted, also above the last stable offset.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import NamedTuple

from ...protocol.records.memory_records import iterate_batches, iterate_records
from ...storage.producers.transaction_marker import parse_transaction_marker
from ..exceptions import PipelineError
from .commit_protocol import Outcome, Part, Token, View


class CommitTopicError(PipelineError):
    """The commit topic holds something else."""


_NAMES = {"transactional_id": "id", "producer_id": "producer"}


def token_key(query: str) -> bytes:
    return json.dumps({"query": query}).encode()


def mark_key(query: str, task: int) -> bytes:
    return json.dumps({"query": query, "task": task}).encode()


def encode_token(token: Token) -> bytes:
    parts = [{_NAMES.get(name, name): value for name, value in asdict(part).items()} for part in token.parts]
    return json.dumps({"batch": token.batch, "run": token.run, "parts": parts}, separators=(",", ":")).encode()


def encode_mark(batch: int, run: str) -> bytes:
    return json.dumps({"batch": batch, "run": run}, separators=(",", ":")).encode()


def decode_token(value: bytes) -> Token:
    """Parse a token. CommitTopicError."""
    try:
        found = json.loads(value)
        parts = tuple(
            Part(
                int(part["task"]), str(part["id"]), int(part["producer"]), int(part["epoch"]), int(part["rows"]),
                int(part["fingerprint"]),
            )
            for part in found["parts"]
        )  # fmt: skip
        return Token(int(found["batch"]), str(found["run"]), parts)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise CommitTopicError(
            f"the commit topic holds a token that can't be read ({error!r}); is commit.topic another program's?"
        ) from None


class _Written(NamedTuple):
    """A record and its transaction."""

    offset: int
    transaction: int
    value: bytes | None


class _Transaction:
    """A transaction of one producer id."""

    __slots__ = ("epoch", "first", "outcome", "producer_id")

    def __init__(self, producer_id: int, epoch: int, first: int) -> None:
        self.producer_id, self.epoch, self.first = producer_id, epoch, first
        self.outcome = Outcome.OPEN


class CommitLog:
    """A partition of the commit topic, fed from its start on. `query` None: of every query."""

    def __init__(self) -> None:
        self._transactions: list[_Transaction] = []
        self._open: dict[int, int] = {}
        self._written: dict[bytes, list[_Written]] = {}

    def feed(self, data: bytes | bytearray | memoryview) -> int | None:
        """Whole batches in order, as fetched raw; the offset behind them, or None when there were none."""
        end = None
        for header in iterate_batches(data):
            stop = header.position + header.size
            end = header.last_offset + 1
            if header.is_control:
                for record in iterate_records(data, header.position, stop):
                    marker = parse_transaction_marker(record.key, record.value)
                    number = self._open.pop(header.producer_id, None) if marker is not None else None
                    if number is not None and marker is not None:
                        ended = Outcome.COMMITTED if marker.is_commit else Outcome.GONE
                        self._transactions[number].outcome = ended
                continue
            if not header.is_transactional:
                continue
            number = self._open.get(header.producer_id, -1)
            if number < 0:
                number = self._open[header.producer_id] = len(self._transactions)
                self._transactions.append(_Transaction(header.producer_id, header.producer_epoch, header.base_offset))
            for record in iterate_records(data, header.position, stop):
                if record.key is not None:
                    self._written.setdefault(bytes(record.key), []).append(
                        _Written(record.offset, number, None if record.value is None else bytes(record.value))
                    )
        return end

    def finish(self, last_stable_offset: int) -> None:
        """Called at the end: transactions below the last stable offset whose markers are gone were committed, since
        cleaning keeps no records of aborted ones.
        """
        for number in self._open.values():
            transaction = self._transactions[number]
            if transaction.first < last_stable_offset:
                transaction.outcome = Outcome.COMMITTED

    def queries(self) -> list[str]:
        """Queries that have a token. CommitTopicError."""
        try:
            return sorted(
                str(json.loads(key)["query"]) for key in self._written if b'"task"' not in key and self._latest(key)
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CommitTopicError(
                f"the commit topic holds a key that can't be read ({error!r}); is commit.topic another program's?"
            ) from None

    def view(self, query: str) -> View:
        """State of one query. CommitTopicError."""
        value = self._latest(token_key(query))
        if value is None:
            return View()
        token = decode_token(value)
        return View(token, {part: self._outcome(query, part) for part in token.parts})

    def _latest(self, key: bytes) -> bytes | None:
        committed = [
            record
            for record in self._written.get(key, ())
            if self._transactions[record.transaction].outcome is Outcome.COMMITTED
        ]
        return committed[-1].value if committed else None

    def _outcome(self, query: str, part: Part) -> Outcome:
        for record in reversed(self._written.get(mark_key(query, part.task), ())):
            transaction = self._transactions[record.transaction]
            if (transaction.producer_id, transaction.epoch) == (part.producer_id, part.epoch):
                return transaction.outcome
        return Outcome.GONE
