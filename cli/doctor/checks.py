"""Checks of `tidelog doctor`: reads facts of a machine and judges them. Changes nothing.

Two halves: `look` gathers facts from the system (Linux; what can't be read is None, and its check is left out), the checks are
functions from facts and settings to findings. Each finding says why it matters to a log daemon, and what to do.

    ok      as it should be
    warn    it works, and will be slow or stop working under load
    fail    it does not work, or loses what it should keep
"""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...broker.metadata.store import FILE_NAME
from ...broker.security.open_listeners import ADVICE, open_listeners
from ..support.output import plural

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

OK, WARN, FAIL = "ok", "warn", "fail"
FEWEST_DESCRIPTORS, GOOD_DESCRIPTORS = 4096, 65536
#: A clock that is further behind what it has itself stamped is wrong.
CLOCK_SLACK_S = 60
#: An alert is about directories that have not been read whole for longer (docker/rules.yml).
SLOWEST_SCRUB_DAYS = 30
#: The year that this was written in begins here: a machine whose clock is before has lost it.
EARLIEST_CLOCK_S = 1_767_225_600
#: File systems that have no place under a log, and why.
UNFIT = {
    "tmpfs": "it is memory: everything is gone after a restart",
    "ramfs": "it is memory: everything is gone after a restart",
    "overlay": "a container's own layer: slow, and gone with the container; mount a volume",
    "nfs": "locks and syncs are the server's word, and a server that is away stops everybody",
    "nfs4": "locks and syncs are the server's word, and a server that is away stops everybody",
    "cifs": "it has no reliable locks or syncs",
    "fuse.sshfs": "it has no reliable locks or syncs",
    "9p": "it has no reliable mmap or syncs",
}
#: Endings of settings that name a file with secrets, and of those that are secrets: then the file that they stand in is one.
_SECRET_FILES = ("ssl.keystore.location", "http.tokens.file", "backup.credentials.file", "backup.secrets.key.file")
_SECRET_SETTINGS = (
    "sasl.jaas.config", "ssl.keystore.key", "ssl.key.password", "backup.secret.access.key", "backup.session.token",
)  # fmt: skip
_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised


class Finding(NamedTuple):
    """One line of the report."""

    name: str
    status: str
    value: str
    why: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """Facts of one of log.dirs, or of the place where it would be created."""

    path: str
    exists: bool
    is_writable: bool
    free_bytes: int
    total_bytes: int
    free_inodes: int | None
    """None: the file system has no fixed number."""
    device: int
    kind: str
    """Type of the file system; empty if unknown."""
    segments: int
    newest_change_s: float
    """Modification time of the newest segment; 0 if there is none."""
    log_bytes: int = 0
    """Bytes of all segments' .log files."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of the machine. None: could not be read here."""

    descriptors_hard: int
    directories: Sequence[DirectoryFacts]
    now_s: float
    clock_is_synchronised: bool | None = None
    swappiness: int | None = None
    swap_total_bytes: int | None = None
    dirty_background_percent: int | None = None
    dirty_percent: int | None = None
    dirty_background_bytes: int | None = None
    dirty_bytes: int | None = None
    max_map_count: int | None = None
    memory_bytes: int | None = None
    has_hardware_crc: bool = True
    exposed: Sequence[str] = ()
    """Files with secrets that every user of this machine may read."""


# Looking.


def look(config: BrokerConfig, root: Path = Path("/")) -> Facts:
    """Facts about this machine, with the system's files below `root`. Walks log.dirs; may block on a disk that hangs."""
    vm = root / "proc/sys/vm"
    memory = _memory(root)
    mounts = _mounts(root)
    return Facts(
        descriptors_hard=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        directories=[_directory(path, mounts) for path in config.log_dirs],
        now_s=time.time(),
        clock_is_synchronised=_clock_is_synchronised(),
        swappiness=_number(vm / "swappiness"),
        swap_total_bytes=memory.get("SwapTotal"),
        dirty_background_percent=_number(vm / "dirty_background_ratio"),
        dirty_percent=_number(vm / "dirty_ratio"),
        dirty_background_bytes=_number(vm / "dirty_background_bytes"),
        dirty_bytes=_number(vm / "dirty_bytes"),
        max_map_count=_number(vm / "max_map_count"),
        memory_bytes=_memory_limit(root, memory.get("MemTotal")),
        has_hardware_crc=_has_hardware_crc(),
        exposed=[path for path in _secret_files(config) if _is_open_to_all(path)],
    )


