"""Exceptions of object stores.

    StoreError               base; also what no other class says: a key that is not one, a store that cannot do this
    ├── NotThere             no object has this key (or the bucket is missing: the sentence says so)
    ├── AlreadyThere         `create` found an object with this key
    ├── Denied               credentials are missing, wrong or too weak: trying again does not help
    └── Unavailable          the store did not answer, or said that it is busy: worth another try, later

Each is one line: what was done to which key of which store, what came of it, and what to do.
"""

from __future__ import annotations

from ...storage.exceptions import StorageError


class StoreError(StorageError):
    """An operation on an object store failed."""

    def __init__(self, operation: str, store: str, key: str, problem: str, remedy: str = "") -> None:
        place = f"{store.rstrip('/')}/{key}" if key else store
        super().__init__(f"{operation} {place}: {problem}{'; ' + remedy if remedy else ''}")
        self.operation = operation
        self.store = store
        self.key = key
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.operation, self.store, self.key, self.problem, self.remedy)
        return type(self), arguments, vars(self)  # by default it would be made of its text


class NotThere(StoreError):
    """There is no object with this key."""


class AlreadyThere(StoreError):
    """There is an object with this key already; it was left as it is."""


class Denied(StoreError):
    """The store refused the credentials, or they do not allow this operation."""


class Unavailable(StoreError):
    """The store could not be reached, took too long, failed or asked to slow down. The operation may have worked."""
