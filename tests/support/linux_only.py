"""Which modules of tests need Linux, and for what: on another system they are skipped with that reason, the rest runs.

Told by the source: a test that reads /proc, measures a daemon by it, or runs a program of Linux names it. What fails elsewhere
for another reason is not known, as nobody has run these tests there.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

NEEDS = {
    "/proc": re.compile(r"[\"'f]/proc\b|Path\(\"/proc"),
    "a daemon's use of memory and CPU, from /proc": re.compile(r"\.(?:usage|sockets)\(\)"),
    "calls of Linux": re.compile(
        r"\bos\.(?:posix_fadvise|posix_fallocate|memfd_create|fdatasync|sched_\w+|eventfd)\b|F_OFD_|RUSAGE_THREAD|MSG_MORE"
    ),
    "programs of Linux": re.compile(
        r"[\"'](?:strace|unshare|setpriv|prlimit|systemd-analyze|systemctl|mount|dpkg-deb)[\"' ]"
    ),
    "systemd": re.compile(r"NOTIFY_SOCKET"),
    "the page cache as Linux shows it": re.compile(r"\bpage_cache\b"),
}


@cache
def linux_only(path: Path) -> str | None:
    """Why the module's tests need Linux; None where nothing says that they do."""
    source = path.read_text(encoding="utf-8")
    found = [what for what, pattern in NEEDS.items() if pattern.search(source)]
    return f"needs Linux: {', '.join(found)}" if found else None


def is_linux() -> bool:
    return sys.platform == "linux"
