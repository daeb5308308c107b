"""Rows on disk by their key: where the newest of each key are more than memory is to have.

A directory with a file for each of `BUCKETS` parts of the keys, in Arrow's stream format, in the order in which rows came. All
rows of a key are in one file, so that each file can be reduced by itself, in a part of the memory. It lies where Spark has its
own spills (SPARK_LOCAL_DIRS), and is gone with the read; one that a killed task leaves goes with Spark's directory.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ..exceptions import PipelineError

#: Files of a spill: each has its writer open while rows come.
BUCKETS = 64


class SpillError(PipelineError):
    """Rows cannot be put on disk, or taken from there."""


class Spill:
    """A task's; one thread. Use as a context manager: leaving it removes what is on disk. SpillError."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._writers: dict[int, Any] = {}
        #: Bytes that were handed over.
        self.bytes = 0

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            with contextlib.suppress(OSError):  # whatever it could not write is thrown away
                writer.close()
        self._writers.clear()
        if self._directory is not None:
            self._directory.cleanup()

    @property
    def is_used(self) -> bool:
        return self._directory is not None

    def add(self, rows: Any, buckets: Any) -> None:
        """Appends the rows of a `pyarrow.RecordBatch`. `buckets`: numpy's int64 of each row's file."""
        with self._told():
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="tidelog-latest-", dir=spill_directory())
            self.bytes += rows.nbytes
            order: Any = np.argsort(buckets, kind="stable")  # rows of a bucket stay in order
            edges: Any = np.searchsorted(buckets[order], np.arange(BUCKETS + 1))
            ordered = rows.take(pa.array(order))
            for bucket in range(BUCKETS):
                first, end = int(edges[bucket]), int(edges[bucket + 1])
                if first < end:
                    writer = self._writers.get(bucket)
                    if writer is None:
                        writer = self._writers[bucket] = pa.ipc.new_stream(self._path(bucket), rows.schema)
                    writer.write_batch(ordered.slice(first, end - first))

    def parts(self) -> Iterator[Iterator[Any]]:
        """The rows of each file, as they came; nothing more can be added. A file is gone when the next one is begun."""
        there = sorted(self._writers)
        with self._told():
            for bucket in there:
                self._writers.pop(bucket).close()
        for bucket in there:
            yield self._batches(bucket)
            os.unlink(self._path(bucket))

    # -- inside

    def _batches(self, bucket: int) -> Iterator[Any]:
        with self._told(), pa.OSFile(self._path(bucket)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    def _path(self, bucket: int) -> str:
        assert self._directory is not None
        return os.path.join(self._directory.name, f"{bucket:02d}.arrow")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SpillError(
                f"view=latest has more keys than latestMemoryBytes has room for, and cannot put them into {spill_directory()} "
                f"({error.strerror or error}); give spark.local.dir a place with room, or set latestMemoryBytes higher"
            ) from error


def spill_directory() -> str:
    """Where Spark has this executor's temporary files, as its own Python code finds it; else the system's."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
