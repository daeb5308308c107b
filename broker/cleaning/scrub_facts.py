"""Facts of the scrubber (`storage/scrub/`) in the words of `/health`, `/metrics`, the console and `tidelog why`.

    {"scrub": {"state": "reading", "reason": null, "wholeBegunMs": …, "wholeMs": …, "passDoneBytes": …,
               "passBytes": …, "bytesPerSecond": …},
     "damage": [{"file", "kind", "position", "rule", "meaning", "detail", "remedy", "foundMs", "isMended"}],
     "damageOmitted": 0}

Times are ms since 1970, null for what has not happened; `position` is null where the whole file is meant. What is mended is
told until the next pass has ended, and counts nowhere.

A snapshot of the scrubber's statuses is grouped by partition once for each answer: an answer costs as much as there is damage,
however many partitions it is about. Any thread; no I/O, no lock.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...storage.scrub.status import NEVER
from ...storage.segment.names import SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...storage.log.unified_log import UnifiedLog
    from ...storage.scrub.status import ScrubDamage, ScrubStatus

OTHER_KIND = "other"
KINDS = (*(suffix[1:] for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)), OTHER_KIND)
"""Kinds of files that can be damaged: by their suffix, the rest (checkpoints, identity) as one."""


def file_of(damage: ScrubDamage) -> str:
    """Name of the damaged file, without its directory."""
    return damage.path.rpartition("/")[2]


def kind_of(damage: ScrubDamage) -> str:
    """One of `KINDS`."""
    parsed = parse_file_name(file_of(damage))
    return OTHER_KIND if parsed is None else parsed.suffix[1:]


def place_text(damage: ScrubDamage) -> str:
    """File and byte of a damage."""
    return file_of(damage) if damage.position < 0 else f"{file_of(damage)} at byte {damage.position}"


def damage_text(damage: ScrubDamage) -> str:
    """A damage in one line: where it is, what its rule means, the facts."""
    return f"{place_text(damage)}: {damage.meaning} ({damage.detail})"


def describe_damage(damage: ScrubDamage) -> dict[str, Any]:
    """A damage as JSON."""
    return {
        "file": file_of(damage),
        "kind": kind_of(damage),
        "position": damage.position if damage.position >= 0 else None,
        "rule": damage.rule,
        "meaning": damage.meaning,
        "detail": damage.detail,
        "remedy": damage.remedy,
        "foundMs": damage.found_ms,
        "isMended": not damage.still_there,
    }


def describe_status(status: ScrubStatus) -> dict[str, Any]:
    """Status of one directory as JSON."""
    return {
        "state": status.state.value,
        "reason": status.reason or None,
        "wholeBegunMs": time_or_none(status.whole_begun_ms),
        "wholeMs": time_or_none(status.whole_ms),
        "passDoneBytes": status.done_bytes,
        "passBytes": status.total_bytes,
        "bytesPerSecond": status.bytes_per_second,
    }


def time_or_none(at_ms: int) -> int | None:
    """A time of a status; None if it has not come."""
    return None if at_ms == NEVER else at_ms


def damaged_files(damages: Iterable[ScrubDamage]) -> dict[str, float]:
    """Number of damaged files by kind; 0 too, or the series of a kind would vanish when its last file is mended."""
    kinds = {damage.path: kind_of(damage) for damage in damages}
    counts = Counter(kinds.values())
    return {kind: float(counts[kind]) for kind in KINDS}


class ScrubFacts:
    """Statuses of all data directories at one moment, their damage by partition."""

    def __init__(self, statuses: Sequence[ScrubStatus]) -> None:
        self.statuses = statuses
        self._by_directory = {status.directory: status for status in statuses}
        self._damage: dict[tuple[str, int], list[ScrubDamage]] = {}
        for status in statuses:
            for damage in status.damage:
                self._damage.setdefault((damage.topic, damage.partition), []).append(damage)

    @property
    def present(self) -> Mapping[tuple[str, int], Sequence[ScrubDamage]]:
        """Damage that is still there, of each partition that has any."""
        there = {place: [damage for damage in found if damage.still_there] for place, found in self._damage.items()}
        return {place: found for place, found in there.items() if found}

    def status_of(self, log: UnifiedLog) -> ScrubStatus | None:
        """Status of the directory that the log is in; None if it is none of them."""
        return self._by_directory.get(log.directory.rpartition("/")[0])

    def damage_of(self, log: UnifiedLog) -> Sequence[ScrubDamage]:
        """Damage of one partition, what is mended included."""
        return self._damage.get((log.topic, log.partition), ())

    def describe(self, log: UnifiedLog, limit: int) -> dict[str, Any]:
        """Facts of one partition as JSON, with at most `limit` damages."""
        status, damage = self.status_of(log), self.damage_of(log)
        return {
            "scrub": None if status is None else describe_status(status),
            "damage": [describe_damage(found) for found in damage[:limit]],
            "damageOmitted": max(0, len(damage) - limit),
        }


NOT_SCRUBBED = ScrubFacts(())
"""Facts where nothing is known."""
