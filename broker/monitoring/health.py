"""Health of the daemon and the reasons if it is not well: the answers of `/health`, and the metric `tidelog_degraded`.

    /health/live    200 while the process can answer and its event loop turns; 503 when that has stood still for a minute
    /health/ready   200 from the moment that clients are served; 503 while logs are recovered, and during a stop
    /health         200 when ready and nothing is wrong; 503 with the reasons otherwise

A degraded daemon stays ready: consumers must still get at what makes room, and a broker that is taken out of service for a
partition that can't be cleaned helps nobody. Probes that restart or route ask the first two, people and monitors the third.

    loading                 logs are being recovered
    stopping                SIGTERM has come
    uncleanable_partition   the last pass over a compacted partition failed: it grows
    disk_reserve_reached    appends are refused: log.dir.reserve.bytes are all that is free
    dead_thread             a thread that should be there has died
    flush_behind            a sync that flush.ms or flush.messages asks for is late by more than `FLUSH_GRACE_MS`
    failed_partition        a sync failed: the partition takes no records until the daemon is started again
    failed_coordinator      a partition of groups, transactions or share groups' state cannot be loaded: nobody is served from it
    damaged_log             records that were durable were damaged and left out: see the `.damaged` files, until they are deleted
    damaged_file            the scrubber has found a file that is not what was written: it is there until it is mended or gone
    backup_behind           what was acknowledged longer ago than `BACKUP_GRACE_MS` is not in the backup yet, and why
    backup_stopped          this daemon backs up no more until its next start: another one writes there, or others' data is there
    backup_damaged          the last drill has found that its cut can't be restored whole, or a sweep one that can't be read
    backup_drill_overdue    no drill has come to a good end for twice backup.verify.interval.ms
    loop_stuck              the event loop has not turned for a minute

`/health` also has notes, of what somebody should know and is no fault: a listener without authentication that others may
reach, a scrubber that fails. A scrub that has not come to its end for long is neither: the directory may be large, and
an alert of its own tells (`docker/rules.yml`).

Any thread but the loop's; no I/O.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cleaning.scrub_facts import KINDS, ScrubFacts, damage_text, kind_of
from ..security.open_listeners import open_listeners

if TYPE_CHECKING:
    from ...backup.cut.status import BackupStatus
    from ...storage.log.unified_log import UnifiedLog
    from ..requests.services import Services
    from .node_state import NodeState

FLUSH_GRACE_MS = 10_000
BACKUP_GRACE_MS = 60_000
STUCK_S = 60.0
MOST_PROBLEMS = 100
"""In one answer; a disk that fails takes thousands of partitions with it."""
MOST_HELD = 10
"""Partitions that hold the backup back which are named one by one; the others are counted."""

DEGRADED = (
    "uncleanable_partition",
    "disk_reserve_reached",
    "dead_thread",
    "flush_behind",
    "failed_partition",
    "failed_coordinator",
    "damaged_log",
    "damaged_file",
    "backup_behind",
    "backup_stopped",
    "backup_damaged",
    "backup_drill_overdue",
    "loop_stuck",
)
"""The reasons that a daemon which serves may have."""


class Problem(NamedTuple):
    """One problem: a word for machines, its subject (a partition, a directory), a line for people."""

    reason: str
    subject: str
    text: str


class Note(NamedTuple):
    """Something to know that is no problem; fields as in `Problem`."""

    note: str
    subject: str
    text: str


class Verdict(NamedTuple):
    """Answer to one HTTP question. `is_well` decides its status."""

    is_well: bool
    content: dict[str, Any]


def flush_is_behind(log: UnifiedLog, now_ms: int) -> bool:
    """True if a sync that the log's settings ask for is late."""
    return log.local.unsynced_ms(now_ms) > FLUSH_GRACE_MS + (0 if log.needs_sync else log.config.flush_ms)


def _unloaded(services: Services) -> dict[str, str]:
    """Partitions that their coordinators cannot load, by name, and why."""
    transactions, shares = services.transactions.if_made, services.share.if_made
    return {
        **services.groups.unloaded,
        **({} if transactions is None else transactions.unloaded),
        **({} if shares is None else shares.coordinator.unloaded),
    }


