"""A disk that answers EIO: at one call, or at every one of its kind from there on; and what must hold afterwards.

The rule for every test that uses it: what had been acknowledged is there after a start on a sound disk, whatever the power cut
that came after the error left; nothing is acknowledged on the strength of a sync that failed, or of a later one that "succeeds"
without the lost pages (the fake disk loses them, as Linux does); and nobody sees another error than a typed one.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.fake_filesystem import FakeFileSystem, Operation

KINDS = (
    "append", "sync", "sync_directory", "rename", "truncate", "resize", "create", "unlink", "reserve", "mkdir", "rewrite",
)  # fmt: skip


@dataclass
class BadDisk:
    """The `at`-th mutating call fails. `lasting`: all others like it on the same file, or directory, from then on too."""

    at: int
    lasting: bool = False
    seen: int = 0
    hit: list[Operation] = field(default_factory=list)

    def __call__(self, operation: Operation) -> BaseException | None:
        if operation.kind not in KINDS:
            return None
        self.seen += 1
        again = self.lasting and bool(self.hit) and operation[:2] == self.hit[0][:2]
        if self.seen == self.at or again:
            self.hit.append(operation)
            return OSError(errno.EIO, "input/output error", operation.path)
        return None

    @property
    def place(self) -> tuple[str, str]:
        """(kind of call, kind of file): what the test has been through."""
        kind, path, _ = self.hit[0]
        name = path.rpartition("/")[2]
        return kind, name.partition(".")[2] if name[:20].isdigit() else name


def left_by(system: FakeFileSystem, *, seeds: int = 3) -> Iterator[tuple[str, FakeFileSystem]]:
    """States of the disk that the next start may find: after `kill -9`, and after power cuts."""
    yield "kill", system.kill()
    yield from system.power_cut_states(seeds)
