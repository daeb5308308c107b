"""Archives in buckets: S3, Google Cloud Storage, Azure, through the stores of `backup/store/`. See ADR 98.

Driver: `bucket_of` says whether an archive is in one, and its store is that of the manifests. Executors: `write_parts` and
`read_parts` are what `mapInArrow` calls, with a `Bucket` in the pickle; they need tidelog, pyarrow and obstore, and no jar.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...backup.store import ObjectStore, StoreError, StoreOptions, open_store, probe
from ...backup.store.cloud import aws_profile
from .manifest import Archive, ArchiveError, ArchiveFile, remove_left_objects, told

if TYPE_CHECKING:
    import pyarrow as pa

_URL = re.compile(r"(s3|s3a|gs|az)://(.*)")
_BLOCK = 1 << 20
_BATCH_ROWS = 10_000
#: As Spark names the folder of rows whose partition column is null.
_NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_SIZES = "path string, rows bigint, bytes bigint, error string"
#: What Spark's own reader of S3 takes, and where it goes here. Others have no meaning for one archive.
_S3A = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
}
_ENVIRONMENT = {
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A `Place`, see `places.py`: where an archive's objects are. Pickled with each task; credentials are not in its text."""

    url: str
    options: StoreOptions = field(repr=False)

    def open(self) -> ObjectStore:
        """StoreError: the URL or an option is wrong, or obstore is not installed."""
        return open_store(self.url, self.options)

    def check(self, _version: int) -> None:
        """StoreError: the store ignores If-None-Match, or does not let us write."""
        probe(self.open())

    def sweep(self, archive: Archive) -> None:
        remove_left_objects(self.open(), archive)

    def write(self, rows: Any, data: str) -> list[ArchiveFile]:
        return write(rows, self, data)

    def read(self, spark: Any, files: Sequence[ArchiveFile], schema: str) -> Any:
        return read(spark, self, files, schema)


def check_bucket(folder: str) -> None:
    """ArchiveError: no bucket is named."""
    found = _URL.fullmatch(folder)
    if found is not None and not found[2].strip("/"):
        raise ArchiveError(f"{folder}: names no bucket; say {found[1]}://BUCKET/PATH")


def bucket_of(folder: str, spark: Any, options: StoreOptions | None = None) -> Bucket | None:
    """None: the archive is a folder. Without options: the session's settings for S3 (`spark.hadoop.fs.s3a.…`), then those of this
    process's environment, and what neither has as each executor finds it (an instance's role). ArchiveError: no bucket is named.
    """
    found = _URL.fullmatch(folder)
    if found is None:
        return None
    check_bucket(folder)
    scheme = found[1].replace("s3a", "s3")
    if options is None and scheme == "s3":
        options = s3_options(lambda name: spark.conf.get(f"spark.hadoop.fs.s3a.{name}", None), os.environ)
    return Bucket(f"{scheme}://{found[2].rstrip('/')}", options or StoreOptions())


def s3_options(setting: Callable[[str], str | None], environment: Mapping[str, str]) -> StoreOptions:
    """Of one session's settings and one process's environment; keys come from one of them, never half from each."""
    found = {ours: value for name, ours in _S3A.items() if (value := setting(name))}
    outside = {
        ours: value
        for ours, names in _ENVIRONMENT.items()
        if (value := next(filter(None, map(environment.get, names)), None))
    }
    if "access_key_id" not in outside:
        outside = aws_profile(environment) | outside
    if "access_key_id" in found:
        outside = {name: value for name, value in outside.items() if name in ("endpoint", "region")}
    found = outside | found
    endpoint = found.get("endpoint", "")
    if endpoint and "://" not in endpoint:
        plain = (setting("connection.ssl.enabled") or "true").lower() == "false"
        found["endpoint"] = f"{'http' if plain else 'https'}://{endpoint}"
    return StoreOptions(
        **found,  # type: ignore[arg-type]  # all of them are texts
        allow_http=found.get("endpoint", "").startswith("http://"),
        path_style=(setting("path.style.access") or "true").lower() != "false",
    )


