"""Why a pass ended before its end. What records or disks do wrong is told by their own exceptions."""

from __future__ import annotations

from ..storage.exceptions import StorageError


class CleaningAborted(StorageError):
    """Asked to end (stop, new settings), or the log has changed meanwhile: it is taken up again when it is due."""


class CleaningError(StorageError):
    """This log can't be cleaned as things are; the message says what would have to change."""
