"""The fake's own promises: what may be lost is lost sometimes, what was synced never. (Its calls: test_filesystem.py.)"""

from __future__ import annotations

import errno

import pytest
from support.fake_disk import KeepNone, TearLast
from support.fake_filesystem import FakeFileSystem, Operation, PowerCut

SEEDS = range(200)


def file_with(system: FakeFileSystem, path: str, data: bytes) -> None:
    file = system.open(path, create=True)
    file.append(data)
    file.close()


def test_unsynced_data_may_be_kept_lost_or_torn() -> None:
    system = FakeFileSystem()
    system.put("/f", b"S" * 1000)
    file = system.open("/f")
    file.append(b"A" * 5000)
    found = [system.power_cut(seed).read_bytes("/f") for seed in SEEDS]
    assert all(data.startswith(b"S" * 1000) for data in found)
    assert b"S" * 1000 in found
    assert b"S" * 1000 + b"A" * 5000 in found
    torn = [data for data in found if b"A" in data and data.count(b"A") < 5000]
    assert torn
    assert any(b"\0" * 100 in data for data in torn)  # holes
    assert any(set(data) - set(b"SA\0") for data in found)  # garbage
    assert system.read_bytes("/f") == b"S" * 1000 + b"A" * 5000  # the original goes on
    file.close()


def test_synced_data_is_never_lost() -> None:
    system = FakeFileSystem()
    system.put("/f", b"")
    file = system.open("/f")
    file.append(b"A" * 3000)
    file.sync()
    for seed in SEEDS:
        assert system.power_cut(seed).read_bytes("/f") == b"A" * 3000
    file.append(b"B" * 3000)
    for seed in SEEDS:
        assert system.power_cut(seed).read_bytes("/f").startswith(b"A" * 3000)
    file.close()


def test_an_unsynced_overwrite_leaves_old_or_new_sectors() -> None:
    system = FakeFileSystem()
    system.put("/f", b"o" * 2048)
    mapped = system.map("/f", writable=True)
    mapped.view[0:1024] = b"n" * 1024
    seen = set()
    for seed in SEEDS:
        data = system.power_cut(seed).read_bytes("/f")
        assert data[1024:] == b"o" * 1024
        assert set(data) <= set(b"on")
        seen.add((data[0:512], data[512:1024]))
    assert len(seen) == 4
    mapped.sync()
    assert system.power_cut(1).read_bytes("/f") == b"n" * 1024 + b"o" * 1024
    mapped.close()


def test_a_name_needs_its_directory_synced() -> None:
    """KAFKA-3968."""
    system = FakeFileSystem()
    system.make_directory("/d")
    system.sync_directory("/")
    file = system.open("/d/f", create=True)
    file.append(b"data")
    file.sync()
    assert {system.power_cut(seed).exists("/d/f") for seed in SEEDS} == {True, False}
    system.sync_directory("/d")
    assert {system.power_cut(seed).exists("/d/f") for seed in SEEDS} == {True}
    system.unlink("/d/f")
    assert {system.power_cut(seed).exists("/d/f") for seed in SEEDS} == {True, False}
    file.close()


def test_a_directory_lost_takes_its_files_along() -> None:
    system = FakeFileSystem()
    system.make_directory("/d")
    file_with(system, "/d/f", b"1")
    system.sync_directory("/d")
    assert {system.power_cut(seed).exists("/d") for seed in SEEDS} == {True, False}
    assert not dict(system.power_cut_states())["all that was not synced is lost"].exists("/d/f")


def test_a_rename_is_one_change() -> None:
    system = FakeFileSystem()
    system.put("/a", b"new")
    system.put("/b", b"old")
    system.rename("/a", "/b")
    states = set()
    for seed in SEEDS:
        after = system.power_cut(seed)
        states.add((after.exists("/a"), after.read_bytes("/b")))
    assert states == {(True, b"old"), (False, b"new")}


def test_write_atomically_without_its_syncs_would_be_caught() -> None:
    """The model must be able to fail the code that it is there for."""
    system = FakeFileSystem()
    system.put("/c", b"old")
    file_with(system, "/c.tmp", b"new content")
    system.rename("/c.tmp", "/c")
    assert any(system.power_cut(seed).read_bytes("/c") not in (b"old", b"new content") for seed in SEEDS)
    system.write_atomically("/c", b"newer")
    assert {system.power_cut(seed).read_bytes("/c") for seed in SEEDS} == {b"newer"}


def test_the_plain_extremes() -> None:
    system = FakeFileSystem()
    system.put("/f", b"S")
    file = system.open("/f")
    file.append(b"A" * 1023)
    file.close()
    file_with(system, "/g", b"B" * 2048)
    states = {name: after.contents() for name, after in system.power_cut_states(seeds=2)}
    assert states["all that was not synced is lost"] == {"/f": b"S"}
    assert states["all of it made it"] == {"/f": b"S" + b"A" * 1023, "/g": b"B" * 2048}
    assert states["names made it, data did not: zeros"] == {"/f": b"S" + bytes(1023), "/g": bytes(2048)}
    garbage = states["names made it, data did not: garbage"]
    assert (garbage["/f"][:1], len(garbage["/f"])) == (b"S", 1024)
    assert any(garbage["/g"])
    assert states["data made it, names did not"] == {"/f": b"S" + b"A" * 1023}
    assert states["the last write of each file is torn"]["/g"] == b"B" * 1024 + bytes(1024)
    assert {"seed 0", "seed 1"} <= states.keys()


