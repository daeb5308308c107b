"""What clients did and saw, and the judgement of it, which knows Kafka's promises and nothing of the daemon's code.

Every record has a name of its own. From acknowledgements and reads it is known which name an offset has; a `Broken` tells
the first promise that was not kept:

    one name for each offset, one offset for each name            (given twice, duplicated)
    an acknowledged record is read, until retention, deletion or cleaning may take it    (lost)
    records of a producer stand in the order in which it wrote them                      (reordered)
    a reader of committed data sees all of a committed transaction, nothing of another   (uncommitted, aborted)
    a refused record is nowhere, and nothing is read that nobody wrote
    log start ≤ last stable offset ≤ high watermark; none goes back on one connection; nothing is read from beyond
    offsets of a log that is not cleaned have no gaps
    the log's start moves for DeleteRecords as far as it was asked, and for retention past what is old enough; behind what
    DeleteRecords was answered for it never is again
    the last record of a key stays, of aborted ones none counts; a tombstone stays for delete.retention.ms, a record for
    min.compaction.lag.ms                                                                (docs/CLEANER.md)
    of a transaction whose end nobody knows all counts, or nothing

A name stands in the record's header `n`, or, where there can be none, at the beginning of its value, before a `|`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from simulation.scheduler import Simulation
from tidelog.protocol.messages.fetch import PartitionData
from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records

Place = tuple[str, int]
COMMITTED = 1
NO_OFFSET = -1
EVERYTHING = 1 << 62


class Broken(Exception):
    """A promise that was not kept."""


class Outcome(Enum):
    """What a writer knows of a record, or of a transaction."""

    OPEN = auto()
    UNKNOWN = auto()
    DONE = auto()
    REFUSED = auto()


@dataclass
class Transaction:
    """OPEN until its end is asked for, UNKNOWN until a commit is acknowledged, DONE when committed, REFUSED when aborted."""

    name: str
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True)
class Sent:
    """A record that a writer has sent, or is about to.

    Attributes:
        writer, number: whose, and which of its records in that partition.
        offset: where it stands, as far as anybody knows.
        at_ms: its timestamp, of the daemon's wall clock; of format 0, without `has_time`, when it was written.
        connection: which of the writer's connections it goes by, if it has no sequence number.
    """

    name: str
    place: Place
    key: bytes | None
    is_tombstone: bool
    writer: str
    number: int
    transaction: Transaction | None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = NO_OFFSET
    at_ms: int = 0
    has_time: bool = True
    connection: int = 0


@dataclass
class Rules:
    """What may become of records, by the settings that the topic has had. Times in ms.

    Attributes:
        is_keyed: each record has a key.
        is_cleaned: they may go for newer ones of their key.
        retention_ms: age at which they may go; None: never, unless `retains_bytes`.
        retains_bytes: they may go at any age, since size decides, or nobody knows what does.
        tombstone_ms, lag_ms: delete.retention.ms and min.compaction.lag.ms, at least.
    """

    is_cleaned: bool = False
    retention_ms: int | None = None
    retains_bytes: bool = False
    tombstone_ms: int = 0
    lag_ms: int = 0
    is_keyed: bool = False


@dataclass
class Log:
    """What is known of one partition. `asked`: DeleteRecords may have gone up to there."""

    place: Place
    rules: Rules = field(default_factory=Rules)
    at: dict[int, Sent] = field(default_factory=dict)
    start: int = 0
    asked: int = 0
    deleted: int = 0
    """DeleteRecords was answered: all below is gone, for ever."""
    end: int = 0
    """One more than the highest offset that anybody knows."""


@dataclass
class Reading:
    """What was read of a partition at the end: names of all records, and of those of committed data, below `stable`."""

    place: Place
    start: int
    found: set[str]
    committed: set[str]
    stable: int


@dataclass
class Marks:
    """Watermarks that one connection has been told of a partition."""

    high: int = -1
    stable: int = -1
    start: int = -1


def name_of(value: bytes | memoryview | None) -> str:
    """The name that a value begins with."""
    return bytes(value or b"?").partition(b"|")[0].decode(errors="replace")


class History:
    """One run. World's thread.

    Attributes:
        now_ms: the daemon's wall clock, moved by the world; it must be called after an answer was received.
        trusts_clock: False once the clock was moved back: ages tell nothing then.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self.logs: dict[Place, Log] = {}
        self.sent: dict[str, Sent] = {}
        self.counts: dict[str, int] = {}
        self.events: list[str] = []
        self.now_ms = lambda: 0
        self.has_lost_power = lambda: False
        self.trusts_clock = True

    def note(self, what: str, **details: object) -> None:
        """Something that happened: counted, and part of the digest."""
        self.counts[what] = self.counts.get(what, 0) + 1
        text = " ".join([what, *(f"{name.strip('_')}={value}" for name, value in details.items())])
        self._sim.note(text)
        self.events.append(f"{self._sim.now_ns / 1e9:9.4f} {text}")

    def log(self, place: Place, rules: Rules | None = None) -> Log:
        found = self.logs.get(place)
        if found is None:
            found = self.logs[place] = Log(place, rules or Rules())
        return found

    def forget(self, topic: str) -> None:
        """A topic was deleted. Records that may still be under way to it are remembered."""
        for place in [place for place in self.logs if place[0] == topic]:
            del self.logs[place]
        unsure = (Outcome.UNKNOWN, Outcome.OPEN)
        self.sent = {name: sent for name, sent in self.sent.items() if sent.place[0] != topic or sent.outcome in unsure}
        for sent in self.sent.values():
            if sent.place[0] == topic:
                sent.offset = NO_OFFSET

    # --- writers ---

    def sends(self, sent: Sent) -> None:
        assert sent.name not in self.sent, f"{sent.name} is no name of its own"
        self.sent[sent.name] = sent
        self.log(sent.place)

    def acknowledged(self, records: list[Sent], base_offset: int) -> None:
        """A Produce was answered without an error; `base_offset` is NO_OFFSET where the answer does not tell."""
        self.note("acknowledged", place=records[0].place, first=records[0].name, count=len(records), offset=base_offset)
        for position, sent in enumerate(records):
            sent.outcome = Outcome.DONE
            if base_offset != NO_OFFSET:
                self._stands(sent, base_offset + position)

    def refused(self, records: list[Sent], error: int) -> None:
        """A Produce was answered with an error that says that nothing was written."""
        self.note("refused", place=records[0].place, first=records[0].name, error=error)
        for sent in records:
            if sent.outcome is not Outcome.DONE:
                sent.outcome = Outcome.REFUSED

    def _stands(self, sent: Sent, offset: int) -> None:
        log = self.log(sent.place)
        other = log.at.setdefault(offset, sent)
        if other is not sent:
            raise Broken(f"{sent.place}: offset {offset} was {other.name}, and is {sent.name}")
        if sent.offset not in (NO_OFFSET, offset):
            raise Broken(f"{sent.place}: {sent.name} stands at {sent.offset} and at {offset}")
        sent.offset = offset
        log.end = max(log.end, offset + 1)

    # --- readers ---

    def fetched(
        self, place: Place, position: int, isolation: int, data: PartitionData, marks: Marks, found: dict[int, str]
    ) -> int:
        """A partition's part of a Fetch answer, without an error; returns the next position, and puts names in `found`."""
        log = self.log(place)
        self._watermarks(log, data, marks)
        end = data.last_stable_offset if isolation == COMMITTED else data.high_watermark
        aborted = sorted((txn.first_offset, txn.producer_id) for txn in data.aborted_transactions or ())
        hidden: set[int] = set()
        buffer = bytes(data.records or b"")
        started = position
        for header in iterate_batches(buffer):
            last = header.last_offset
            if last < position:
                if position != started:
                    raise Broken(f"{place}: the batch at {header.base_offset} comes behind {position}")
                continue
            if last >= end:
                raise Broken(f"{place}: offset {last} is read, beyond {end}")
            if header.base_offset > position and not log.rules.is_cleaned:
                raise Broken(f"{place}: offsets {position} to {header.base_offset - 1} are missing")
            while aborted and aborted[0][0] <= last:
                hidden.add(aborted.pop(0)[1])
            if header.is_control:
                hidden.discard(header.producer_id)
            else:
                is_hidden = isolation == COMMITTED and header.is_transactional and header.producer_id in hidden
                for record in iterate_records(buffer, header.position):
                    if record.offset >= position:
                        name = self.read(place, record, isolation, is_hidden)
                        if not is_hidden:
                            found[record.offset] = name
            position = last + 1
        self.note("fetched", place=place, from_=started, to=position, isolation=isolation)
        return position

    def _watermarks(self, log: Log, data: PartitionData, marks: Marks) -> None:
        high, stable, start = data.high_watermark, data.last_stable_offset, data.log_start_offset
        if stable > high or start > high:
            raise Broken(f"{log.place}: start {start}, stable {stable}, high watermark {high}")
        if high < marks.high or stable < marks.stable or start < marks.start:
            raise Broken(f"{log.place}: {marks} were told, and now high {high}, stable {stable}, start {start}")
        marks.high, marks.stable, marks.start = high, stable, start
        self.starts(log, start)

    def starts(self, log: Log, start: int) -> None:
        """Somebody was told where a log starts. Broken where nothing may have taken what lies below."""
        if start <= log.start:
            return
        below, log.start = log.start, start
        rules = log.rules
        if start <= log.asked or rules.retains_bytes:
            return
        if rules.retention_ms is None:
            if self.has_lost_power() and not any(below <= offset < start for offset in log.at):
                return  # the name of its first file went, of which nobody was told anything
            raise Broken(f"{log.place}: the log starts at {start}; {log.asked} was asked for, and it has no retention")
        if not self.trusts_clock:
            return
        youngest = self.now_ms() - rules.retention_ms
        for offset in range(max(below, log.asked), start):
            sent = log.at.get(offset)
            if sent is not None and sent.at_ms > youngest and sent.has_time and not self._was_superseded(log, sent):
                age = self.now_ms() - sent.at_ms
                raise Broken(
                    f"{log.place}: {sent.name} at {offset} went when {age} ms old; {rules.retention_ms} are kept"
                )

    def _was_superseded(self, log: Log, sent: Sent) -> bool:
        """Whether cleaning may have taken it first: then its segment is as old as what is left of that."""
        if not log.rules.is_cleaned:
            return False
        may_be_aborted = sent.transaction is not None and sent.transaction.outcome is not Outcome.DONE
        return (
            may_be_aborted
            or sent.is_tombstone
            or any(other.key == sent.key and at > sent.offset for at, other in log.at.items())
        )

    def stays_deleted(self, place: Place, before: int, start: int) -> None:
        """A log starts there, as somebody was told; `before`: `Log.deleted` when he asked."""
        if start < before:
            raise Broken(f"{place}: records below {before} were deleted, and the log starts at {start}")

    def read(self, place: Place, record: Record, isolation: int, is_hidden: bool) -> str:
        """One record that was read; its name. `is_hidden`: its transaction is told to be aborted."""
        name = bytes(record.headers[0][1] or b"").decode() if record.headers else name_of(record.value)
        return self.stands_at(place, name, record.offset, record.key, record.value is None, isolation, is_hidden)

    def stands_at(
        self, place: Place, name: str, offset: int, key: bytes | None, is_tombstone: bool, isolation: int = 0,
        is_hidden: bool = False,
    ) -> str:  # fmt: skip
        """A record of that name was read there."""
        sent = self.sent.get(name)
        if sent is None or sent.place != place or sent.key != key or is_tombstone is not sent.is_tombstone:
            raise Broken(f"{place}: what is read at {offset}, {name}, was not written there")
        if sent.outcome is Outcome.REFUSED:
            raise Broken(f"{place}: {name} was refused, and is read at {offset}")
        self._stands(sent, offset)
        txn = sent.transaction
        if isolation != COMMITTED or txn is None:
            return name
        if is_hidden and txn.outcome is Outcome.DONE:
            raise Broken(f"{place}: {name} at {offset} of the committed transaction {txn.name} is told to be aborted")
        if not is_hidden and txn.outcome in (Outcome.OPEN, Outcome.REFUSED):
            raise Broken(f"{place}: {name} at {offset} of {txn.name} ({txn.outcome.name}) is read as committed")
        return name

    # --- the end ---

    def judge_log(
        self, place: Place, start: int, found: dict[int, str], committed: set[str], stable: int = EVERYTHING
    ) -> None:
        """After the last clean start: all that is in a log, by reading it whole, without and with regard to transactions.

        `stable`: where the committed part ended, as a transaction is open.
        """
        log = self.log(place)
        self.starts(log, start)
        self.stays_deleted(place, log.deleted, start)
        mine = [sent for sent in self.sent.values() if sent.place == place]
        names = set(found.values())
        newest = self.newest_of_keys(found, committed)
        for sent in mine:
            txn = sent.transaction
            if sent.offset != NO_OFFSET and sent.offset < start:
                continue
            is_wanted = sent.outcome is Outcome.DONE and (txn is None or txn.outcome is Outcome.DONE)
            if is_wanted and sent.name not in names and not self.may_be_gone(sent, log, newest, mine):
                raise Broken(
                    f"{place}: {sent.name} was acknowledged at {sent.offset}, and is gone; the log starts at {start}"
                )
            if txn is not None and sent.name in names:
                is_read = sent.name in committed or sent.offset >= stable
                # Cleaning goes on between the two readings.
                if txn.outcome is Outcome.DONE and not is_read and not self.may_be_gone(sent, log, newest, mine):
                    raise Broken(f"{place}: {sent.name} of the committed {txn.name} is not read as committed")
                if txn.outcome is Outcome.REFUSED and sent.name in committed:
                    raise Broken(f"{place}: {sent.name} of the aborted {txn.name} is read as committed")
        self._judge_order(place, found)

    def judge_transactions(self, readings: Iterable[Reading]) -> None:
        """After the last clean start: of a transaction whose end nobody was told of all counts, or nothing."""
        read: dict[str, Sent] = {}
        unread: dict[str, Sent] = {}
        for reading in readings:
            for name in sorted(reading.found):
                sent = self.sent[name]
                if sent.transaction is not None and sent.transaction.outcome is Outcome.UNKNOWN:
                    if name in reading.committed:
                        read[sent.transaction.name] = sent
                    elif reading.start <= sent.offset < reading.stable and not self.log(reading.place).rules.is_cleaned:
                        unread[sent.transaction.name] = sent
        for name in sorted(read.keys() & unread.keys()):
            one, other = read[name], unread[name]
            raise Broken(
                f"{one.place}: {one.name} of {name} is read as committed, and {other.name} in {other.place} is not"
            )

    def ends_at(self, place: Place, end: int) -> None:
        """What lies behind it was lost, as it may be; of transactions, and of where the log starts, nothing is known any more."""
        log = self.log(place)
        log.start = log.deleted = 0
        for sent in self.sent.values():
            if sent.place != place or sent.outcome is Outcome.REFUSED:
                continue
            if sent.offset >= end or sent.transaction is not None:
                sent.outcome = Outcome.UNKNOWN
            if sent.offset >= end:
                log.at.pop(sent.offset, None)
                sent.offset = NO_OFFSET
            sent.transaction = None

    def newest_of_keys(self, found: dict[int, str], committed: set[str]) -> dict[bytes | None, int]:
        """Offset of the last record of each key that counts: those of transactions that were not committed don't."""
        newest: dict[bytes | None, int] = {}
        for offset, name in sorted(found.items()):
            sent = self.sent[name]
            if sent.transaction is None or name in committed:
                newest[sent.key] = offset
        return newest

    def may_be_gone(self, sent: Sent, log: Log, newest: dict[bytes | None, int], mine: Iterable[Sent]) -> bool:
        """Whether cleaning may have taken a record that counts, at or behind the start of its log."""
        rules = log.rules
        if sent.offset == NO_OFFSET:
            return log.start > 0 or rules.is_cleaned
        if not rules.is_cleaned:
            return False
        age_ms = self.now_ms() - sent.at_ms if self.trusts_clock else EVERYTHING
        if newest.get(sent.key, -1) > sent.offset:
            return age_ms >= rules.lag_ms
        if sent.is_tombstone:
            return age_ms >= rules.tombstone_ms
        # A tombstone behind it may have taken it along, and be gone.
        return any(
            other.key == sent.key and other.is_tombstone and other.outcome is not Outcome.REFUSED
            and (other.offset > sent.offset or other.offset == NO_OFFSET)
            for other in mine
        )  # fmt: skip

    def _judge_order(self, place: Place, found: dict[int, str]) -> None:
        last: dict[str, Sent] = {}
        for offset in sorted(found):
            sent = self.sent[found[offset]]
            before = last.get(sent.writer)
            # Who gives a connection up unanswered, and goes on by another, is promised no order.
            is_promised = before is not None and (sent.outcome is Outcome.DONE or sent.connection == before.connection)
            if before is not None and is_promised and before.number > sent.number:
                raise Broken(f"{place}: {sent.name} stands behind {before.name}, which was written later")
            last[sent.writer] = sent
