"""What the scrubber of a data directory remembers over restarts: how far the pass is, what was read when, what is damaged.

    tidelog-scrub     tidelog 1 93ab41c7                          CRC-32C of what follows
                      {"version":1,"pass":7,"begunMs":…,          the present or last pass, and when it began
                       "at":["orders",0,4096]|null,               the segment that comes next; null: all was read
                       "done":…,"total":…,                        bytes of log files that this pass is done with, of all
                       "wholeBegunMs":…,"wholeMs":…,              the last pass that was completed, -1 if none was
                       "omitted":…,                               damaged things that are not among these:
                       "damage":[{"topic":…,"partition":…,"base":…,"stamp":[…],
                                  "found":[[file,position,rule,detail,foundMs],…]},…]}

A file that is missing, damaged or can't be read costs a pass from the start, nothing else; Kafka passes over the name. Damage is
believed again where no file of its segment has changed since (`examine.stamp_of`). A base of -1 stands for the files of the
whole log.

Blocks. OSError of writes.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, NamedTuple

from ..inspect.verify_report import RULES
from ..io.checkpoint import TopicPartition
from ..io.checkpoint_copy import read_sealed, seal
from ..manager.data_directory import SCRUB_FILE
from .status import NEVER, ScrubDamage

if TYPE_CHECKING:
    from ..io.filesystem import FileSystem
    from .examine import Stamp

logger = logging.getLogger(__name__)

_VERSION = 1


class DamagedSegment(NamedTuple):
    """Damage of one segment, or (`base_offset` -1) of the files of a whole log. `stamp`: of its files when they were read."""

    key: TopicPartition
    base_offset: int
    stamp: Stamp
    damage: tuple[ScrubDamage, ...]


class Memory(NamedTuple):
    """Contents of the file; the default is what is known without one. `at`: topic, partition and base offset."""

    pass_number: int = 0
    begun_ms: int = NEVER
    at: tuple[str, int, int] | None = None
    done_bytes: int = 0
    whole_begun_ms: int = NEVER
    whole_ms: int = NEVER
    damage: tuple[DamagedSegment, ...] = ()
    total_bytes: int = 0
    omitted: int = 0


def write_memory(file_system: FileSystem, directory: str, memory: Memory) -> None:
    """Replace the file, durably. OSError."""
    content = {
        "version": _VERSION,
        "pass": memory.pass_number,
        "begunMs": memory.begun_ms,
        "at": memory.at,
        "done": memory.done_bytes,
        "total": memory.total_bytes,
        "omitted": memory.omitted,
        "wholeBegunMs": memory.whole_begun_ms,
        "wholeMs": memory.whole_ms,
        "damage": [
            {
                "topic": segment.key[0],
                "partition": segment.key[1],
                "base": segment.base_offset,
                "stamp": segment.stamp,
                "found": [
                    [d.path.rpartition("/")[2], d.position, d.rule, d.detail, d.found_ms] for d in segment.damage
                ],
            }
            for segment in memory.damage
        ],
    }
    data = json.dumps(content, separators=(",", ":")).encode()
    file_system.write_atomically(f"{directory}/{SCRUB_FILE}", seal(data))


def read_memory(file_system: FileSystem, directory: str) -> Memory:
    """Read the file; the default where it is missing, damaged, of another version, or can't be read."""
    path = f"{directory}/{SCRUB_FILE}"
    try:
        content = read_sealed(file_system, path)
    except OSError as error:  # the next write replaces it
        logger.warning("%s: %s; all is read from the start", path, error.strerror)
        return Memory()
    if content is None:
        return Memory()
    try:
        return parse_memory(content, directory)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        logger.warning("%s: not what a scrubber writes (%r); all is read from the start", path, error)
        return Memory()


def parse_memory(content: bytes, directory: str) -> Memory:
    """Parse the JSON behind the checksum, which says that it was written here: what is of another shape raises what Python
    says of it.
    """
    parsed = json.loads(content)
    if parsed["version"] != _VERSION:
        return Memory()
    at = parsed["at"]
    damage = []
    for entry in parsed["damage"]:
        key = (_text(entry["topic"]), _number(entry["partition"]))
        path = f"{directory}/{key[0]}-{key[1]}"
        found = tuple(
            ScrubDamage(*key, f"{path}/{_file_name(name)}", _number(position), rule, _text(detail), _number(found_ms))
            for name, position, rule, detail, found_ms in entry["found"]
            if rule in RULES
        )
        stamp = tuple(
            # Inodes have 64 bits in some file systems, and files may be older than 1970.
            None if one is None else (_whole(one[0]), _whole(one[1]), _whole(one[2]))
            for one in entry["stamp"]
        )
        damage.append(DamagedSegment(key, _number(entry["base"]), stamp, found))
    return Memory(
        _number(parsed["pass"]),
        _number(parsed["begunMs"]),
        None if at is None else (_text(at[0]), _number(at[1]), _number(at[2])),
        _number(parsed["done"]),
        _number(parsed["wholeBegunMs"]),
        _number(parsed["wholeMs"]),
        tuple(damage),
        _number(parsed.get("total", parsed["done"])),
        _number(parsed.get("omitted", 0)),
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _number(value: object) -> int:
    """TypeError, ValueError: it is none that is written here."""
    value = _whole(value)
    if not -1 <= value < 1 << 63:
        raise ValueError("a number is out of range")
    return value


def _file_name(value: object) -> str:
    name = _text(value)
    if "/" in name:
        raise ValueError(f"{name!r} is a path, and no file of a log")
    return name


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is no text")
    return value