def _backup_problems(status: BackupStatus) -> Iterator[Problem]:
    """What is wrong with the backup: it has stopped, it is late, partitions hold back."""
    from ...backup.cut.status import STOPPED  # a daemon without a backup does without it

    if status.state == STOPPED:
        yield Problem("backup_stopped", status.store, status.reason)
        return  # what is there is another's
    if status.lag_ms > BACKUP_GRACE_MS + status.interval_ms:
        waits = ", ".join(f"{one.topic}-{one.partition}" for one in status.progress.waits_for[:3])
        why = f": {status.reason}" if status.reason else f": the cut waits for segments of {waits}" if waits else ""
        yield Problem(
            "backup_behind", status.store, f"nothing of the last {status.lag_ms / 1000:.0f} s is in the backup{why}"
        )
    elif status.lag_ms < 0 and status.reason:
        yield Problem("backup_behind", status.store, f"no cut was made since the start: {status.reason}")
    held = status.progress.held
    for topic, partition, reason, _ in held[:MOST_HELD]:
        yield Problem("backup_behind", f"{topic}-{partition}", f"the backup has an older state of it: {reason}")
    if (more := len(held) - MOST_HELD) > 0:
        yield Problem(
            "backup_behind", status.store,
            f"the backup has an older state of {more} more {'partition' if more == 1 else 'partitions'}; "
            "`tidelog backup status --http` names all",
        )  # fmt: skip
    if damaged := status.progress.damaged:
        others = f" ({len(damaged) - 1} more cuts are damaged)" if len(damaged) > 1 else ""
        yield Problem("backup_damaged", status.store, f"a kept cut can't be read: {damaged[0]}{others}")
    yield from _drill_problems(status)


def _drill_problems(status: BackupStatus) -> Iterator[Problem]:
    """What is wrong with the drills: the last one has found damage, or there was none for long."""
    last = status.drills.last
    if last is not None and last.fault:
        yield Problem("backup_damaged", status.store, f"the drill has found cut {last.cut} damaged: {last.fault}")
    if 0 < 2 * status.drill_interval_ms < status.without_drill_ms:
        hours = status.without_drill_ms / 3_600_000
        what = "of this backup is known" if status.drills.good is None else "has come to a good end"
        yield Problem(
            "backup_drill_overdue", status.store,
            f"no drill {what} for {hours:.1f} h; backup.verify.interval.ms={status.drill_interval_ms}",
        )  # fmt: skip


def _damaged_files(services: Services) -> Iterator[Problem]:
    """Partitions with damaged files, each with the first of them and what to do about it."""
    facts = ScrubFacts(services.scrubber.statuses())
    for (topic, partition), damage in facts.present.items():
        first = min(damage, key=lambda found: KINDS.index(kind_of(found)))  # records before what is made of them
        more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
        yield Problem("damaged_file", f"{topic}-{partition}", f"{damage_text(first)}{more}; {first.remedy}")
    for status in facts.statuses:
        if status.omitted:
            yield Problem(
                "damaged_file", status.directory,
                f"{status.omitted} more damaged places are not named one by one; `tidelog log scrub` reads them again",
            )  # fmt: skip


def _some_of_each(found: Sequence[Problem]) -> list[Problem]:
    """At most `MOST_PROBLEMS`, in their order. A reason that thousands of partitions have leaves room for the others."""
    if len(found) <= MOST_PROBLEMS:
        return list(found)
    seen: Counter[str] = Counter()
    ranked = []
    for place, problem in enumerate(found):
        ranked.append((seen[problem.reason], place))
        seen[problem.reason] += 1
    return [found[place] for place in sorted(place for _, place in sorted(ranked)[:MOST_PROBLEMS])]


