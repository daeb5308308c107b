"""Exceptions that end a pass early. Damaged records and disk errors have exceptions of their own."""

from __future__ import annotations

from ..storage.exceptions import StorageError


class CleaningAborted(StorageError):
    """The pass was asked to end (stop, new settings), or the log changed under it: the log is cleaned when next due."""


class CleaningError(StorageError):
    """The log can't be cleaned as things are; the message says what would have to change."""


class PassProcessError(CleaningError):
    """The process that walked for a pass could not be started, has ended, says nothing, or says what it can't mean."""
