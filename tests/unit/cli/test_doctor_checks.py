"""Each check with a machine that suits and one that does not; and that looking finds what is there."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tidelog.cli.doctor.checks import EARLIEST_CLOCK_S, FAIL, OK, WARN, DirectoryFacts, Facts, examine, look
from tidelog.config.loader import load_config

CONFIG = load_config(None, {}, ["log.dir.reserve.bytes=1000"])
GIB = 1 << 30
NOW_S = EARLIEST_CLOCK_S + 1e7
DISK = DirectoryFacts("/data", True, True, 50 * GIB, 100 * GIB, 10**7, 1, "xfs", 10, NOW_S - 5)
GOOD = Facts(
    descriptors_hard=100_000,
    directories=[DISK],
    now_s=NOW_S,
    clock_is_synchronised=True,
    swappiness=1,
    swap_total_bytes=GIB,
    dirty_background_percent=5,
    dirty_percent=60,
    dirty_background_bytes=0,
    dirty_bytes=0,
    max_map_count=65530,
    memory_bytes=8 * GIB,
)


def disk(**changes: Any) -> Facts:
    return replace(GOOD, directories=[replace(DISK, **changes)])


def bad(facts: Facts) -> dict[str, str]:
    """Names of the findings that are not ok, with their status."""
    found = examine(facts, CONFIG)
    for finding in found:
        assert finding.why
        assert finding.status == OK or finding.advice
    return {finding.name: finding.status for finding in found if finding.status != OK}


def test_a_machine_that_suits() -> None:
    assert bad(GOOD) == {}
    assert len(examine(GOOD, CONFIG)) >= 9


@pytest.mark.parametrize(
    ("facts", "name", "status"),
    [
        (replace(GOOD, descriptors_hard=1024), "file descriptors", FAIL),
        (replace(GOOD, descriptors_hard=4096), "file descriptors", WARN),
        (disk(is_writable=False), "log directory /data", FAIL),
        (disk(exists=False, is_writable=False), "log directory /data", FAIL),
        (disk(free_bytes=1000), "log directory /data: room", FAIL),
        (disk(free_bytes=9 * GIB), "log directory /data: room", WARN),
        (disk(free_inodes=500), "log directory /data: files", FAIL),
        (disk(free_inodes=5000), "log directory /data: files", WARN),
        (disk(kind="tmpfs"), "log directory /data: file system", WARN),
        (disk(kind="nfs4"), "log directory /data: file system", WARN),
        (disk(segments=30_000), "vm.max_map_count", WARN),
        (replace(GOOD, directories=[DISK, replace(DISK, path="/more")]), "log directories", WARN),
        (replace(GOOD, swappiness=60), "vm.swappiness", WARN),
        (replace(GOOD, dirty_background_percent=20, dirty_percent=70), "vm.dirty_background_ratio", WARN),
        (replace(GOOD, dirty_percent=8), "vm.dirty_ratio", WARN),
        (replace(GOOD, dirty_background_bytes=GIB, dirty_bytes=GIB), "vm.dirty_ratio", WARN),
        (replace(GOOD, memory_bytes=GIB // 8), "memory", WARN),
        (replace(GOOD, clock_is_synchronised=False), "clock", WARN),
        (replace(GOOD, now_s=0.0), "clock", FAIL),
        (disk(newest_change_s=NOW_S + 3600), "clock", FAIL),
        (disk(log_bytes=31 * 86400 << 20), "looking for damage", WARN),
        (replace(GOOD, has_hardware_crc=False), "checksums", WARN),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_does_not_suit(facts: Facts, name: str, status: str) -> None:
    assert bad(facts) == {name: status}


def test_what_is_no_fault() -> None:
    assert bad(replace(GOOD, descriptors_hard=resource.RLIM_INFINITY)) == {}
    assert bad(replace(GOOD, swappiness=60, swap_total_bytes=0)) == {}, "nothing to swap to"
    assert bad(disk(free_inodes=None)) == {}, "Btrfs and others have no fixed number"
    assert bad(replace(GOOD, clock_is_synchronised=None)) == {}, "nobody knows"
    assert bad(disk(log_bytes=29 * 86400 << 20)) == {}, "twenty-nine days at 1 MiB a second"
    off = load_config(None, {}, ["tidelog.log.scrub.bytes.per.second=0"])
    (finding,) = [one for one in examine(disk(log_bytes=1 << 50), off) if one.name == "looking for damage"]
    assert (finding.status, finding.value) == (OK, "off"), "something else may look"


def test_looking(tmp_path: Path) -> None:
    """At files as a Linux system has them, and at directories that are and that are not there."""
    files = {
        "proc/sys/vm/swappiness": "60\n",
        "proc/sys/vm/dirty_ratio": "20\n",
        "proc/sys/vm/dirty_background_ratio": "10\n",
        "proc/sys/vm/max_map_count": "65530\n",
        "proc/meminfo": "MemTotal:       16384000 kB\nSwapTotal:       1024 kB\nHugePages_Total:       0\n",
        "proc/self/mounts": f"none / ext4 rw 0 0\nnone {tmp_path} xfs rw 0 0\n",
        "sys/fs/cgroup/memory.max": "max\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    data = tmp_path / "data"
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / "00000000000000000000.log").write_bytes(b"12345")
    os.utime(data / "t-0" / "00000000000000000000.log", (5, 1234))
    config = load_config(None, {}, [f"log.dirs={data},{tmp_path / 'not' / 'there'}"])
    facts = look(config, tmp_path)
    assert (facts.swappiness, facts.dirty_percent, facts.dirty_background_percent) == (60, 20, 10)
    assert (facts.dirty_bytes, facts.max_map_count) == (None, 65530)
    assert (facts.memory_bytes, facts.swap_total_bytes) == (16384000 * 1024, 1024 * 1024)
    there, missing = facts.directories
    assert (there.exists, there.kind, there.segments, there.newest_change_s) == (True, "xfs", 1, 1234)
    assert (there.log_bytes, missing.log_bytes) == (5, 0)
    assert (missing.exists, missing.is_writable, missing.segments) == (False, True, 0)
    assert there.free_bytes > 0
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1048576\n")
    assert look(config, tmp_path).memory_bytes == 1048576, "a container's limit"


def test_looking_at_a_system_that_says_nothing(tmp_path: Path) -> None:
    facts = look(load_config(None, {}, [f"log.dirs={tmp_path}"]), tmp_path / "no system")
    assert (facts.swappiness, facts.memory_bytes, facts.max_map_count) == (None, None, None)
    assert examine(facts, CONFIG)


def test_segments_that_go_while_they_are_counted_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention of a daemon that runs: doctor ended with "No such file or directory"."""
    (tmp_path / "t-0").mkdir()
    for offset in range(3):
        (tmp_path / f"t-0/{offset:020}.log").write_bytes(b"12345")
    stat = Path.stat

    def delete_one(path: Path, **options: bool) -> os.stat_result:
        if path.name == f"{1:020}.log":
            path.unlink(missing_ok=True)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", delete_one)
    (directory,) = look(load_config(None, {}, [f"log.dirs={tmp_path}"]), tmp_path / "no system").directories
    assert (directory.segments, directory.log_bytes) == (2, 10)


