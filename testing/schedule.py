"""Schedules of faults: plain rules of which request meets what, written by hand or made from a seed.

    Rule(when=request("Produce", topic="orders", nth=3), what=lose_answer(), times=1)

Everything here is a value: rules can be compared, printed as the code that makes them, left out and put back. What they do to
a broker is done in `scheduled.py`. Which requests a rule strikes depends on nothing but their number among the requests of
the same client id that the rule is about: not on time, and not on what other clients do. So the same requests meet the same
faults, in every run and on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TypeVar

from tidelog.protocol.errors import ErrorCode

from .faults import api_key, error_code


class _Code:
    """Prints as the call that makes it, without arguments that have their default."""

    #: Name of the function that makes it.
    made_by: str

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.default is MISSING:
                shown.append(repr(value))
            elif value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"{self.made_by}({', '.join(shown)})"


# --- when ---


@dataclass(frozen=True, repr=False)
class When(_Code):
    """Which requests a rule is about. Made by `request`."""

    made_by = "request"

    api: str
    topic: str | None = None
    nth: int = 1
    every: int = 1
    client: str | None = None

    def strikes(self, number: int, times: int | None) -> bool:
        """Whether the `number`-th such request of a client is struck, counted from 1."""
        steps, rest = divmod(number - self.nth, self.every)
        return rest == 0 and steps >= 0 and (times is None or steps < times)


def request(api: str, *, topic: str | None = None, nth: int = 1, every: int = 1, client: str | None = None) -> When:
    """Requests of an API, by Kafka's name ("Produce"), each client's counted by itself.

    `topic` leaves only requests that name it, `client` those with that client id. The rule strikes the `nth` of them, and
    after that as often as its `times` says: each one, or one of `every` so many. ValueError for an unknown API.
    """
    if nth < 1 or every < 1:
        raise ValueError(f"requests are counted from 1: nth={nth}, every={every}")
    words = api_key(api).name.split("_")
    return When("".join(word.capitalize() for word in words), topic, nth, every, client)


# --- what ---


@dataclass(frozen=True, repr=False)
class What(_Code):
    """What happens to a request that a rule strikes."""


@dataclass(frozen=True, repr=False)
class Cut(What):
    """The connection ends. Made by `cut_before`, `lose_answer`, `cut_answer` and `cut_after`."""

    share: float | None

    def __repr__(self) -> str:
        if self.share is None:
            return "cut_before()"
        return {0.0: "lose_answer()", 1.0: "cut_after()"}.get(self.share, f"cut_answer({self.share!r})")


def cut_before() -> Cut:
    """The connection ends when the request comes, which is not handled."""
    return Cut(None)


def lose_answer() -> Cut:
    """The request is handled, records are appended, and the connection ends without a byte of the answer."""
    return Cut(0.0)


def cut_answer(share: float = 0.5) -> Cut:
    """The connection ends within the answer: after this share of its bytes, above 0 and below 1."""
    if not 0 < share < 1:
        raise ValueError(f"a share of an answer is above 0 and below 1, not {share}")
    return Cut(share)


def cut_after() -> Cut:
    """The connection ends when the whole answer has been sent."""
    return Cut(1.0)


@dataclass(frozen=True, repr=False)
class Error(What):
    """As `answer_error`, which makes it."""

    made_by = "answer_error"
    code: str
    handled: bool = False


def answer_error(code: str, *, handled: bool = False) -> Error:
    """An error is answered for all that the request names, by Kafka's name ("NOT_COORDINATOR").

    The request is not handled; with `handled` it is, and the answer lies about it. A Produce with acks=0 that is not handled
    has its connection cut. Metadata are the real ones with the error
    in each partition. ValueError for an unknown code.
    """
    return Error(error_code(code).name, handled)


def coordinator_moved() -> Error:
    """The coordinator is somewhere else now: NOT_COORDINATOR."""
    return Error(ErrorCode.NOT_COORDINATOR.name)


def leader_not_available() -> Error:
    """Metadata without a leader for the partitions: LEADER_NOT_AVAILABLE."""
    return Error(ErrorCode.LEADER_NOT_AVAILABLE.name)


@dataclass(frozen=True, repr=False)
class Wait(What):
    """Time passes, really. Made by `slow_answer` and `stuck`."""

    seconds: float
    before: bool

    def __repr__(self) -> str:
        return f"{'stuck' if self.before else 'slow_answer'}({self.seconds!r})"


def slow_answer(seconds: float) -> Wait:
    """The request is handled, and its answer comes so much later. The connection's other requests wait behind it."""
    return Wait(_span(seconds), before=False)


def stuck(seconds: float) -> Wait:
    """The request is handled so much later, as by a partition whose disk hangs."""
    return Wait(_span(seconds), before=True)