def write(rows: Any, bucket: Bucket, data: str) -> list[ArchiveFile]:
    """Rows that have a column `date`, by which each partition is sorted, as objects below `data`. Driver.

    Each attempt of a task has names of its own, and those of the attempts that count are what comes back: what others have
    written belongs to no manifest. ArchiveError when a task could not write; what others wrote is removed, as far as it can be.
    """
    try:
        parts = rows.mapInArrow(lambda batches: write_parts(bucket, data, batches), _SIZES).collect()
        for part in parts:
            if part["error"]:
                raise ArchiveError(f"the archive {bucket.url}: {part['error']}; nothing was added to it")
    except BaseException:
        with suppress(StoreError):
            store = bucket.open()
            store.delete([stored.key for stored in store.list(f"{data}/")])
        raise
    return sorted(
        (ArchiveFile(part["path"], part["rows"], part["bytes"]) for part in parts), key=lambda archived: archived.path
    )


def write_parts(bucket: Bucket, data: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One object for each date, by a file on the executor's disk. Yields (path, rows, bytes, error). Executor."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def line(path: str, rows: int, size: int, error: str | None) -> pa.RecordBatch:
        schema = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("error", pa.string())])
        return pa.RecordBatch.from_pylist([{"path": path, "rows": rows, "bytes": size, "error": error}], schema)

    def pieces() -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in batches:
            if not batch.num_rows:
                continue
            dates = batch.column("date").to_pylist()
            rows = batch.select([name for name in batch.schema.names if name != "date"])
            begun = 0
            for at in range(1, len(dates) + 1):
                if at == len(dates) or dates[at] != dates[begun]:
                    yield dates[begun] or _NO_DATE, rows.slice(begun, at - begun)
                    begun = at

    def put(date: str, file: Any, rows: int) -> pa.RecordBatch:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        path = f"{data}/date={date}/part-{uuid.uuid4().hex}.parquet"
        store.upload(path, size, iter(lambda: file.read(_BLOCK), b""))
        return line(path, rows, size, None)

    try:
        store = bucket.open()
        waiting = pieces()
        following = next(waiting, None)
        while following is not None:
            date, rows = following[0], 0
            with tempfile.TemporaryFile() as file:
                # Without Arrow's own schema, which has the session's time zone: the files of all sessions are alike.
                with pq.ParquetWriter(file, following[1].schema, compression="zstd", store_schema=False) as writer:
                    while following is not None and following[0] == date:
                        writer.write_batch(following[1])
                        rows += following[1].num_rows
                        following = next(waiting, None)
                yield put(date, file, rows)
    except StoreError as error:
        # A row and no exception: the store was asked again as often as its options say, and this is told in one sentence.
        yield line("", 0, 0, str(error))


def read(spark: Any, bucket: Bucket, files: Sequence[ArchiveFile], schema: str) -> Any:
    """Rows of an archive's objects in columns of that schema, as many tasks as objects. Driver."""
    if not files:
        return spark.createDataFrame([], schema)
    listed = spark.createDataFrame([(one.path, one.bytes) for one in files], "path string, bytes bigint")
    return listed.repartition(len(files)).mapInArrow(lambda batches: read_parts(bucket, batches), schema)


def read_parts(bucket: Bucket, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the objects that are named. Holds one row group's columns. Executor. ArchiveError, whose text Spark passes on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with told(bucket.url):
        store = bucket.open()
        for batch in batches:
            for path, size in zip(*(batch.column(name).to_pylist() for name in ("path", "bytes")), strict=True):
                with pq.ParquetFile(pa.PythonFile(StoredFile(store, path, size), "r")) as file:
                    yield from file.iter_batches(batch_size=_BATCH_ROWS)


class StoredFile(io.RawIOBase):
    """An object as a file to read at random; each read is a request. One thread at a time."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        found = self._store.read(self._key, self._at, wanted)
        self._at += len(found)
        return found
