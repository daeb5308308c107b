"""What the scrubber tells: how far it is in each data directory, and what it has found damaged. Immutable values; any thread."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

NEVER = -1
"""Time of what has not happened yet."""


class ScrubState(Enum):
    """What the scrubber of one data directory does at the moment."""

    OFF = "off"
    """The rate is 0, or the daemon has not begun."""
    READING = "reading"
    """A pass is under way."""
    WAITING = "waiting"
    """All was read; the next pass begins later."""
    FAILED = "failed"
    """It can't go on at the moment (`reason`), and tries again every minute. Damage is no such reason."""


class ScrubDamage(NamedTuple):
    """One thing that is damaged.

    Attributes:
        topic, partition: whose file it is.
        path: of the file.
        position: byte in the file where the damaged batch or entry begins; -1 where it concerns the whole file.
        rule: its name in `inspect.verify_report.RULES`.
        detail: the facts, one line.
        found_ms: when it was first found, ms since 1970.
        still_there: False once a later look has found the file mended. Such a one is told until the next pass has ended.
    """

    topic: str
    partition: int
    path: str
    position: int
    rule: str
    detail: str
    found_ms: int
    still_there: bool = True

    @property
    def meaning(self) -> str:
        """Meaning of its rule."""
        from ..inspect.verify_report import RULES

        return RULES[self.rule].meaning

    @property
    def remedy(self) -> str:
        """What to do about it."""
        from ..inspect.verify_report import RULES

        return RULES[self.rule].remedy


class ScrubStatus(NamedTuple):
    """State of the scrubber in one data directory. Times are ms since 1970, `NEVER` where there is none.

    Attributes:
        directory: its path.
        state, reason: what it does; why not, if it failed.
        pass_number: 1 for the first pass over the directory, counted over restarts; 0 before it.
        begun_ms: when the present pass, or while waiting the last one, began.
        done_bytes, total_bytes: of log files: what this pass is done with, of what it found when it began.
        whole_begun_ms, whole_ms: begin and end of the last pass that was completed: what was closed at the one has been read
            whole at the other.
        bytes_per_second: the rate set; 0: off.
        read_bytes: read since the daemon was started, of files of all kinds.
        found: number of things found damaged since the daemon was started, those that are gone since included.
        damage: by topic, partition and place; what lay in segments that are gone is left out.
        omitted: number of further damaged things that are not in `damage`, which has a limit.
    """

    directory: str
    state: ScrubState
    reason: str
    pass_number: int
    begun_ms: int
    done_bytes: int
    total_bytes: int
    whole_begun_ms: int
    whole_ms: int
    bytes_per_second: int
    read_bytes: int
    found: int
    damage: tuple[ScrubDamage, ...]
    omitted: int

    @property
    def present(self) -> tuple[ScrubDamage, ...]:
        """Damage that is still there."""
        return tuple(damage for damage in self.damage if damage.still_there)
