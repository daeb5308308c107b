"""What a pass may cost: disk beside the log, reads of a log that is clean, one secret, no turn of the event loop."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.cleaning import DAY_MS, CleaningWorld, Control, data_records, put
from support.fake_filesystem import FakeFileSystem, Operation
from support.mock_time import START_MS
from support.patience import PATIENCE_S
from tidelog.cleaner.kernel import _kernel as kernel
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record


def random_log(seed: int, **settings: Any) -> CleaningWorld:
    """Some dozen closed segments of random keys, a fifth of the records tombstones."""
    chance = random.Random(seed)
    made = CleaningWorld()
    made.start(segment_bytes=chance.choice([300, 1000, 3000]), delete_retention_ms=DAY_MS, **settings)
    log = made.log()
    for number in range(chance.randrange(100, 400)):
        value = None if chance.random() < 0.2 else "v" * chance.randrange(60)
        put(log, f"k{chance.randrange(chance.choice([5, 50, 500]))}", value, timestamp=START_MS + number)
    log.roll()
    return made


class Meter:
    """The most bytes that `.log` files of any stage have had together, after any change."""

    def __init__(self, system: FakeFileSystem) -> None:
        self.most = 0

        def noted(operation: Operation) -> None:
            if operation.kind in ("rename", "unlink"):  # all is written by then, and nothing is gone yet
                sizes = [len(data) for path, data in system.contents().items() if ".log" in path]
                self.most = max(self.most, sum(sizes))

        system.fail_when(noted)


@pytest.mark.parametrize("seed", range(5))
def test_a_pass_needs_room_for_one_segment_more(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """New segments are swapped in as they are done, and what they replace goes at once, whatever file.delete.delay.ms is."""
    made = random_log(seed, file_delete_delay_ms=DAY_MS)
    log = made.log()
    before, segment_bytes = log.size, log.config.segment_bytes
    largest = max(segment.size for segment in log.segments)
    meter = Meter(made.fake)

    class Pool(Control):
        """Background tasks have their turn between chunks, as threads do."""

        def check(self) -> None:
            super().check()
            made.time.advance(0)

    work = made.cleaners.take_next()
    assert work is not None
    assert made.cleaners.clean(work, made.cleaner, Pool(made.time)) is not None
    assert log.size < before
    # What is written, and what it replaces until its last file is gone.
    assert meter.most <= before + max(segment_bytes, largest)


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_log_costs_nothing_until_its_earliest_horizon(seed: int) -> None:
    """Neither a read nor a write; after a restart it is known without reading the log."""
    made = random_log(seed)
    made.clean_all()
    assert any(record.value is None for record in data_records(made.log()))
    horizon_ms = made.cleaners.partitions()[0].next_horizon_ms
    assert horizon_ms == made.time.milliseconds() + DAY_MS
    for restart in (None, made.restart, made.crash):
        if restart is not None:
            restart()
        calls, reads = len(made.fake.trace), len(made.fake.reads)
        assert made.clean_once() is None
        assert len(made.fake.trace) == calls
        assert not [one for one in made.fake.reads[reads:] if one.path.endswith((".log", ".index", ".timeindex"))]
        made.time.advance(DAY_MS // 4)
    made.time.advance(horizon_ms - 1 - made.time.milliseconds())
    assert made.clean_once() is None
    made.time.advance(1)
    assert made.clean_all()
    left = [record for record in data_records(made.log()) if record.value is None]
    assert left == [], "with no write arriving"


def test_a_pass_draws_one_secret_and_keeps_it() -> None:
    """Nobody who makes keys knows it; all hashes of a pass are compared with each other."""
    made = random_log(1)
    drawn = []

    def secret() -> bytes:
        drawn.append(random.Random(len(drawn)).randbytes(16))
        return drawn[-1]

    made.cleaner.secret = secret
    made.clean_all()
    assert len(drawn) == 1
    put(made.log(), "k1", "again")
    made.roll_and_clean()
    assert len(drawn) == 2
    assert drawn[0] != drawn[1]


@pytest.fixture
def no_forced_switches() -> Iterator[None]:
    """A thread lets go of the GIL where it says so, and nowhere else."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("no_forced_switches")
@pytest.mark.parametrize("walk", ["build", "filter"])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_the_event_loop_runs_beside_a_walk(walk: str, codec: Compression) -> None:
    """Another thread has its turn within a call: both walks work without the GIL, native codecs too."""
    if codec and codec not in kernel.native_codecs():
        pytest.skip("this build of the codec's package is called through Python")
    count = 20_000
    data = b"".join(
        build_batch(
            [Record(0, START_MS, b"%d" % (n + i), b"v" * 50) for i in range(500)], base_offset=n, compression=codec
        )
        for n in range(0, count, 500)
    )
    map_ = kernel.OffsetMap(24 * 100_000)
    map_.reset(bytes(16))
    transactions, output = kernel.Transactions(), bytearray(2 * len(data))
    map_.build(data, 0, len(data), 0, count, transactions)
    calls: dict[str, Callable[[], object]] = {
        "build": lambda: map_.build(data, 0, len(data), 0, count, transactions),
        "filter": lambda: kernel.RecordFilter(map_, count, transactions, START_MS, DAY_MS).filter(
            data, 0, len(data), output
        ),
    }
    call, state = calls[walk], {"in_call": False, "done": False}
    give_up = time.monotonic() + PATIENCE_S
    turns = 0

    def work() -> None:
        while not turns and time.monotonic() < give_up:
            state["in_call"] = True
            call()
            state["in_call"] = False
            time.sleep(0)
        state["done"] = True

    worker = threading.Thread(target=work)
    worker.start()
    while not state["done"]:
        turns += state["in_call"]
        time.sleep(0)
    worker.join()
    assert turns
