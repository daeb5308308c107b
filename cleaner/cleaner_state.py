"""`tidelog-cleaner.json`: cleaner state of a partition that survives a restart, beside Kafka's
cleaner-offset-checkpoint.

    {"version":1,"checkpoint":4711,"interrupted":true,"interrupted_end":9000,"horizons":{"0":1763735000000}}

`horizons` has, for each segment by its base offset, the time (ms) at which something in it may go: the earliest delete horizon
of its batches. Without it every log would have to be read at each start to know when it is due. It holds for the checkpoint
that it names: where the checkpoint file says otherwise, somebody else (Apache Kafka) has cleaned, and the headers are read.
`interrupted` is set before the first segment of a pass is swapped in, and taken back when a pass has come to the end of that
one, `interrupted_end`: until then there may be cleaned segments above the checkpoint. A pass may end below it: it has a smaller
map, or records became too young again by a setting or the clock.

The file lies in the partition's directory, so that it moves and goes with it; Apache Kafka takes no notice of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..storage.exceptions import StorageError

if TYPE_CHECKING:
    from ..storage.io.filesystem import FileSystem

logger = logging.getLogger(__name__)

CLEANER_STATE_FILE = "tidelog-cleaner.json"
_VERSION = 1
_MAX_INT64 = 2**63 - 1


class CleanerState(NamedTuple):
    """The content of the file."""

    checkpoint: int
    is_interrupted: bool
    horizons: Mapping[int, int]
    interrupted_end: int | None = None
    """Offset at which the interrupted pass would have ended; None: not known. So where a restore wrote the file, and where it is
    older than this entry.
    """


def read_state(file_system: FileSystem, directory: str) -> CleanerState | None:
    """Read the file; None when it is absent or unusable (the latter is logged). Blocks; OSError."""
    path = f"{directory}/{CLEANER_STATE_FILE}"
    try:
        content = json.loads(file_system.read_bytes(path))
    except FileNotFoundError:
        return None
    except (StorageError, ValueError, RecursionError) as error:
        logger.warning("%s: %s; going on as if there were none", path, error)
        return None
    state = _parsed(content)
    if state is None:
        logger.warning("%s is not understood; going on as if there were none", path)
    return state


def _parsed(content: object) -> CleanerState | None:
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        return None
    checkpoint, horizons, end = content.get("checkpoint"), content.get("horizons"), content.get("interrupted_end")
    if not isinstance(checkpoint, int) or not _is_offset(checkpoint) or not isinstance(horizons, dict):
        return None
    if not all(base.isdecimal() and len(base) < 20 and _is_offset(time) for base, time in horizons.items()):
        return None
    is_interrupted = content.get("interrupted") is True
    known_end = end if is_interrupted and isinstance(end, int) and _is_offset(end) else None
    return CleanerState(checkpoint, is_interrupted, {int(base): time for base, time in horizons.items()}, known_end)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT64


def write_state(file_system: FileSystem, directory: str, state: CleanerState) -> None:
    """Replace the file, durably. Blocks; OSError."""
    content: dict[str, object] = {
        "version": _VERSION,
        "checkpoint": state.checkpoint,
        "interrupted": state.is_interrupted,
    }
    if state.is_interrupted and state.interrupted_end is not None:
        content["interrupted_end"] = state.interrupted_end
    content["horizons"] = {str(base): time for base, time in sorted(state.horizons.items())}
    data = json.dumps(content, separators=(",", ":")).encode()
    file_system.write_atomically(f"{directory}/{CLEANER_STATE_FILE}", data)
