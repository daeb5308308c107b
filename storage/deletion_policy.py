"""Deletion policies choose the segments that a log may lose: the interface, the built-in policies, and how others are
found.

A policy looks at facts and names segments, oldest first; it opens nothing and deletes nothing (`retention/plan.py` asks it,
`log/retention_executor.py` acts on the answer). A package adds one with an entry point in the group `tidelog.deletion_policies`
that leads to a class without arguments (or a function) that makes a `DeletionPolicy`:

    [project.entry-points."tidelog.deletion_policies"]
    newest-thirty = "my_package:NewestThirty"

and a topic uses it with `deletion.policies=newest-thirty`. docs/DELETION_POLICIES.md is the page for authors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .exceptions import DeletionPolicyError

if TYPE_CHECKING:
    from ..config.log_config import LogConfig
    from .values import SegmentView

ENTRY_POINTS = "tidelog.deletion_policies"


class LogFacts(NamedTuple):
    """Facts of a log for a policy, besides its segments. Offsets, bytes, and ms since 1970."""

    topic: str
    partition: int
    config: LogConfig
    now_ms: int
    size: int
    """Size of all `.log` files, in bytes, without those that policies have chosen in this run already."""
    log_start_offset: int
    high_watermark: int


class DeletionPolicy(Protocol):
    """A pure function of values. Pool threads call it, perhaps for several logs at once: it keeps no state.

    Attributes:
        takes_active: True if the policy wants to be offered the active segment too. Naming that one rolls the log first, so
            that the records of a topic which nobody writes to any more can go. Only when it is not empty.
    """

    takes_active: bool

    def choose(self, segments: Iterable[SegmentView], log: LogFacts) -> Iterable[SegmentView]:
        """The segments to delete: a prefix of `segments`, in their order.

        `segments` are offered oldest first, and only such as may go: closed ones (see `takes_active`) whose records all
        lie below the high watermark. Reading one may open its time index: stop at the first that stays.
        """


class NamedPolicy(NamedTuple):
    """A policy with its name in settings, log lines and metrics."""

    name: str
    policy: DeletionPolicy


class StartOffsetPolicy:
    """Deletes segments below logStartOffset, as DeleteRecords has promised. Applies for every cleanup.policy."""

    takes_active = False

    def choose(self, segments: Iterable[SegmentView], log: LogFacts) -> Iterable[SegmentView]:
        return takewhile(lambda segment: segment.next_base_offset <= log.log_start_offset, segments)


def _beyond_retention(
    segments: Iterable[SegmentView], log: LogFacts, time_of: Callable[[SegmentView], int]
) -> Iterable[SegmentView]:
    """The first segments whose time is older than `retention.ms`; none if that is negative."""
    limit = log.config.retention_ms
    if limit < 0:
        return ()
    return takewhile(lambda segment: log.now_ms - time_of(segment) > limit, segments)


class TimePolicy:
    """`retention.ms`: deletes a segment when its newest record is older. The file's time counts only if no record has a
    timestamp.
    """

    takes_active = True

    def choose(self, segments: Iterable[SegmentView], log: LogFacts) -> Iterable[SegmentView]:
        return _beyond_retention(segments, log, lambda segment: segment.largest_timestamp)


class AppendTimePolicy:
    """`retention.ms`, counted from the last write to the file: producers' timestamps can't keep a segment."""

    takes_active = True

    def choose(self, segments: Iterable[SegmentView], log: LogFacts) -> Iterable[SegmentView]:
        return _beyond_retention(segments, log, lambda segment: segment.modified_ms)


class SizePolicy:
    """`retention.bytes`: deletes a segment when the log without it still has that size."""

    takes_active = False

    def choose(self, segments: Iterable[SegmentView], log: LogFacts) -> Iterable[SegmentView]:
        limit, remaining = log.config.retention_bytes, log.size
        if limit < 0:
            return
        for segment in segments:
            remaining -= segment.size
            if remaining < limit:
                return
            yield segment


START_OFFSET = NamedPolicy("start-offset", StartOffsetPolicy())
"""Always applied, before all other policies."""

BUILT_IN: dict[str, DeletionPolicy] = {
    "time": TimePolicy(),
    "size": SizePolicy(),
    "append-time": AppendTimePolicy(),
}


def find_policy(name: str) -> NamedPolicy:
    """Look up the policy that `deletion.policies` calls `name`. Any thread; blocks while packages are searched, once.

    DeletionPolicyError: none is installed under that name, or it can't be loaded.
    """
    built_in = BUILT_IN.get(name)
    if built_in is not None:
        return NamedPolicy(name, built_in)
    found = installed_policy(name)
    if isinstance(found, DeletionPolicyError):
        raise found
    return found


def check_policies(names: Sequence[str]) -> None:
    """Raise DeletionPolicyError unless each policy can be found."""
    for name in names:
        find_policy(name)


@cache
def installed_policy(name: str) -> NamedPolicy | DeletionPolicyError:
    """The policy of that name from an installed package. The result, an error too, is kept until the process ends."""
    from importlib.metadata import entry_points  # costs a start-up 10 ms, and most have no need of it

    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        known = ", ".join(sorted({*BUILT_IN, *found.names}))
        return DeletionPolicyError(f"no deletion policy {name!r} is installed; there are: {known}")
    try:
        policy: DeletionPolicy = found[name].load()()
        if not callable(policy.choose):
            raise TypeError("choose is not a method")
    except Exception as error:
        return DeletionPolicyError(f"deletion policy {name!r} can't be loaded: {type(error).__name__}: {error}")
    return NamedPolicy(name, policy)
