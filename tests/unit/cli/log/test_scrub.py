from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.logs import World, append
from tidelog.cli.log.scrub import paced
from tidelog.cli.main import main
from tidelog.storage.io.filesystem import RealFileSystem

pytestmark = pytest.mark.damaged("bits are flipped")
FIRST = f"{0:020d}.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of a log with some closed segments, on a real disk."""
    world = World(RealFileSystem(), directories=(str(tmp_path / "data"),), log_dirs=str(tmp_path / "data"))
    world.start(segment_bytes=500, retention_ms=-1)
    for _ in range(12):
        append(world.log(), "a" * 150)
    world.stop()
    return tmp_path / "data"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_nothing_is_damaged(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()}
    assert main(["log", "scrub", str(data)]) == 0
    assert capsys.readouterr().out.startswith("no fault, 0 notes; 0.0 MiB of closed segments read in ")
    assert main(["log", "scrub", str(data / "t-0")]) == 0
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()}
    assert after == before


def test_damage_is_named_with_what_to_do(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "t-0" / FIRST
    flip(path)
    assert main(["log", "scrub", str(data)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"fault batch-crc: {path} at ")
    assert (
        "\nbatch-crc: the checksum is not that of the bytes.\n  What to do: stop the daemon and put the file back from a copy"
        in out
    )
    assert "\n1 fault, 0 notes; " in out


def test_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(data / "t-0" / FIRST)
    assert main(["log", "scrub", "--json", "--rate", "100000000", str(data)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["faults"], report["notes"]) == (1, 0)
    assert report["bytes"] > 1000
    [finding] = report["findings"]
    assert (finding["rule"], finding["path"]) == ("batch-crc", str(data / "t-0" / FIRST))


def test_what_can_not_be_scrubbed_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "scrub", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"tidelog: {tmp_path}: neither a data directory nor a partition's")


@pytest.mark.parametrize("rate", ["0", "-5", "fast"])
def test_a_rate_is_a_number_of_bytes(rate: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["log", "scrub", "--rate", rate, str(tmp_path)])
    assert f"argument --rate: invalid bytes_per_second value: '{rate}'" in capsys.readouterr().err


def test_the_pace() -> None:
    now, done, waits = 0.0, [], []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    report = paced(done.append, 1000, lambda: now, wait)
    for _ in range(10):
        report(500)
    assert now == pytest.approx(5.0)
    now += 100.0  # the disk was slow
    report(500)
    report(3000)
    assert now == pytest.approx(107.5), "what comes late is made up for by a second at most"
    assert sum(done) == 8500
    unlimited = paced(done.append, None, lambda: now, wait)
    before = len(waits)
    unlimited(1 << 30)
    assert len(waits) == before


def test_cold_pages_stay_cold(data: Path) -> None:
    path = data / "t-0" / FIRST
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        real = RealFileSystem().open(path, writable=False)
        if real.is_cached(0, 100) is not False:
            pytest.skip("this file system does not evict on advice")
        assert main(["log", "scrub", str(data)]) == 0
        assert real.is_cached(0, 100) is False
        real.close()
