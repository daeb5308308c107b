from __future__ import annotations

import pytest
from support import records_reference as reference
from support.logs import World, append
from support.old_formats import old_logs
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.storage.log.record_counts import RecordCounts

NEVER = lambda: False  # noqa: E731
LOGS = old_logs()


def test_from_any_offset_of_a_plain_log() -> None:
    world = World()
    world.start(segment_bytes=500)
    log, counts = world.log(), RecordCounts(block_bytes=100)
    for number in range(40):
        append(log, f"a{number}", f"b{number}")
    assert log.segment_count > 3
    for offset in (80, 79, 0, 41, 3, 3, 200, -1):
        assert counts.count(log, offset, NEVER) == min(80, max(0, 80 - offset))
    append(log, "c")
    assert counts.count(log, 41, NEVER) == 40, "what came since is counted on"
    log.increment_log_start_offset(70)
    assert counts.count(log, 0, NEVER) == 11, "what is below the log's start nobody is handed"
    world.stop()


def test_what_a_sync_is_awaited_for_is_not_counted_yet() -> None:
    world = World()
    world.start(flush_messages=1)
    log, counts = world.log(), RecordCounts()
    append(log, "a", "b")
    assert log.high_watermark == 0
    assert counts.count(log, 0, NEVER) == 0
    log.complete_sync(log.flush())
    append(log, "c")
    assert counts.count(log, 0, NEVER) == 2
    log.complete_sync(log.flush())
    assert counts.count(log, 1, NEVER) == 2
    world.stop()


def test_what_nobody_asks_for_is_forgotten() -> None:
    world = World()
    world.start()
    counts = RecordCounts()
    append(world.log("t"), "a")
    append(world.log("u"), "a")
    for topic in "tu":
        counts.count(world.log(topic), 0, NEVER)
    counts.forget_others()
    counts.count(world.log("t"), 0, NEVER)
    counts.forget_others()
    assert [*counts._segments] == [world.log("t").segments[0].identity]
    world.stop()


@pytest.mark.damaged("files are taken away")
def test_a_log_whose_files_are_gone_is_not_counted() -> None:
    world = World()
    world.start()
    log = world.log()
    append(log, "a")
    path = log.log_directory.file(0, ".log")
    log.abandon()
    world.file_system.unlink(path)
    assert RecordCounts().count(log, 0, NEVER) is None
    world.stop()


@pytest.mark.parametrize("name", LOGS)
def test_the_kernel_counts_every_format_as_its_twin(name: str) -> None:
    data = LOGS[name].data
    for position, end in ((0, len(data)), (0, len(data) - 1), (LOGS[name].batches[-1].position, len(data)), (0, 70)):
        for limit in (2**63 - 1, LOGS[name].records[-1].offset, 2):
            arguments = (data, position, end, limit)
            assert kernel.count_records(*arguments) == reference.count_records(*arguments)
    records, position, is_wrapper = kernel.count_records(data, 0, len(data), 2**63 - 1)
    if not is_wrapper:
        assert (records, position) == (len(LOGS[name].records), len(data))


def test_the_kernel_refuses_what_no_log_holds() -> None:
    for broken in (
        bytes(100),
        bytes(8) + b"\x00\x00\x00\x20" + bytes(4) + b"\x02" + bytes(80),
        bytes(11) + b"\x7f" + b"\x09" * 90,
    ):
        with pytest.raises(CorruptRecordError):
            kernel.count_records(broken, 0, len(broken), 2**63 - 1)
        with pytest.raises(CorruptRecordError):
            reference.count_records(broken, 0, len(broken), 2**63 - 1)
    with pytest.raises(ValueError, match="not within a buffer"):
        kernel.count_records(b"", 0, 1, 0)