class Health:
    """Health of one daemon. Made with the HTTP listener, long before there are logs."""

    def __init__(self, node: NodeState, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a clock that only rises."""
        self._node = node
        self._now_s = now_s
        self._lock = threading.Lock()
        self._asked_s: float | None = None

    def live(self) -> Verdict:
        """Asks the loop for a sign, and goes by how long it has not given one."""
        stuck_s = self._loop_silence_s()
        is_well = stuck_s < STUCK_S
        return Verdict(is_well, {"status": "alive" if is_well else "stuck", "loopSilenceS": round(stuck_s, 1)})

    def ready(self) -> Verdict:
        """Readiness: are clients served, how far is a recovery; problems too, which do not change it."""
        node = self._node
        content: dict[str, Any] = {"status": "ready" if node.ready else self._unready()}
        if node.ready:
            content["degraded"] = sorted({problem.reason for problem in self.problems()})
        else:
            recovery = node.recovery
            content["recovery"] = {
                "bytesDone": recovery.done_bytes,
                "bytesTotal": recovery.total_bytes,
                "partitionsRemaining": node.partitions_remaining,
            }
        return Verdict(node.ready, content)

    def whole(self) -> Verdict:
        """Health: readiness, problems and notes."""
        node = self._node
        found = list(self.problems())
        if not node.ready:
            reason = self._unready()
            text = {"loading": "logs are being recovered", "stopping": "the daemon is being stopped"}[reason]
            found.insert(0, Problem(reason, "", text))
        content = {
            "status": "ok" if not found else ("degraded" if node.ready else self._unready()),
            "ready": node.ready,
            "reasons": [problem._asdict() for problem in _some_of_each(found)],
            "reasonsOmitted": max(0, len(found) - MOST_PROBLEMS),
            "notes": [note._asdict() for note in self._notes()],
        }
        return Verdict(not found, content)

    def _notes(self) -> Iterator[Note]:
        for listener in open_listeners(self._node.config):
            yield Note("open_listener", listener.address, listener.text)
        if self._node.ready and (services := self._node.services) is not None:
            for status in services.scrubber.statuses():
                if status.reason:
                    yield Note("scrub_failed", status.directory, f"not read to look for damage: {status.reason}")

    def _unready(self) -> str:
        return "stopping" if self._node.stopping else "loading"

    def problems(self) -> Iterator[Problem]:
        """Present problems of a daemon that serves; none while it starts or stops."""
        node = self._node
        if self._loop_silence_s() >= STUCK_S:
            yield Problem(
                "loop_stuck", "", f"the event loop has not turned for {STUCK_S:g} s: a disk hangs, or there is a bug"
            )
        if not node.ready or (services := node.services) is None:
            return
        for path, space in services.logs.spaces:
            if space.is_full:
                yield Problem(
                    "disk_reserve_reached", path,
                    f"appends to {path} are refused until more than log.dir.reserve.bytes={space.reserve} are free",
                )  # fmt: skip
        for name, failure in services.cleaner.manager.uncleanable():
            yield Problem("uncleanable_partition", str(name), f"attempt {failure.attempts}: {failure.cause}")
        if dead := services.cleaner.pool.dead_threads:
            yield Problem(
                "dead_thread", "cleaner", f"{dead} cleaner {'thread has' if dead == 1 else 'threads have'} died"
            )
        if dead := services.partitions.dead_threads:
            yield Problem(
                "dead_thread",
                "sync",
                f"{dead} {'thread has' if dead == 1 else 'threads have'} died: of syncs and slow disks",
            )
        for name, why in _unloaded(services).items():
            yield Problem("failed_coordinator", name, f"it cannot be loaded, and nobody is served from it: {why}")
        now_ms = services.time.milliseconds()
        for log in services.logs.logs():
            if log.failure is not None:
                yield Problem("failed_partition", log.name, str(log.failure))
            elif flush_is_behind(log, now_ms):
                yield Problem(
                    "flush_behind", log.name,
                    f"records have waited {log.local.unsynced_ms(now_ms) / 1000:.0f} s for a sync; "
                    f"flush.ms={log.config.flush_ms}, flush.messages={log.config.flush_messages}",
                )  # fmt: skip
            if log.holes:
                hole = log.holes[0]
                where = "a hole at" if len(log.holes) == 1 else f"{len(log.holes)} holes, the first at"
                yield Problem(
                    "damaged_log", log.name,
                    f"{where} offsets {hole.first_offset} to {hole.last_offset}: it was "
                    f"damaged, and is kept in {log.directory}/{hole.name}; delete that when it is settled",
                )  # fmt: skip
        if services.backup is not None:
            yield from _backup_problems(services.backup.status())
        yield from _damaged_files(services)

    def _loop_silence_s(self) -> float:
        """Seconds for which the loop has owed a sign; 0 if it has given the last one, and is asked for the next."""
        with self._lock:
            if self._asked_s is not None:
                return self._now_s() - self._asked_s
            self._asked_s = self._now_s()
        try:
            self._node.loop.call_soon_threadsafe(self._answered)
        except RuntimeError:  # closed: the process ends
            self._answered()
        return 0.0

    def _answered(self) -> None:
        with self._lock:
            self._asked_s = None
