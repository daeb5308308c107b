"""Findings of `tidelog log verify`: the table of rules, and the report that collects findings.

A *fault* breaks an invariant of the log; a *note* is worth knowing and normal in some state (a crash before the next
start, a deletion that waits). The table is the list of what is checked: a test plants one of each. It has the one remedy of each,
whoever tells it: `log verify`, `log scrub`, /health, `tidelog why`, the console, the log. So a remedy holds whether a daemon runs
or not.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_LIMIT = 10  # of one kind in one file; the rest is counted

# A restart alone finds nothing: it reads nothing below the recovery point (ADR 51).
_ASIDE = (
    "stop the daemon and put the file back from a copy; without one delete .kafka_cleanshutdown and "
    "recovery-point-offset-checkpoint in the data directory and start: what is damaged is put aside in a .damaged file, or cut "
    "off where nothing follows, every other record stays"
)
_REBUILD = (
    "a daemon whose scrubber finds it makes the index anew when retention comes by (log.retention.check.interval.ms); else stop "
    "it, delete the file and start: it is rebuilt from the log"
)
_RECOVER = (
    "stop the daemon; delete the file, and in the data directory .kafka_cleanshutdown and "
    "recovery-point-offset-checkpoint; start: it is rebuilt from the logs"
)
_RESTORE = "restore the partition from a copy, or delete the damaged segment and lose its records"
_LOST = "the records are gone; restore the partition from a copy if they matter"
_SEEK = "nothing is lost; look-ups by time may miss its records"
_RECOUNT = "stop the daemon, delete the file and start: records are counted anew, by cause from then on"
_LOOK = "nothing has to be done"
_DISK = (
    "look at what the system's log says of the disk, and replace it if need be; restore the partition from a copy, or delete the "
    "segment and lose its records"
)


REMADE = ("index-", "timeindex-")
"""Rules that begin so are of indexes, which a daemon makes anew from the log once they are doubted (ADR 51, 65)."""


class Rule(NamedTuple):
    """One kind of finding. `remedy` says what to do about it."""

    is_fault: bool
    meaning: str
    remedy: str


RULES: dict[str, Rule] = {
    # names
    "foreign-file": Rule(False, "a file that is none of a log's", "move it away if nobody knows it"),
    "foreign-directory": Rule(False, "a directory that is no partition's", "move it away if nobody knows it"),
    "leftover": Rule(False, "a temporary or deleted file waits for its end", "the next start removes or completes it"),
    "vanished": Rule(False, "a file was deleted while it was looked for: the daemon runs", _LOOK),
    "orphan": Rule(True, "an index without its log", "delete the file; the next start would"),
    "index-missing": Rule(True, "a segment without an index", "start the daemon: it is rebuilt from the log"),
    "no-segment": Rule(True, "a partition without a log file", "restore it, or delete the directory"),
    "unreadable": Rule(True, "the disk can't read a part of the file", _DISK),
    "no-access": Rule(
        True,
        "the file may not be read",
        "give it back to the user that the daemon runs as (chown -R, chmod -R u+rwX), and look who has taken it away",
    ),
    # segments and batches
    "segment-overlap": Rule(True, "a segment begins before the one before it ends", _RESTORE),
    "segment-gap": Rule(True, "offsets are missing between two segments, and no compaction took them", _LOST),
    "hole": Rule(
        False,
        "offsets that were lost to damage; what stood there is kept in this file",
        "restore the records if there is a copy; delete the file when that is settled",
    ),
    "segment-span": Rule(
        True, "a segment spans more offsets than its indexes can say", "start the daemon: it is split, nothing is lost"
    ),
    "batch-crc": Rule(True, "the checksum is not that of the bytes", _ASIDE),
    "batch-garbage": Rule(True, "bytes that are no batch", _ASIDE),
    "batch-zeros": Rule(True, "zeros where batches should be", _ASIDE),
    "batch-cut-off": Rule(True, "the last batch is not whole", _ASIDE),
    "unfinished-tail": Rule(
        False, "the active segment ends in bytes that are being written, or are cut at start", _LOOK
    ),
    "batch-too-large": Rule(False, "a batch is too large to be read whole: its records were not checked", _LOOK),
    "batch-offset": Rule(True, "an offset below the segment's", _ASIDE),
    "batch-order": Rule(True, "offsets don't rise", _ASIDE),
    "batch-gap": Rule(True, "offsets are missing between two batches, and no compaction took them", _LOST),
    "gap-unexplained": Rule(False, "offsets are missing; whether by compaction is not known here", _LOOK),
    "batch-count": Rule(True, "number of records and offsets of a batch disagree", _RESTORE),
    "batch-attributes": Rule(True, "attributes that mean nothing", _RESTORE),
    "batch-codec": Rule(True, "compressed by no known codec", _RESTORE),
    "batch-producer": Rule(True, "id, epoch and sequence of the producer contradict one another", _RESTORE),
    "records-unreadable": Rule(True, "the records of a batch can't be read", _RESTORE),
    "records-offsets": Rule(True, "offsets within a batch don't rise, or leave it", _RESTORE),
    "max-timestamp": Rule(True, "the header's largest timestamp is not that of the records", _SEEK),
    "control-record": Rule(True, "a control batch without a control record", _RESTORE),
    "wrapper": Rule(True, "a compressed message breaks the rules of formats 0 and 1", _RESTORE),
    "leader-epoch-order": Rule(
        True, "a batch has an impossible leader epoch, or an older one than one before it", _RESTORE
    ),
    # offset index
    "index-torn": Rule(True, "the size is no whole number of entries", _REBUILD),
    "index-order": Rule(True, "entries don't rise", _REBUILD),
    "index-position": Rule(True, "an entry points where no batch begins", _REBUILD),
    "index-offset": Rule(True, "an entry's offset is not the last one of its batch", _REBUILD),
    # time index
    "timeindex-torn": Rule(True, "the size is no whole number of entries", _REBUILD),
    "timeindex-order": Rule(True, "entries don't rise", _REBUILD),
    "timeindex-entry": Rule(True, "an entry's timestamp is not the largest up to its offset", _REBUILD),
    "timeindex-last": Rule(True, "a closed segment's last entry is not its largest timestamp", _REBUILD),
    # transaction index
    "txnindex-torn": Rule(True, "the size is no whole number of entries", _RECOVER),
    "txnindex-order": Rule(True, "an entry of an unknown version, or entries that don't rise", _RECOVER),
    "txnindex-missing": Rule(True, "an aborted transaction is not in the index: its records would be read", _RECOVER),
    "txnindex-extra": Rule(True, "an entry of a transaction that was not aborted here", _RECOVER),
    "txnindex-entry": Rule(True, "an entry disagrees with the log", _RECOVER),
    # producers
    "snapshot-corrupt": Rule(True, "not a snapshot", _RECOVER),
    "snapshot-beyond": Rule(True, "a snapshot of an offset behind the log's end", "delete the file"),
    "snapshot-stray": Rule(False, "a snapshot of no segment", "the next start removes it"),
    "snapshot-differs": Rule(True, "a producer is not as the log says", _RECOVER),
    "snapshot-lacks": Rule(False, "a producer of the log is not in a snapshot: expired, normally", _LOOK),
    "producer-epoch": Rule(True, "a producer's epoch goes back", _RESTORE),
    # leader epochs, identity
    "epochs-corrupt": Rule(True, "not a leader epoch checkpoint", _RECOVER),
    "epochs-beyond": Rule(True, "an epoch starts behind the log's end", _RECOVER),
    "epochs-differ": Rule(True, "batches are of other epochs than the checkpoint says", _RECOVER),
    "metadata-corrupt": Rule(True, "partition.metadata can't be read", "start the daemon: it is written anew"),
    "metadata-missing": Rule(False, "no partition.metadata", "the next start writes it"),
    "ledger-corrupt": Rule(True, "not a ledger, or one that does not add up", _RECOUNT),
    "ledger-differs": Rule(True, "a segment has not as many records as the ledger says", _RECOUNT),
    "ledger-foreign": Rule(
        False, "somebody else has cleaned since the ledger was written", "the next pass or deletion counts what is left"
    ),
    "topic-id": Rule(
        True, "partitions of one topic have different ids, or two topics have one", "restore the right file"
    ),
    # data directory
    "meta-properties": Rule(True, "meta.properties is missing or broken", "restore it: version=1, cluster.id, node.id"),
    "checkpoint-corrupt": Rule(True, "not an offset checkpoint", "delete the file: more is recovered at start"),
    "checkpoint-bounds": Rule(True, "an offset that the log does not have", "delete the line, or the file"),
    "checkpoint-unknown": Rule(False, "a line for a partition that is not here", _LOOK),
}


class Finding(NamedTuple):
    """One finding of a check.

    Attributes:
        rule: its name in `RULES`.
        path: of the file, or the directory.
        position: byte in it, −1 where it concerns the whole.
        what: the facts, one line.
    """

    rule: str
    path: str
    position: int
    what: str

    @property
    def is_fault(self) -> bool:
        return RULES[self.rule].is_fault

    @property
    def meaning(self) -> str:
        return RULES[self.rule].meaning

    @property
    def remedy(self) -> str:
        """The remedy of its rule."""
        return RULES[self.rule].remedy


_NOT_OF_A_FILE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, None))
"""Errors that say something of the process or the machine and nothing of the file."""


def unreadable_finding(error: OSError, path: str, position: int = -1) -> Finding:
    """Finding of a file that can't be read: `path` at `position` unless the error names another. Raises `error` if the file is
    gone, or if the next one could not be read either.
    """
    if isinstance(error, FileNotFoundError) or error.errno in _NOT_OF_A_FILE:
        raise error
    rule = "no-access" if isinstance(error, PermissionError) else "unreadable"
    named = str(error.filename or path)
    return Finding(rule, named, position if named == path else -1, str(error.strerror))


class Report:
    """Collects findings, up to a limit for each kind and file. One thread."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, rule: str, path: str, position: int, what: str) -> None:
        assert rule in RULES, rule
        self._counts[rule, path] += 1
        if self._counts[rule, path] <= _LIMIT:
            self._found.append(Finding(rule, path, position, what))

    def mark(self) -> int:
        """Current position among the undrained findings, for `rewind`."""
        return len(self._found)

    def rewind(self, mark: int) -> None:
        """Drop the findings since `mark`; counts for the limit stay."""
        del self._found[mark:]

    def drain(self) -> Iterator[Finding]:
        """Findings since the last call, and the number of those left out."""
        found, self._found = self._found, []
        yield from found
        for (rule, path), count in self._counts.items():
            if count > _LIMIT:
                yield Finding(rule, path, -1, f"and {count - _LIMIT} more")
        self._counts.clear()
