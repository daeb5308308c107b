"""Defects that are put in on purpose, for the simulation to find: each a change of one place of the daemon's source.

`plant(name)` has the module compiled with the defect when it is imported; nothing on disk changes. No part of the workload and no
oracle is made for one of them. A row whose text the source no longer has fails, and has to be written anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import NamedTuple


class Defect(NamedTuple):
    """`old` stands once in the source of `module`, and becomes `new`. Of the first `seeds` seeds one at least fails."""

    name: str
    module: str
    old: str
    new: str
    seeds: int = 30


DEFECTS = [
    Defect(
        "a batch that is sent again is not recognised",
        "tidelog.storage.producers.state",
        "            if again is not None:\n                return DuplicateBatch(",
        "            if again is not None and first < 0:\n                return DuplicateBatch(",
        60,
    ),
]


MISSED = [
    Defect(
        "the watermark is published before the bytes are durable",
        "tidelog.broker.partitions.partition",
        "        self._sync_workers.submit(self.log.flush, self._synced)\n",
        "        self._synced(self.log.log_end_offset)\n        self._sync_workers.submit(self.log.flush, lambda _: None)\n",
    ),
    Defect(
        "a wake-up is forgotten that comes while the last ones are told",
        "tidelog.broker.partitions.disk_workers",
        "        self._loop_is_woken = False\n        while self._finished and not self._closed:\n"
        "            done, outcome = self._finished.popleft()\n            self._under_way -= 1\n            done(outcome)\n",
        "        while self._finished and not self._closed:\n            done, outcome = self._finished.popleft()\n"
        "            self._under_way -= 1\n            done(outcome)\n        self._loop_is_woken = False\n",
    ),
    Defect(
        "coordinators answer before what they wrote is durable",
        "tidelog.broker.coordinator.runtime",
        "    if unsynced is not None:\n        try:\n            await asyncio.shield(unsynced)\n",
        "    if unsynced is not None and unsynced.cancelled():\n        try:\n            await asyncio.shield(unsynced)\n",
    ),
]
"""Those that the first 30 seeds do not find: the power would have to go in the middle of a sync, a thread to stop at one line."""


class _Loader(SourceFileLoader):
    """Compiles a module with a defect; no byte code of it is kept."""

    defect: Defect

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path).decode()
        if source.count(self.defect.old) != 1:
            raise ValueError(f"{self.defect.name}: its text stands {source.count(self.defect.old)} times in {path}")
        return self.source_to_code(source.replace(self.defect.old, self.defect.new).encode(), path)  # type: ignore[no-any-return]


class _Finder(MetaPathFinder):
    def __init__(self, defect: Defect) -> None:
        self._defect = defect

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._defect.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = loader = _Loader(fullname, spec.origin)
        loader.defect = self._defect
        return spec


def plant(name: str) -> None:
    """Puts the defect of that name into its module, which must not be imported yet."""
    (defect,) = [defect for defect in (*DEFECTS, *MISSED) if defect.name == name]
    assert defect.module not in sys.modules, f"{defect.module} is imported already"
    sys.meta_path.insert(0, _Finder(defect))