def test_a_kill_loses_nothing_and_makes_nothing_durable() -> None:
    system = FakeFileSystem()
    system.put("/f", b"S")
    file = system.open("/f")
    file.append(b"A" * 600)
    lock = system.lock("/.lock")
    after = system.kill()
    assert after.read_bytes("/f") == b"S" + b"A" * 600
    after.lock("/.lock").release()
    assert {after.power_cut(seed).exists("/.lock") for seed in SEEDS} == {True, False}
    assert b"S" in {after.power_cut(seed).read_bytes("/f") for seed in SEEDS}
    file.close()
    lock.release()


def test_the_trace_counts_and_failures_come_when_ordered() -> None:
    system = FakeFileSystem()
    system.fail_at(3, OSError(errno.EIO, "third"))
    file = system.open("/f", create=True)
    file.append(b"12")
    with pytest.raises(OSError, match="third"):
        file.sync()
    file.append(b"3")
    assert system.trace == [
        Operation("create", "/f"),
        Operation("append", "/f", 2),
        Operation("sync", "/f"),
        Operation("append", "/f", 1),
    ]
    system.fail_at(1, PowerCut(), repeat=True)
    for _ in range(2):
        with pytest.raises(PowerCut):
            file.append(b"4")
    system.heal()
    file.append(b"5")
    assert file.pread(9, 0) == b"1235"
    file.close()


def test_what_a_failed_sync_lost_does_not_come_with_the_next_one() -> None:
    system = FakeFileSystem()
    system.put("/f", b"S")
    file = system.open("/f")
    file.append(b"A" * 9)
    system.fail_at(1, OSError(errno.EIO, "I/O error"))
    with pytest.raises(OSError, match="I/O"):
        file.sync()
    file.append(b"B" * 10)
    file.sync()
    assert file.pread(99, 0) == b"S" + b"A" * 9 + b"B" * 10  # the page cache still has it
    for seed in range(20):
        assert system.power_cut(seed).read_bytes("/f") == b"S" + bytes(9) + b"B" * 10
    file.close()


def test_failures_by_rule() -> None:
    system = FakeFileSystem()
    system.fail_when(lambda operation: OSError(operation.path) if operation.path.endswith(".index") else None)
    file_with(system, "/a.log", b"1")
    with pytest.raises(OSError, match=r"/a\.index"):
        system.open("/a.index", create=True)
    assert not system.exists("/a.index")


def test_a_full_disk() -> None:
    system = FakeFileSystem(capacity=10)
    file = system.open("/f", create=True)
    file.append(b"12345678")
    with pytest.raises(OSError) as caught:
        file.append(b"901")
    assert caught.value.errno == errno.ENOSPC
    assert (file.size(), system.free_bytes("/")) == (8, 2)
    file.append(b"90")
    file.close()


def test_leaks_show() -> None:
    system = FakeFileSystem()
    file = system.open("/f", create=True)
    file.retain()
    file.close()
    assert system.open_files == {file}
    file.release()
    assert not system.open_files


@pytest.mark.parametrize("is_mapped", [False, True], ids=["written", "mapped"])
def test_what_a_failed_sync_has_lost_is_read_until_the_power_goes_and_durable_once_it_is_written_again(
    is_mapped: bool,
) -> None:
    fs = FakeFileSystem()
    fs.put("/f", b"old")
    fs.fail_at(3 if is_mapped else 2, OSError(5, "input/output error"))
    file = fs.open("/f")
    if is_mapped:
        mapped = fs.map("/f", 7, writable=True)
        mapped.reserve(0, 7)
        mapped.view[3:] = b" new"
    else:
        file.append(b" new")
    with pytest.raises(OSError, match="input/output"):
        file.sync()
    fs = fs.kill()
    file = fs.open("/f")
    file.sync()
    assert file.pread(99, 0) == b"old new"
    assert fs.rebuilt(KeepNone()).contents() == {"/f": b"old\0\0\0\0"}
    file.rewrite(b"new", 4)
    assert fs.rebuilt(KeepNone()).contents() == {"/f": b"old\0\0\0\0"}
    file.sync()
    assert fs.rebuilt(KeepNone()).contents() == {"/f": b"old\0new"}
    file.rewrite(b" ", 3)
    file.sync()
    assert fs.rebuilt(KeepNone()).contents() == {"/f": b"old new"}


def test_a_torn_write_over_durable_bytes_leaves_those() -> None:
    fs = FakeFileSystem()
    fs.put("/f", b"x" * 1024)
    file = fs.open("/f")
    file.append(b"y" * 1024)
    file.rewrite(bytes(b"x" * 1024 + b"y" * 1024), 0)
    assert fs.rebuilt(TearLast()).contents() == {"/f": b"x" * 1024 + bytes(1024)}


def test_a_file_of_which_an_empty_stretch_alone_was_changed_outlives_a_power_cut() -> None:
    system = FakeFileSystem()
    system.make_directory("/d")
    file = system.open("/d/f", create=True)
    file.append(b"")
    for seed in range(40):
        assert set(system.power_cut(seed).contents().values()) <= {b""}