@dataclass(frozen=True, repr=False)
class Throttle(What):
    """As `throttle`, which makes it."""

    made_by = "throttle"
    milliseconds: int


def throttle(milliseconds: int) -> Throttle:
    """The answer says that the client is over a quota, and its connection stands still for so long (KIP-219)."""
    return Throttle(int(_span(milliseconds)))


@dataclass(frozen=True, repr=False)
class Late(What):
    """As `late`, which makes it."""

    made_by = "late"
    after: str


def late(after: str = "EndTxn") -> Late:
    """The connection ends, and the request arrives all the same: right after the client's next request of API `after`.

    As one that a slow network kept while the client gave up and went on. A retry of it, which comes before, is another request.
    """
    return Late(request(after).api)


@dataclass(frozen=True, repr=False)
class Twice(What):
    """As `twice`, which makes it."""

    made_by = "twice"


def twice() -> Twice:
    """The request arrives twice, one after the other; the second's answer is sent. It is what a lost answer and a retry do."""
    return Twice()


@dataclass(frozen=True, repr=False)
class JumpClock(What):
    """As `jump_clock`, which makes it."""

    made_by = "jump_clock"
    seconds: float


def jump_clock(seconds: float) -> JumpClock:
    """The broker's clock goes forward, and all that becomes due is done, before the request is handled."""
    return JumpClock(_span(seconds))


@dataclass(frozen=True, repr=False)
class Rebalance(What):
    """As `rebalance`, which makes it."""

    made_by = "rebalance"


def rebalance() -> Rebalance:
    """The group that the request names begins a rebalance before the request is handled. Classic groups."""
    return Rebalance()


@dataclass(frozen=True, repr=False)
class BumpEpoch(What):
    """As `bump_epoch`, which makes it."""

    made_by = "bump_epoch"


def bump_epoch() -> BumpEpoch:
    """Partitions that the request names get a new leader epoch before it is handled, as after an election."""
    return BumpEpoch()


@dataclass(frozen=True, repr=False)
class Expire(What):
    """As `expire_records`, which makes it."""

    made_by = "expire_records"
    share: float = 1.0


def expire_records(share: float = 1.0) -> Expire:
    """Partitions that the request names lose this share of their records, the oldest, before it is handled: retention."""
    return Expire(_share(share))


@dataclass(frozen=True, repr=False)
class Truncate(What):
    """As `truncate_log`, which makes it."""

    made_by = "truncate_log"
    records: int = 1


def truncate_log(records: int = 1) -> Truncate:
    """Partitions that the request names lose so many of their last records before it is handled, and get a new leader epoch.

    As by an unclean election: acknowledged records are gone.
    """
    if records < 1:
        raise ValueError(f"at least one record is lost, not {records}")
    return Truncate(records)


def _span(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"time goes forward, not by {value}")
    return value


def _share(value: float) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"a share is above 0 and at most 1, not {value}")
    return value


# --- rules ---


@dataclass(frozen=True)
class Rule:
    """One line of a schedule: `what` happens to the requests of `when`, so many `times` for each client (None: always)."""

    when: When
    what: What
    times: int | None = 1

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is at least 1, or None for always, not {self.times}")

    def __repr__(self) -> str:
        times = "" if self.times == 1 else f", times={self.times}"
        return f"Rule({self.when!r}, {self.what!r}{times})"


