"""Random transactions of several producers in one log, with rolls, syncs, stops and kills in between: what a read_committed
consumer ends up with is what was committed, whatever offset it starts from. The consumer here filters as clients do: from
the list of aborted transactions that comes with each fetch, and the markers."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.logs import ROOT, World, append
from support.mock_time import START_MS
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.producers.transaction_marker import TransactionMarker, marker_batch
from tidelog.storage.values import AppendOrigin

PRODUCERS = st.integers(1, 4)
COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"


def read_committed(log: UnifiedLog, offset: int, max_bytes: int) -> list[tuple[int, bytes | None]]:
    """(offset, value) of what a consumer of committed data takes from `offset` on."""
    found: list[tuple[int, bytes | None]] = []
    while True:
        info = log.read(offset, max_bytes, limit_offset=log.last_stable_offset)
        if info.file is None:
            return found
        pending = sorted((txn.first_offset, txn.producer_id) for txn in log.aborted_transactions(offset, info))
        data = info.file.pread(info.size, info.position)
        info.release()
        skipped: set[int] = set()
        for header in iterate_batches(data):
            while pending and pending[0][0] <= header.last_offset:
                skipped.add(pending.pop(0)[1])
            records = [r for r in iterate_records(data, header.position) if r.offset >= offset]
            if header.is_control:
                if records and records[0].key == b"\0\0\0\0":
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                found += [(record.offset, record.value) for record in records]
            offset = header.last_offset + 1


class LiveTransactions(RuleBasedStateMachine):
    @initialize(flush=st.sampled_from((1, 1 << 60)), segment=st.sampled_from((400, 1500, 1 << 20)))
    def start(self, flush: int, segment: int) -> None:
        self.settings = {"flush_messages": flush, "segment_bytes": segment}
        self.world = World()
        self.world.start(**self.settings)
        self.written: list[tuple[bytes, int | None, int]] = []  # value, producer, number of its transaction
        self.offsets: list[int] = []
        self.outcome: dict[tuple[int, int], str] = {}
        self.first: dict[tuple[int, int], int] = {}
        self.number = dict.fromkeys(range(1, 5), 0)
        self.sequence = dict.fromkeys(range(1, 5), 0)

    @property
    def log(self) -> UnifiedLog:
        return self.world.log()

    def note(self, offset: int, count: int, producer: int | None) -> None:
        number = self.number[producer] if producer else 0
        for index in range(count):
            self.offsets.append(offset + index)
            self.written.append((b"v%d" % (offset + index), producer, number))

    def values(self, count: int) -> list[bytes]:
        return [b"v%d" % (self.log.log_end_offset + index) for index in range(count)]

    @rule(count=st.integers(1, 3))
    def plain(self, count: int) -> None:
        self.note(append(self.log, *self.values(count)), count, None)

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def produce(self, producer: int, count: int) -> None:
        offset = append(
            self.log, *self.values(count), producer_id=producer, producer_epoch=0,
            base_sequence=self.sequence[producer], is_transactional=True,
        )  # fmt: skip
        self.sequence[producer] += count
        self.outcome.setdefault((producer, self.number[producer]), OPEN)
        self.first.setdefault((producer, self.number[producer]), offset)
        self.note(offset, count, producer)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end(self, producer: int, commit: bool) -> None:
        data = marker_batch(producer, 0, TransactionMarker(commit, 0), START_MS)
        self.log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)
        if self.outcome.get((producer, self.number[producer])) is OPEN:
            self.outcome[producer, self.number[producer]] = COMMITTED if commit else ABORTED
        self.number[producer] += 1

    @rule()
    def sync(self) -> None:
        self.log.complete_sync(self.log.flush())

    @rule()
    def stop_and_start(self) -> None:
        self.world.start(**self.settings)

    @rule()
    def kill_and_start(self) -> None:
        self.world.kill()
        self.world.start(**self.settings)

    @invariant()
    def the_last_stable_offset_is_where_the_oldest_open_transaction_begins(self) -> None:
        opened = [self.first[key] for key, state in self.outcome.items() if state is OPEN]
        bound = min([*opened, self.log.high_watermark])
        assert self.log.last_stable_offset <= bound
        if self.settings["flush_messages"] > 1:
            assert self.log.last_stable_offset == bound

    @rule(data=st.data(), max_bytes=st.sampled_from((1, 300, 1 << 20)))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        self.sync()
        start = data.draw(st.integers(0, self.log.log_end_offset))
        stable = self.log.last_stable_offset
        expected = [
            (offset, value)
            for offset, (value, producer, number) in zip(self.offsets, self.written, strict=True)
            if start <= offset < stable and (producer is None or self.outcome[producer, number] is COMMITTED)
        ]
        assert read_committed(self.log, min(start, stable), max_bytes) == expected

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.stop()
            assert [str(f) for f in verify(self.world.file_system, ROOT) if f.is_fault] == []


TestLiveTransactions = LiveTransactions.TestCase
TestLiveTransactions.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
