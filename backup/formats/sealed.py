"""The frame of manifests and bases: a line with version, kind, checksum and length, then the content, compressed by zlib.

tidelog-backup 1 cut 93ab…(32 digits) 1234\\n        sum of the bytes that follow, and how many they are
<zlib>
"""

from __future__ import annotations

import re
import zlib

from ...storage.exceptions import StorageError
from .keys import sum_of

VERSION = 1
_HEADER = re.compile(rb"tidelog-backup (\d{1,9}) ([a-z]+) ([0-9a-f]{32}) (\d{1,12})\n")
_VERSION_ALONE = re.compile(rb"tidelog-backup (\d{1,9})[ \n]")
_LONGEST_HEADER = 128
_MOST_BYTES = 1 << 32
_LEVEL = 1  # of a list each line is new or not; more effort saves little, and costs a second's work its time


class DamagedBackupError(StorageError):
    """An object of a backup is not what was written."""


class NewerFormatError(StorageError):
    """A newer tidelog has written this backup."""


def seal(kind: str, content: bytes) -> bytes:
    """Put the frame around `content`."""
    data = zlib.compress(content, _LEVEL)
    return b"tidelog-backup %d %s %s %d\n" % (VERSION, kind.encode(), sum_of(data).encode(), len(data)) + data


def unseal(kind: str, data: bytes, name: str) -> bytes:
    """Content of a frame. DamagedBackupError; NewerFormatError. `name` is for the message."""
    head = data[:_LONGEST_HEADER]
    match = _HEADER.match(head)
    found = match or _VERSION_ALONE.match(head)
    if found is not None and int(found[1]) > VERSION:
        raise NewerFormatError(
            f"{name} was written by a newer tidelog (backup format {int(found[1])}, this one knows {VERSION}): "
            "restore with that version"
        )
    if match is None or int(match[1]) != VERSION or match[2] != kind.encode():
        raise DamagedBackupError(f"{name} is no {kind} of a tidelog backup")
    body = memoryview(data)[match.end() :]
    if len(body) != int(match[4]) or sum_of(body) != match[3].decode():
        raise DamagedBackupError(f"{name} is damaged: its checksum does not fit")
    try:
        inflated = zlib.decompressobj().decompress(body, _MOST_BYTES)
    except zlib.error as error:
        raise DamagedBackupError(f"{name} is damaged: {error}") from None
    return inflated
