"""Stores of immutable objects under keys: one interface, and its implementations.

`interface.py` says what a store promises, `errors.py` how it fails, `opening.py` which URL is which store. `files.py` is a
directory, `cloud.py` S3, Google Cloud Storage and Azure, `memory.py` a dictionary. `probe.py` finds out at start
whether a store keeps its promises; `limited.py` and `counted.py` wrap any store. Start reading at `interface.py`.
"""

from .errors import AlreadyThere, Denied, NotThere, StoreError, Unavailable
from .interface import ObjectStore, Stored, StoreOptions
from .opening import open_store

__all__ = [
    "AlreadyThere",
    "Denied",
    "NotThere",
    "ObjectStore",
    "StoreError",
    "StoreOptions",
    "Stored",
    "Unavailable",
    "open_store",
]
