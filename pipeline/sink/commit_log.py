"""The commit topic: the bytes of tokens and marks, and what they say as the topic stands.

    key     {"query": q}                 value   {"batch": n, "run": r, "parts": [{"task": …, "id": …, "producer": …, …}]}
    key     {"query": q, "task": t}      value   {"batch": n, "run": r}
    key     {"query": q, "closed": true} value   {"batch": n, "run": r}, or null: the query is over

JSON, so that people can read it with any consumer; the fields may get company in later versions. Tokens and marks are written
in transactions: a token in its driver's, a mark as the first record of its task's. The third kind is a closing record: no
attempt of that run at that batch, or at one before it, counts any more. `CommitLog` takes raw batches, markers too, and tells
of each transaction whether it is open, committed or aborted, also above the last stable offset.
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


def closed_key(query: str) -> bytes:
    return json.dumps({"query": query, "closed": True}).encode()


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


class _Transaction:
    """A transaction of one producer id. `first`: offset of its first record."""

    __slots__ = ("epoch", "first", "outcome", "producer_id")

    def __init__(self, producer_id: int, epoch: int, first: int, outcome: Outcome = Outcome.OPEN) -> None:
        self.producer_id, self.epoch, self.first, self.outcome = producer_id, epoch, first, outcome


class _Written(NamedTuple):
    """A record and its transaction."""

    offset: int
    transaction: _Transaction
    value: bytes | None


_IS_TASKS, _IS_CLOSING = b'"task"', b'"closed"'  # quotes inside of a name are escaped


class CommitLog:
    """A partition of the commit topic, fed from its start on, or from where nothing before it matters. One thread at a time.

    Memory follows the keys: of each the last committed record is kept, and what lies behind it.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Transaction] = {}
        self._written: dict[bytes, list[_Written]] = {}
        self._touched: set[bytes] = set()

    def feed(self, data: bytes | bytearray | memoryview) -> int | None:
        """Whole batches in order, as fetched raw; the offset behind them, or None when there were none."""
        end = None
        for header in iterate_batches(data):
            stop = header.position + header.size
            end = header.last_offset + 1
            if header.is_control:
                for record in iterate_records(data, header.position, stop):
                    marker = parse_transaction_marker(record.key, record.value)
                    ended = self._open.pop(header.producer_id, None) if marker is not None else None
                    if ended is not None and marker is not None:
                        ended.outcome = Outcome.COMMITTED if marker.is_commit else Outcome.GONE
                continue
            if header.is_transactional:
                transaction = self._open.get(header.producer_id)
                if transaction is None:
                    transaction = _Transaction(header.producer_id, header.producer_epoch, header.base_offset)
                    self._open[header.producer_id] = transaction
            else:
                transaction = _Transaction(
                    header.producer_id, header.producer_epoch, header.base_offset, Outcome.COMMITTED
                )
            for record in iterate_records(data, header.position, stop):
                if record.key is None or not (header.is_transactional or _IS_CLOSING in bytes(record.key)):
                    continue
                key, value = bytes(record.key), None if record.value is None else bytes(record.value)
                self._written.setdefault(key, []).append(_Written(record.offset, transaction, value))
                self._touched.add(key)
        return end

    def finish(self, last_stable_offset: int) -> None:
        """Called at the end of what there is for now: transactions below the last stable offset whose markers are gone were
        committed, since cleaning keeps no records of aborted ones.
        """
        for producer_id, transaction in list(self._open.items()):
            if transaction.first < last_stable_offset:
                transaction.outcome = Outcome.COMMITTED
                del self._open[producer_id]
        self._trim()

    def queries(self) -> list[str]:
        """Queries that have a token. CommitTopicError."""
        try:
            return sorted(
                str(json.loads(key)["query"])
                for key in self._written
                if _IS_TASKS not in key and _IS_CLOSING not in key and self._latest(key)
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

    def is_closed(self, query: str, run: str, batch: int) -> bool:
        """True if no attempt of this run at this batch that begins now can count: the batch is decided, or given up.

        An open token counts as a committed one: either way it was written for attempts that had told, and its run writes no
        other for the batch. CommitTopicError.
        """
        closing = self._current(closed_key(query))
        if any(record.value is None for record in closing):
            return True
        decided = [record.value for record in self._current(token_key(query)) if record.value is not None]
        ended = [_decode_closing(record.value) for record in closing if record.value is not None]
        ended += [(token.run, token.batch) for token in map(decode_token, decided)]
        return any(whose == run and last >= batch for whose, last in ended)

    def start_of(self, query: str, task: int) -> int | None:
        """The offset from which on everything lies that a view of the query needs, and this task's marks; None: nothing does.

        CommitTopicError.
        """
        tokens = self._written.get(token_key(query), [])
        tasks = {
            part.task for record in tokens if record.value is not None for part in decode_token(record.value).parts
        }
        keys = (mark_key(query, number) for number in tasks | {task})
        offsets = [record.offset for record in tokens]
        offsets += (record.offset for key in keys for record in self._written.get(key, ()))
        return min(offsets, default=None)

    # -- inside

    def _trim(self) -> None:
        """Forgets what is settled, but for the last committed record of a key: as cleaning does."""
        for key in list(self._touched):
            current = sorted(self._current(key), key=lambda record: record.offset)
            if current:
                self._written[key] = current
            else:
                del self._written[key]
            if all(record.transaction.outcome is not Outcome.OPEN for record in current):
                self._touched.discard(key)

    def _current(self, key: bytes) -> list[_Written]:
        """Records of a key that count or may come to count: the last committed one, and open ones."""
        there = [record for record in self._written.get(key, ()) if record.transaction.outcome is not Outcome.GONE]
        committed = [record for record in there if record.transaction.outcome is Outcome.COMMITTED]
        return [*committed[-1:], *(record for record in there if record.transaction.outcome is Outcome.OPEN)]

    def _latest(self, key: bytes) -> bytes | None:
        committed = [record for record in self._written.get(key, ()) if record.transaction.outcome is Outcome.COMMITTED]
        return committed[-1].value if committed else None

    def _outcome(self, query: str, part: Part) -> Outcome:
        for record in reversed(self._written.get(mark_key(query, part.task), ())):
            if (record.transaction.producer_id, record.transaction.epoch) == (part.producer_id, part.epoch):
                return record.transaction.outcome
        return Outcome.GONE


def _decode_closing(value: bytes) -> tuple[str, int]:
    """(run, last batch). CommitTopicError."""
    try:
        found = json.loads(value)
        return str(found["run"]), int(found["batch"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise CommitTopicError(
            f"the commit topic holds a record that can't be read ({error!r}); is commit.topic another program's?"
        ) from None