def _secret_files(config: BrokerConfig) -> list[str]:
    """Files that hold credentials, keys or passwords, as far as settings name them."""
    found = [os.path.join(path, name) for path in config.log_dirs for name in (FILE_NAME, f"{FILE_NAME}-wal")]
    for name, text in config.given.items():
        if name.endswith(_SECRET_FILES):
            found.append(text)
        elif name.endswith(_SECRET_SETTINGS):
            found.append(config.origins.get(name, ""))
    return list(dict.fromkeys(found))


def _is_open_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except (OSError, ValueError):
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdecimal() else None


def _memory(root: Path) -> dict[str, int]:
    """Contents of /proc/meminfo, in bytes."""
    found = {}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if len(fields) == 2 and fields[0].isdecimal():
            found[name] = int(fields[0]) * 1024
    return found


def _memory_limit(root: Path, total: int | None) -> int | None:
    """The machine's memory, or the container's limit where that is less (the page cache counts into it)."""
    limits = [_number(root / "sys/fs/cgroup" / name) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    known = [value for value in (*limits, total) if value is not None]
    return min(known, default=None)


def _mounts(root: Path) -> list[tuple[str, str]]:
    """(mount point, kind of file system), the longest first."""
    rows = [line.split() for line in _text(root / "proc/self/mounts").splitlines()]
    found = [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]
    return sorted(found, key=lambda mount: -len(mount[0]))


def _directory(path: str, mounts: Sequence[tuple[str, str]]) -> DirectoryFacts:
    there = Path(os.path.abspath(path))
    exists = there.is_dir()
    is_blocked = False
    while not there.is_dir():
        is_blocked = is_blocked or there.exists()  # a file where a directory should be
        there = there.parent
    disk = os.statvfs(there)
    text = str(there)
    kind = next((kind for point, kind in mounts if text == point or text.startswith(point.rstrip("/") + "/")), "")
    segments, newest, log_bytes = 0, 0.0, 0
    if exists:
        for entry in there.glob("*/*.log"):
            try:
                facts = entry.stat()
            except OSError:  # a daemon that runs has deleted it meanwhile
                continue
            segments += 1
            newest, log_bytes = max(newest, facts.st_mtime), log_bytes + facts.st_size
    return DirectoryFacts(
        path,
        exists,
        not is_blocked and os.access(there, os.W_OK | os.X_OK),
        disk.f_bavail * disk.f_frsize,
        disk.f_blocks * disk.f_frsize,
        disk.f_favail if disk.f_files else None,
        there.stat().st_dev,
        kind,
        segments,
        newest,
        log_bytes,
    )


def _clock_is_synchronised() -> bool | None:
    """The kernel's view, which a time daemon sets; None if unknown."""
    import ctypes

    try:
        timex = ctypes.create_string_buffer(256)  # struct timex has 208 bytes; no modes: only reads
        state = int(ctypes.CDLL(None, use_errno=True).adjtimex(timex))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def _has_hardware_crc() -> bool:
    from ...protocol.records import _kernel

    return _kernel._use_hardware(True)


# Judging.


def examine(facts: Facts, config: BrokerConfig) -> list[Finding]:
    """Every finding, in the order of the report."""
    return [finding for check in _CHECKS for finding in check(facts, config)]


def _descriptors(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    limit = facts.descriptors_hard
    unlimited = limit == resource.RLIM_INFINITY
    status = OK if unlimited or limit >= GOOD_DESCRIPTORS else WARN if limit >= FEWEST_DESCRIPTORS else FAIL
    yield Finding(
        "file descriptors", status, "unlimited" if unlimited else str(limit),
        "each connection takes two, each open segment up to four; without one, clients are refused and segments can't be rolled",
        f"raise the hard limit to {GOOD_DESCRIPTORS} or more (ulimit -Hn, LimitNOFILE=, docker --ulimit nofile)",
    )  # fmt: skip


def _directories(facts: Facts, config: BrokerConfig) -> Iterator[Finding]:
    reserve = config.log_dir_reserve_bytes
    for directory in facts.directories:
        name = f"log directory {directory.path}"
        if not directory.is_writable:
            what = "can't be written to" if directory.exists else "can't be made"
            yield Finding(
                name, FAIL, what, "the daemon does not start", "give it to the daemon's user, or set log.dirs"
            )
            continue
        share = directory.free_bytes / directory.total_bytes if directory.total_bytes else 0.0
        status = FAIL if directory.free_bytes <= reserve else WARN if share < 0.1 else OK
        yield Finding(
            f"{name}: room", status, f"{_size(directory.free_bytes)} free of {_size(directory.total_bytes)}",
            f"with log.dir.reserve.bytes={reserve} or less free, producers are refused",
            "free some, lower retention.ms or retention.bytes, or take a larger disk",
        )  # fmt: skip
        if directory.free_inodes is not None:
            yield Finding(
                f"{name}: files", OK if directory.free_inodes > 100_000 else WARN if directory.free_inodes > 1000 else FAIL,
                f"{directory.free_inodes} more can be made", "each segment is four files",
                "larger segments (segment.bytes), or a file system with more inodes",
            )  # fmt: skip
        if directory.kind:
            why = UNFIT.get(directory.kind)
            yield Finding(
                f"{name}: file system", WARN if why else OK, directory.kind,
                why or "it has locks, mmap and syncs that can be trusted", "use ext4 or XFS on a disk of the machine",
            )  # fmt: skip
    devices = [directory.device for directory in facts.directories]
    if len(set(devices)) < len(devices):
        yield Finding(
            "log directories", WARN, "several on one file system",
            "they share its room and its speed, and count its free space once each", "one directory for each disk",
        )  # fmt: skip


def _maps(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    if facts.max_map_count is None:
        return
    needed = 2 * sum(directory.segments for directory in facts.directories)
    yield Finding(
        "vm.max_map_count", WARN if needed > 0.8 * facts.max_map_count else OK, f"{facts.max_map_count}, {needed} may be needed",
        "the two indexes of each open segment are mapped into memory",
        f"sysctl -w vm.max_map_count={max(262144, 4 * needed)}, or larger segments",
    )  # fmt: skip


def _dirty_pages(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    memory = facts.memory_bytes or 0
    background, limit = facts.dirty_background_bytes, facts.dirty_bytes
    if facts.dirty_background_percent is None or facts.dirty_percent is None:
        return
    # The byte settings count where they are not 0; then the others read 0.
    in_bytes = bool(background), bool(limit)
    background = background or memory * facts.dirty_background_percent // 100
    limit = limit or memory * facts.dirty_percent // 100
    shown = _size(background) if in_bytes[0] else f"{facts.dirty_background_percent} % of memory, {_size(background)}"
    yield Finding(
        "vm.dirty_background_ratio", WARN if background > 4 << 30 or facts.dirty_background_percent > 10 else OK, shown,
        "from here on the kernel writes appended pages back in the background; the more it gathers, the longer each sync "
        "(flush.ms, a segment's end) takes, and the more a power cut costs", "sysctl -w vm.dirty_background_ratio=5",
    )  # fmt: skip
    shown = _size(limit) if in_bytes[1] else f"{facts.dirty_percent} % of memory, {_size(limit)}"
    yield Finding(
        "vm.dirty_ratio", WARN if limit < 2 * background or facts.dirty_percent > 80 else OK, shown,
        "from here on whoever appends has to wait for the disk itself: the daemon's one thread, and with it every client",
        "sysctl -w vm.dirty_ratio=60, well above vm.dirty_background_ratio",
    )  # fmt: skip


def _swap(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    if facts.swappiness is None:
        return
    has_swap = bool(facts.swap_total_bytes)
    yield Finding(
        "vm.swappiness", WARN if has_swap and facts.swappiness > 10 else OK,
        f"{facts.swappiness}, {_size(facts.swap_total_bytes or 0)} of swap",
        "the higher, the sooner memory of processes is swapped out to make room for the page cache; a daemon that is swapped in "
        "again answers late, all clients at once", "sysctl -w vm.swappiness=1",
    )  # fmt: skip


def _memory_enough(facts: Facts, config: BrokerConfig) -> Iterator[Finding]:
    if facts.memory_bytes is None:
        return
    wanted = config.log_cleaner_dedupe_buffer_size + (256 << 20)
    yield Finding(
        "memory", OK if facts.memory_bytes >= wanted else WARN, _size(facts.memory_bytes),
        "the daemon takes some 40 MiB and log.cleaner.dedupe.buffer.size while it cleans; the rest is page cache, which "
        "readers are served from", f"at least {_size(wanted)}, or a smaller log.cleaner.dedupe.buffer.size",
    )  # fmt: skip


def _clock(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    newest = max((directory.newest_change_s for directory in facts.directories), default=0.0)
    behind = newest - facts.now_s
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(facts.now_s))
    why = "retention, deletion marks, transactions and offsets go by it"
    if facts.now_s < EARLIEST_CLOCK_S:
        yield Finding("clock", FAIL, shown, why, "it has lost the date: set it")
    elif behind > CLOCK_SLACK_S:
        yield Finding("clock", FAIL, f"{shown}, {behind:.0f} s before the newest segment was written", why,
                      "it went back: set it; retention waits until then")  # fmt: skip
    elif facts.clock_is_synchronised is False:
        yield Finding("clock", WARN, f"{shown}, not synchronised", why, "run a time daemon (chrony, systemd-timesyncd)")
    else:
        yield Finding("clock", OK, shown, why)


def _checksums(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    yield Finding(
        "checksums", OK if facts.has_hardware_crc else WARN, "in hardware" if facts.has_hardware_crc else "by table",
        "each batch is checked with CRC-32C; without the processor's instruction that is ten times the work",
        "a processor (or a virtual machine's CPU model) with SSE 4.2 or ARMv8 CRC",
    )  # fmt: skip


Check = Callable[[Facts, "BrokerConfig"], Iterator[Finding]]


def _secrets(facts: Facts, _config: BrokerConfig) -> Iterator[Finding]:
    shown = ", ".join(facts.exposed)
    yield Finding(
        "files with secrets", WARN if shown else OK, f"{shown}: readable by every user" if shown else "not readable by others",
        "who reads them has keys and passwords, or can guess passwords without being seen",
        f"chmod o-rwx {' '.join(facts.exposed)}",
    )  # fmt: skip


def _scrub(facts: Facts, config: BrokerConfig) -> Iterator[Finding]:
    rate = config.tidelog_log_scrub_bytes_per_second
    largest = max(facts.directories, key=lambda directory: directory.log_bytes)
    days = largest.log_bytes / rate / 86400 if rate else 0.0
    shown = f"reads {_size(largest.log_bytes)} of {largest.path} in {days:.1f} days" if rate else "off"
    yield Finding(
        "looking for damage", WARN if days > SLOWEST_SCRUB_DAYS else OK, shown,
        "closed segments are read again and again, slowly, so that a bit that flips on the disk is known while there are copies",
        f"raise tidelog.log.scrub.bytes.per.second={rate}, or set it to 0 where something else looks (ZFS, btrfs, a RAID)",
    )  # fmt: skip


def _listeners(_facts: Facts, config: BrokerConfig) -> Iterator[Finding]:
    found = open_listeners(config)
    shown = ", ".join(
        f"{listener.address} has no authentication: whoever reaches it may {listener.may}" for listener in found
    )
    yield Finding(
        "open listeners", WARN if found else OK, shown or "none: each asks who a client is, or is this machine's alone",
        "a listener that others reach and that has no authentication is open to all of them", ADVICE,
    )  # fmt: skip


_CHECKS: tuple[Check, ...] = (
    _descriptors, _directories, _maps, _dirty_pages, _swap, _memory_enough, _clock, _checksums, _scrub, _secrets,
    _listeners,
)  # fmt: skip


def _size(count: int) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return plural(count, "byte")
