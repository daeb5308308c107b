"""A broker's transactions as far as the commit protocol sees them, and every way in which drivers can fail between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidelog.pipeline.sink.commit_protocol import Outcome, Part, Token, View


class Crash(Exception):
    """The driver is gone."""


class Fenced(Exception):
    """Another driver has come."""


class Choices:
    """All sequences of choices, one after the other: `for choices in every(): scenario(choices)`."""

    def __init__(self, given: list[int]) -> None:
        self._given = given
        self.made: list[tuple[int, int]] = []

    def one_of(self, count: int) -> int:
        number = self._given[len(self.made)] if len(self.made) < len(self._given) else 0
        self.made.append((number, count))
        return number


def every() -> Iterator[Choices]:
    given: list[int] = []
    while True:
        choices = Choices(given)
        yield choices
        made = choices.made
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        if not made:
            return
        given = [number for number, _ in made[:-1]] + [made[-1][0] + 1]


@dataclass
class Transaction:
    part: Part
    rows: tuple[str, ...]
    outcome: Outcome = Outcome.OPEN


@dataclass
class Broker:
    """Transactions, the log of tokens, and who is the query's driver."""

    transactions: dict[Part, Transaction] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)
    driver_epoch: int = 0
    next_id: int = 0

    def write_part(self, task: int, run: str, rows: tuple[str, ...]) -> Part:
        """A task's attempt, whole: its rows and its mark, not yet committed."""
        self.next_id += 1
        part = Part(task, f"q-{run}-{task}", self.next_id, 0, len(rows), hash(rows))
        self.transactions[part] = Transaction(part, rows)
        return part

    def time_out(self, part: Part) -> None:
        one = self.transactions[part]
        if one.outcome is Outcome.OPEN:
            one.outcome = Outcome.GONE

    def committed_rows(self) -> list[str]:
        found = [one.rows for one in self.transactions.values() if one.outcome is Outcome.COMMITTED]
        return sorted(row for rows in found for row in rows)


class ModelCluster:
    """One driver's connection. `before` and `after` are called around every step, with its name; they may raise Crash."""

    def __init__(self, broker: Broker, before: Callable[[str], None], after: Callable[[str], None]) -> None:
        self._broker, self._before, self._after = broker, before, after
        self._epoch = 0

    def fence(self) -> None:
        self._before("fence")
        self._broker.driver_epoch += 1
        self._epoch = self._broker.driver_epoch
        self._after("fence")

    def read(self) -> View:
        self._before("read")
        token = self._broker.tokens[-1] if self._broker.tokens else None
        outcomes = {part: self._broker.transactions[part].outcome for part in token.parts} if token else {}
        self._after("read")
        return View(token, outcomes)

    def end(self, part: Part, *, commit: bool) -> bool:
        self._before("end")
        one = self._broker.transactions[part]
        wanted = Outcome.COMMITTED if commit else Outcome.GONE
        done = one.outcome in (Outcome.OPEN, wanted)
        if done:
            one.outcome = wanted
        self._after("end")
        return done

    def end_all(self, parts: Sequence[Part], *, commit: bool) -> bool:
        ended = [self.end(part, commit=commit) for part in parts]  # each, whatever became of another
        return all(ended)

    def close(self, batch: int) -> None:
        self._before("close")
        self._after("close")

    def write(self, token: Token) -> None:
        self._before("write")
        if self._epoch != self._broker.driver_epoch:
            raise Fenced
        self._broker.tokens.append(token)
        self._after("write")

    def sweep(self, keep: Sequence[Part]) -> None:
        self._before("sweep")
        for one in self._broker.transactions.values():
            if one.outcome is Outcome.OPEN and one.part not in keep:
                one.outcome = Outcome.GONE
        self._after("sweep")
