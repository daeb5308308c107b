"""Commits a batch of many transactions as one: values and decisions, no I/O. See docs/adr/0034-pipeline-sink.md.

    task      begin ── mark ── rows … ──► Part                         a transaction, left open
    driver    fence ── read ── settle ── write the token ── end each part ── sweep
                                              ▲
                     before it the batch is not there; after it, it is, and any driver may end the parts

An attempt may lose, and die or go on. What is open when the driver sweeps is aborted then; one that begins later finds, when
it looks at the commit topic behind its mark, that its batch is closed, and aborts itself (docs/adr/0086-lost-attempts.md).

`Committer.commit` runs the driver's row against a `Cluster`, which is Kafka in `committer.py` and a model in the tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ..exceptions import PipelineError


class TornBatchError(PipelineError):
    """Part of a batch was committed, part was lost, and the batch's next run is another one."""


class LostPartError(PipelineError):
    """The token is written, and a part's transaction has been aborted meanwhile. The batch's next run mends it."""


class Outcome(Enum):
    """State of a transaction in the log."""

    OPEN = "open"
    COMMITTED = "committed"
    GONE = "gone"
    """Aborted; or nothing is there of it."""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """Transaction of one task. `fingerprint`: of its rows, in any order."""

    task: int
    transactional_id: str
    producer_id: int
    epoch: int
    rows: int
    fingerprint: int

    @property
    def content(self) -> tuple[int, int, int]:
        return self.task, self.rows, self.fingerprint


@dataclass(frozen=True, slots=True)
class Token:
    """The decision that a batch is committed, with all that belongs to it. `run`: who decided it, of one query's life."""

    batch: int
    run: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The commit topic as it stood, for one query."""

    token: Token | None = None
    outcomes: Mapping[Part, Outcome] = field(default_factory=dict)

    def parts(self, outcome: Outcome) -> list[Part]:
        """Parts of the token with this outcome."""
        if self.token is None:
            return []
        return [part for part in self.token.parts if self.outcomes.get(part, Outcome.GONE) is outcome]


class Cluster(Protocol):
    """Operations of the driver on the cluster. Each may fail, done or not done."""

    def fence(self) -> None:
        """Keep all other drivers of this query from writing tokens, from now on."""

    def read(self) -> View:
        """All tokens and marks written so far."""

    def end(self, part: Part, *, commit: bool) -> bool:
        """Ends the transaction of a part; False when it can be ended so no more (which says nothing of how it ended)."""

    def end_all(self, parts: Sequence[Part], *, commit: bool) -> bool:
        """`end` for each of them, whatever becomes of another, side by side; False when it was False for one."""

    def close(self, batch: int) -> None:
        """Tell attempts of this run at this batch, or at one before it, that begin from now on that they don't count."""

    def write(self, token: Token) -> None:
        """Write a token; fails, and writes nothing, when another driver has fenced this one."""

    def sweep(self, keep: Sequence[Part]) -> None:
        """Aborts what this query has open besides these, of whichever attempt."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on a batch: the token to write (None: it is there already), and `superfluous` transactions, whose rows
    don't count.
    """

    token: Token | None
    superfluous: tuple[Part, ...] = ()


def decide(view: View, batch: int, run: str, parts: Sequence[Part]) -> Decision:
    """Decide on a batch, given a view without open parts. TornBatchError."""
    assert not view.parts(Outcome.OPEN)
    fresh = Decision(Token(batch, run, tuple(parts)))
    token = view.token
    if token is None or token.batch < batch:
        return fresh
    committed, gone = view.parts(Outcome.COMMITTED), view.parts(Outcome.GONE)
    if token.batch > batch or not gone:
        return Decision(None, tuple(parts))
    if not committed:
        return fresh
    if sorted(part.content for part in token.parts) != sorted(part.content for part in parts):
        raise TornBatchError(
            f"batch {batch} is there in part: the transactions of {len(gone)} of {len(token.parts)} tasks (first: "
            f"{gone[0].transactional_id}) ran out before they could be committed, and this run's tasks have other rows, so "
            "that what is missing can't be told. Either the readers of this topic deal with a duplicate (start the query "
            "with a new checkpoint behind this batch, after writing it once more by hand), or with a gap (start it behind "
            "this batch). A larger transaction.timeout.ms keeps this from happening again."
        )
    missing = {part.task for part in gone}
    mended = [*committed, *(part for part in parts if part.task in missing)]
    left = tuple(part for part in parts if part.task not in missing)
    return Decision(Token(batch, run, tuple(sorted(mended))), left)


class Committer:
    """Commits batches of one query's run; driver. `rounds`: how often it looks again at a transaction that stays open,
    after `pause(round)` each time.
    """

    def __init__(
        self, cluster: Cluster, run: str, *, rounds: int = 60, pause: Callable[[int], None] = lambda _: None
    ) -> None:
        self._cluster = cluster
        self._run = run
        self._rounds = rounds
        self._pause = pause

    def commit(self, batch: int, parts: Sequence[Part]) -> bool:
        """False when the batch was there already. TornBatchError, LostPartError, and what the cluster raises."""
        self._cluster.fence()
        view = self.settle(self._cluster.read())
        decision = decide(view, batch, self._run, parts)
        keep: tuple[Part, ...] = ()
        if decision.token is not None:
            self._cluster.write(decision.token)
            keep = decision.token.parts
            open_parts = [part for part in keep if part in parts]
            if not self._cluster.end_all(open_parts, commit=True):
                gone = self.settle(self._cluster.read()).parts(Outcome.GONE)
                if gone:
                    names = ", ".join(part.transactional_id for part in gone)
                    raise LostPartError(
                        f"batch {batch}: the transactions {names} were aborted before they could be committed (by "
                        "transaction.timeout.ms, or by an administrator); start the query again: it writes what is missing"
                    )
        else:
            self._cluster.close(batch)
        self._cluster.end_all(decision.superfluous, commit=False)
        # Behind the token, or the closing record: an attempt whose transaction begins too late for this finds one of them.
        # What is decided is no failure because of what is left open: that times out by itself, or the next commit sweeps it.
        with contextlib.suppress(PipelineError):
            self._cluster.sweep(keep)
        return decision.token is not None

    def settle(self, view: View) -> View:
        """Carries out what a token says, until none of its parts is open. Harmless at any time, for anybody."""
        for number in range(self._rounds):
            still_open = view.parts(Outcome.OPEN)
            if not still_open:
                return view
            self._cluster.end_all(still_open, commit=True)
            self._pause(number)
            view = self._cluster.read()
        left = ", ".join(part.transactional_id for part in view.parts(Outcome.OPEN))
        raise LostPartError(f"the transactions {left} are neither committed nor aborted; see `tidelog transactions`")
