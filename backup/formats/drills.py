"""Bytes of a drill's record: JSON in the frame of `sealed.py`."""

from __future__ import annotations

import json

from .entries import Drill
from .sealed import DamagedBackupError, seal, unseal

_LONGEST_FAULT = 2000


def encode_drill(drill: Drill) -> bytes:
    content = drill._replace(fault=drill.fault[:_LONGEST_FAULT])._asdict()
    return seal("drill", json.dumps(content, separators=(",", ":")).encode())


def decode_drill(data: bytes, name: str) -> Drill:
    """DamagedBackupError, NewerFormatError."""
    content = unseal("drill", data, name)
    try:
        found = json.loads(content)
        return Drill(
            int(found["cut"]), int(found["taken_ms"]), int(found["ended_ms"]), float(found["seconds"]),
            int(found["partitions"]), int(found["bytes"]), str(found["fault"]),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise DamagedBackupError(f"{name} is not understood: {error}") from None
