"""Stores of immutable objects under keys: one interface, and its implementations.

`interface.py` says what a store promises, `errors.py` how it fails, `opening.py` which URL is which store. `files.py` is a
directory, `cloud.py` S3, Google Cloud Storage and Azure, `memory.py` a dictionary. `probing.py` finds out at start
whether a store keeps its promises; `limited.py` and `counted.py` wrap any store. Start reading at `interface.py`.
"""

from .counted import Count, Counted
from .errors import AlreadyThere, Denied, NotThere, StoreError, Unavailable
from .interface import ObjectStore, Stored, StoreOptions
from .limited import Limited
from .opening import open_store
from .probing import Probed, probe

__all__ = [
    "AlreadyThere",
    "Count",
    "Counted",
    "Denied",
    "Limited",
    "NotThere",
    "ObjectStore",
    "Probed",
    "StoreError",
    "StoreOptions",
    "Stored",
    "Unavailable",
    "open_store",
    "probe",
]