def test_files_with_secrets_that_everybody_may_read_are_named(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
    properties.write_text(f"log.dirs={tmp_path}\nsasl.jaas.config={jaas}\nssl.keystore.location={tmp_path}/key.pem\n")
    secrets = [properties, tmp_path / "metadata.db", tmp_path / "key.pem"]
    for path in secrets:
        path.touch()
        path.chmod(0o640)
    config = load_config(properties, {}, [])
    assert look(config).exposed == []
    for path in secrets:
        path.chmod(0o644)
    assert set(look(config).exposed) == set(map(str, secrets))
    assert bad(replace(GOOD, exposed=look(config).exposed)) == {"files with secrets": WARN}


def test_the_backups_keys_are_secrets_too(tmp_path: Path) -> None:
    properties, key, account = (tmp_path / name for name in ("server.properties", "key", "account.json"))
    properties.write_text("backup.access.key.id=A\nbackup.secret.access.key=S\n")
    for path in (properties, key, account):
        path.touch()
        path.chmod(0o644)
    given = [
        "backup.url=s3://bucket/prefix",
        "backup.secrets=encrypt",
        f"backup.secrets.key.file={key}",
        f"backup.credentials.file={account}",
        f"log.dirs={tmp_path / 'data'}",
    ]
    assert set(look(load_config(properties, {}, given)).exposed) == {str(properties), str(key), str(account)}