class Schedule(Sequence[Rule]):
    """Rules for one life of a broker; the first one that is about a request decides what happens to it. Immutable.

        Schedule([Rule(request("Produce", nth=3), lose_answer())])
        Schedule(seed=17)                                      the rules of that number, of the usual kinds
        Schedule(seed=17, kinds=[*USUAL, "retention"])
        Schedule(seed=17, apis=["OffsetCommit", "Heartbeat"])  rules about these requests alone

    Attributes:
        rules: in the order in which they are asked.
        seed: that they were made from; None of those written by hand.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        seed: int | None = None,
        kinds: Iterable[str] | None = None,
        apis: Iterable[str] | None = None,
    ) -> None:
        """ValueError for an unknown kind or API, and for kinds or APIs without a seed."""
        if seed is None and not (kinds is None and apis is None):
            raise ValueError("kinds and apis are what a seed chooses from: they go with seed=")
        made = () if seed is None else tuple(rules_of(seed, USUAL if kinds is None else kinds, apis))
        self.rules = (*rules, *made)
        self.seed = seed

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.rules[index]

    def __repr__(self) -> str:
        return as_code(self.rules)


def as_code(rules: Sequence[Rule]) -> str:
    """Python that makes the rules, one a line."""
    return "Schedule([" + "".join(f"\n    {rule!r}," for rule in rules) + ("\n])" if rules else "])")


# --- from a seed ---

T = TypeVar("T")
Choose = Callable[[random.Random], What]

_DATA = ("Produce", "Fetch")
_GROUP = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch")
_NEWER_GROUP = ("ConsumerGroupHeartbeat",)
_TRANSACTION = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
_FINDING = ("Metadata", "FindCoordinator", "ListOffsets")
_ALL = (*_DATA, *_GROUP, *_NEWER_GROUP, *_TRANSACTION, *_FINDING, "OffsetForLeaderEpoch")


def _errors(*codes: str, handled: Sequence[str] = ()) -> Choose:
    """One of the errors; those of `handled` may also come after the request was handled."""

    def choose(draws: random.Random) -> What:
        code = draws.choice(codes)
        return Error(code, code in handled and draws.random() < 0.5)

    return choose


def _shares(draws: random.Random) -> What:
    return Cut(round(draws.uniform(0.01, 0.99), 2))


def _seconds(make: Callable[[float], What], most: float) -> Choose:
    return lambda draws: make(round(draws.uniform(0.01, most), 2))


_COORDINATOR = _errors("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
_LEADER = _errors("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR")

#: Kinds of faults: for each the APIs that it may strike, and what happens to them.
KINDS: dict[str, Sequence[tuple[Sequence[str], Choose]]] = {
    "lost answers": [(_ALL, lambda _: lose_answer())],
    "cut requests": [(_ALL, lambda _: cut_before())],
    "cut answers": [(_ALL, _shares), (_ALL, lambda _: cut_after())],
    "leaders": [
        (_DATA, _LEADER),
        (("ListOffsets", "OffsetForLeaderEpoch"), _LEADER),
        (("Metadata",), lambda _: leader_not_available()),
    ],
    "replicas": [
        (
            ("Produce",),
            _errors(
                "REQUEST_TIMED_OUT",
                "NOT_ENOUGH_REPLICAS",
                "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
                handled=("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
            ),
        )
    ],
    "coordinators": [
        ((*_GROUP, *_NEWER_GROUP, *_TRANSACTION), _COORDINATOR),
        (("FindCoordinator",), _errors("COORDINATOR_NOT_AVAILABLE")),
    ],
    "epochs": [((*_DATA, "ListOffsets", "OffsetForLeaderEpoch", "Metadata"), lambda _: bump_epoch())],
    "rebalances": [(("OffsetCommit", "Heartbeat", "OffsetFetch"), lambda _: rebalance())],
    "transactions": [
        (("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"), _errors("CONCURRENT_TRANSACTIONS"))
    ],
    "late": [(("Produce",), lambda draws: late(draws.choice(("EndTxn", "Produce"))))],
    "slow": [(_ALL, _seconds(slow_answer, 0.5)), (_DATA, _seconds(stuck, 0.5))],
    "throttles": [(_DATA, lambda draws: throttle(draws.randint(1, 300)))],
    "clock": [
        (("Fetch", "Produce", "OffsetCommit", "Heartbeat"), lambda draws: jump_clock(draws.choice((1, 60, 3600))))
    ],
    "retention": [(("Fetch",), lambda draws: expire_records(draws.choice((0.5, 1.0))))],
    "truncation": [(("Fetch", "Produce"), lambda draws: truncate_log(draws.randint(1, 3)))],
}

#: Kinds that a correct client survives without losing or repeating anything, and without an error for its user, if it may retry.
USUAL = tuple(kind for kind in KINDS if kind not in {"clock", "retention", "truncation"})

#: A schedule ends: no rule strikes later than that, so that every client gets through in the end.
LAST_REQUEST = 24
#: With these requests a client finds the cluster: one that was given a single address has no second chance, and may fail.
FIRST_REQUEST = {"Metadata": 4}


def rules_of(seed: int, kinds: Iterable[str] = USUAL, apis: Iterable[str] | None = None) -> Iterator[Rule]:
    """Rules of a seed: a few kinds, each on the APIs that it may strike, of these only `apis`. ValueError: unknown kind or API.

    A seed takes few kinds, and strikes rarely or often: runs that have a bit of everything miss what needs much of one thing.
    """
    known = list(kinds)
    wanted = None if apis is None else {request(api).api for api in apis}
    for kind in known:
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}: there are {', '.join(KINDS)}")
    draws = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    chosen = draws.sample(known, min(draws.choice((1, 1, 2, 3)), len(known)))
    density = draws.choice((0.05, 0.15, 0.35))
    found: dict[tuple[str, int], Rule] = {}
    for kind in sorted(chosen, key=known.index):
        for struck, choose in KINDS[kind]:
            for api in struck if wanted is None else (api for api in struck if api in wanted):
                for nth in range(FIRST_REQUEST.get(api, 1), LAST_REQUEST + 1):
                    if draws.random() < density and (api, nth) not in found:
                        found[api, nth] = Rule(When(api, nth=nth), choose(draws))
    yield from found.values()
