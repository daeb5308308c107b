from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem, PowerCut
from tidelog.storage.exceptions import CorruptCheckpointError
from tidelog.storage.io.checkpoint import CleanShutdownFile, OffsetCheckpointFile
from tidelog.storage.io.filesystem import RealFileSystem

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/recovery-point-offset-checkpoint"


@pytest.fixture
def system() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.mark.parametrize(
    ("name", "count", "some"),
    [
        ("recovery-point-offset-checkpoint", 23, {("mixed", 2): 360, ("__consumer_offsets", 0): 15}),
        ("replication-offset-checkpoint", 23, {("txn", 0): 1184}),
        ("log-start-offset-checkpoint", 1, {("deleted-records", 0): 333}),
        ("cleaner-offset-checkpoint", 5, {("compact-tiny-retention", 0): 1400}),
    ],
)
def test_reads_and_writes_kafkas_files(
    system: FakeFileSystem, name: str, count: int, some: dict[tuple[str, int], int]
) -> None:
    offsets = OffsetCheckpointFile(RealFileSystem(), GOLDEN / name).read()
    assert len(offsets) == count
    assert some.items() <= offsets.items()
    OffsetCheckpointFile(system, "/copy").write(offsets)
    assert system.read_bytes("/copy") == (GOLDEN / name).read_bytes()


def test_no_file_and_an_empty_one_say_nothing(system: FakeFileSystem) -> None:
    file = OffsetCheckpointFile(system, PATH)
    assert file.read() == {}
    system.put(PATH, b"")
    assert file.read() == {}
    file.write({})
    assert system.read_bytes(PATH) == b"0\n0\n"
    assert file.read() == {}


def test_every_prefix_is_refused_or_empty(system: FakeFileSystem) -> None:
    """A cut may leave `orders 0 12` of `orders 0 123`: only the newline tells."""
    file = OffsetCheckpointFile(system, PATH)
    file.write({("orders", 0): 123, ("payments", 12): 2**63 - 1})
    whole = system.read_bytes(PATH)
    for length in range(1, len(whole)):
        system.put(PATH, whole[:length])
        with pytest.raises(CorruptCheckpointError, match="recovery-point"):
            file.read()


@pytest.mark.parametrize(
    "content",
    [
        "1\n0\n",
        "x\n0\n",
        "0\n-1\n",
        "0\n2\na 0 1\n",
        "0\n0\na 0 1\n",
        "0\n1\na 0\n",
        "0\n1\na 0 1 2\n",
        "0\n1\na 0 -1\n",
        "0\n1\na -1 1\n",
        "0\n1\na 0 1_0\n",
        "0\n1\na 0 ١\n",
        "0\n1\n 0 1\n",
        "0\n1\na 0 9223372036854775808\n",
        "0\n1\na 2147483648 0\n",
        "0\n99999999999999999999\na 0 0\n",
        "0\n1\na 0 0\n\n",
        "\n",
        "\0\0\0\0",
    ],
)
def test_nonsense_is_refused(system: FakeFileSystem, content: str) -> None:
    system.put(PATH, content.encode())
    with pytest.raises(CorruptCheckpointError):
        OffsetCheckpointFile(system, PATH).read()


def test_bytes_that_are_no_text_are_refused(system: FakeFileSystem) -> None:
    system.put(PATH, b"0\n1\n\xff\xfe 0 1\n")
    with pytest.raises(CorruptCheckpointError, match="not a text file"):
        OffsetCheckpointFile(system, PATH).read()


def test_whenever_the_power_goes_the_old_or_the_new_file_is_there() -> None:
    """KAFKA-9892, KAFKA-16541: in every state that a cut in mid-write may leave."""
    old, new = {("a", 0): 1}, {("a", 0): 2, ("b", 0): 3}
    for stop in range(1, 20):
        system = FakeFileSystem()
        file = OffsetCheckpointFile(system, PATH)
        file.write(old)
        system.fail_at(stop, PowerCut())
        try:
            file.write(new)
            done = True
        except PowerCut:
            done = False
        for name, after in system.power_cut_states(seeds=20):
            found = OffsetCheckpointFile(after, PATH).read()
            assert found == new or (found == old and not done), (stop, name)
        if done:
            return
    pytest.fail("the write never finished")


# --- the mark of a clean stop ---


def test_clean_shutdown_reads_kafkas_and_writes_the_same(system: FakeFileSystem) -> None:
    golden = (GOLDEN / "kafka_cleanshutdown").read_bytes()
    mark = CleanShutdownFile(system, "/")
    assert not mark.exists()
    assert mark.read() is None
    mark.write(12)
    assert system.read_bytes("/.kafka_cleanshutdown") == golden
    assert (mark.exists(), mark.read()) == (True, 12)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"12", b"\xff", b'{"brokerEpoch":"x"}', b'{"brokerEpoch":true}', b"[" * 9999]
)
def test_any_content_marks_a_clean_stop(system: FakeFileSystem, content: bytes) -> None:
    system.put("/.kafka_cleanshutdown", content)
    mark = CleanShutdownFile(system, "/")
    assert mark.exists()
    assert mark.read() is None


def test_a_removed_mark_does_not_come_back() -> None:
    """KAFKA-10471: trusted after a crash while loading, it would hide that."""
    system = FakeFileSystem()
    mark = CleanShutdownFile(system, "/")
    mark.write(1)
    mark.delete()
    mark.delete()
    for name, after in system.power_cut_states(seeds=30):
        assert not CleanShutdownFile(after, "/").exists(), name
