"""The frame of manifests and bases: a line with version, kind, checksum and length, then the content, compressed by zlib.

tidelog-backup 1 cut 93ab…(32 digits) 1234\\n        sum of the bytes that follow, and how many they are
<zlib>

All versions have that line. The sum of a later version than 1 is over "VERSION KIND\\n" and the bytes that follow, whatever those
are: so a version that is damaged is told from one that is newer by whoever does not know it.
"""

from __future__ import annotations

import re
import zlib

from ...storage.exceptions import StorageError
from .keys import sum_of

VERSION = 1
_HEADER = re.compile(rb"tidelog-backup (\d{1,9}) ([a-z]+) ([0-9a-f]{32}) (\d{1,12})\n")
_LONGEST_HEADER = 128
_MOST_BYTES = 1 << 32
_LEVEL = 1  # of a list each line is new or not; more effort saves little, and costs a second's work its time


class DamagedBackupError(StorageError):
    """An object of a backup is not what was written."""


class NewerFormatError(StorageError):
    """A newer tidelog has written this backup."""


def seal(kind: str, content: bytes, version: int = VERSION) -> bytes:
    """Put the frame around `content`. A later version's is what that will look like to this one."""
    data = zlib.compress(content, _LEVEL)
    digest = _frame_sum(version, kind.encode(), data)
    return b"tidelog-backup %d %s %s %d\n" % (version, kind.encode(), digest.encode(), len(data)) + data


def _frame_sum(version: int, kind: bytes, data: bytes | memoryview) -> str:
    return sum_of(data) if version == 1 else sum_of(b"".join((b"%d %s\n" % (version, kind), data)))


def unseal(kind: str, data: bytes, name: str) -> bytes:
    """Content of a frame. DamagedBackupError; NewerFormatError. `name` is for the message."""
    match = _HEADER.match(data[:_LONGEST_HEADER])
    if match is None:
        raise DamagedBackupError(f"{name} is no {kind} of a tidelog backup")
    version, body = int(match[1]), memoryview(data)[match.end() :]
    # Before the version is believed: a flipped bit in it must not send somebody for a tidelog that there is not.
    is_whole = len(body) == int(match[4]) and _frame_sum(version, match[2], body) == match[3].decode()
    if is_whole and version > VERSION:
        raise NewerFormatError(
            f"{name} was written by a newer tidelog (backup format {version}, this one knows {VERSION}): "
            "restore with that version"
        )
    if match[2] != kind.encode():
        raise DamagedBackupError(f"{name} is no {kind} of a tidelog backup")
    if not is_whole or version != VERSION:
        raise DamagedBackupError(f"{name} is damaged: its checksum does not fit")
    try:
        inflated = zlib.decompressobj().decompress(body, _MOST_BYTES)
    except zlib.error as error:
        raise DamagedBackupError(f"{name} is damaged: {error}") from None
    return inflated
