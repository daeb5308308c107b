from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.logs import World, append
from support.mock_time import START_MS
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.record_batch import (
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    read_batch_header,
)
from tidelog.storage.log.unified_log import UnifiedLog

pytestmark = pytest.mark.damaged("bits are flipped")

#: Bytes of a header that say where a batch ends, in the file and in the log.
FIELDS = (*range(LENGTH_AT, LENGTH_AT + 4), MAGIC_AT, *range(LAST_OFFSET_DELTA_AT, LAST_OFFSET_DELTA_AT + 4))


@pytest.fixture(scope="module")
def stopped() -> World:
    """A log with segments at 0, 18 and 36, of six, six and four batches of three records, stopped cleanly."""
    world = World(damaged="bits are flipped")
    world.start(segment_bytes=900, index_interval_bytes=250)
    log = world.log()
    for number in range(16):
        append(log, *[chr(97 + number) * 20] * 3, timestamp=START_MS + number)
    assert [segment.base_offset for segment in log.segments] == [0, 18, 36]
    world.stop()
    return world


def damaged(stopped: World, base_offset: int, number: int, byte: int, mask: int) -> World:
    """Started again, with bits flipped in the header of a batch."""
    system = stopped.fake.kill()
    path = f"/data/t-0/{base_offset:020}.log"
    data = system.contents()[path]
    position = number * len(data) // (6 if base_offset < 36 else 4) + byte
    system.corrupt(path, position, bytes([data[position] ^ mask]))
    world = World(system, damaged="bits are flipped")
    world.log_config = stopped.log_config
    world.start()
    return world


def whole_batches(data: bytes) -> Iterator[tuple[int, int]]:
    """(base offset, offset behind) of each; ends where a client would stop and say so."""
    while len(data) >= 61:
        size = LOG_OVERHEAD + int.from_bytes(data[LENGTH_AT:LOG_OVERHEAD], "big", signed=True)
        if size < 61 or size > len(data) or data[MAGIC_AT] != 2:
            return
        header = read_batch_header(data)
        yield header.base_offset, header.last_offset + 1
        data = data[size:]


def read_on(log: UnifiedLog, max_bytes: int) -> list[int]:
    """Reads from the start of the log, batch by batch as headers say, past whatever is refused; gives the offsets asked for."""
    offset, asked = 0, []
    while offset < log.log_end_offset:
        asked.append(offset)
        assert len(asked) <= 200, "it reads the same for ever"
        try:
            info = log.read(offset, max_bytes)
        except CorruptRecordError:
            offset += 1
            continue
        assert info.file is not None, f"nothing at offset {offset}, and no error"
        file_size, position, size = info.file.size(), info.position, info.size
        data = info.file.pread(size, position) if position >= 0 else b""
        info.release()
        assert 0 <= position <= position + size <= file_size, "a slice that is not in the file"
        first = next(whole_batches(data), None)
        offset = max(offset + 1, 0 if first is None or not first[0] <= offset < first[1] <= first[0] + 3 else first[1])
    return asked


@pytest.mark.parametrize("max_bytes", [1, 300])
@pytest.mark.parametrize(("base_offset", "numbers"), [(18, (0, 1, 2, 5)), (36, (0, 1, 2))])
def test_whoever_reads_over_a_damaged_header_goes_on_or_is_told(
    stopped: World, base_offset: int, numbers: tuple[int, ...], max_bytes: int
) -> None:
    for number in numbers:
        for byte in FIELDS:
            for bit in range(8):
                world = damaged(stopped, base_offset, number, byte, 1 << bit)
                log = world.manager.get("t", 0)
                assert log is not None
                if log.holes:  # the start has read it, and put it aside
                    continue
                assert read_on(log, max_bytes)
                held = [file for file in world.fake.open_files if file.path.endswith(".log") and file.leases > 1]
                assert not held, (number, byte, bit)


def test_a_damaged_header_does_not_send_readers_of_another_offset_back(stopped: World) -> None:
    """The batch of 18 to 20 says that it ends at 26. Who reads at 27 gets the batch that begins there, whoever read before."""
    world = damaged(stopped, 18, 0, LAST_OFFSET_DELTA_AT + 3, 2 ^ 8)
    log = world.manager.get("t", 0)
    assert log is not None
    log.read(18, 1).release()
    info = log.read(27, 1)
    assert info.file is not None
    assert read_batch_header(info.file.pread(info.size, info.position)).base_offset == 27
    info.release()


def test_an_empty_answer_is_no_answer_to_an_offset_that_damage_hides(stopped: World) -> None:
    """In the last segment: the batch of 39 says that it ends behind the file. Offset 39 was answered by nothing, for ever."""
    world = damaged(stopped, 36, 1, LENGTH_AT + 1, 1)
    log = world.manager.get("t", 0)
    assert log is not None
    assert not log.holes
    for offset in (39, 40, 41):
        with pytest.raises(CorruptRecordError, match="damage hides the batch that holds offset"):
            log.read(offset, 1 << 20)
    log.read(36, 1 << 20).release()


def test_a_base_offset_behind_its_segment_is_no_answer(stopped: World) -> None:
    """No checksum covers it: a client that got batch 18 as one of a far offset would take it, and ask for the same again."""
    log = damaged(stopped, 18, 0, 0, 1).manager.get("t", 0)
    assert log is not None
    with pytest.raises(CorruptRecordError, match="ends behind the segment"):
        log.read(24, 300)


def test_batches_that_contradict_one_another_are_not_sent_together(stopped: World) -> None:
    """The batch of 18 to 20 says 26 to 28, the next one 21 to 23: whoever asked for 24 and got both would ask for 24 again."""
    log = damaged(stopped, 18, 0, 7, 8).manager.get("t", 0)
    assert log is not None
    info = log.read(24, 300)
    assert info.file is not None
    assert list(whole_batches(info.file.pread(info.size, info.position))) == [(26, 29)]
    assert info.size == 148
    info.release()
