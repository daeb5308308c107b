"""Whatever bytes stand in Apache Kafka's metadata log: they are read, or refused with one line; nothing else happens."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st
from tidelog.broker.kraft.image import MetadataImage
from tidelog.broker.kraft.import_ import read_image
from tidelog.protocol.errors import ProtocolError
from tidelog.protocol.metadata_records import decode_record
from tidelog.protocol.records.record_batch import (
    LENGTH_AT,
    MAGIC_AT,
    PARTITION_LEADER_EPOCH_AT,
    iterate_batches,
    iterate_records,
)
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.inspect.metadata_log import METADATA_LOG_DIRECTORY, SnapshotId, find_metadata_log, write_snapshot
from tidelog.storage.io.filesystem import RealFileSystem

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-data" / "data" / METADATA_LOG_DIRECTORY / f"{0:020d}.log"
LOG = GOLDEN.read_bytes()
VALUES = [
    record.value or b""
    for batch in iterate_batches(LOG)
    if not batch.is_control
    for record in iterate_records(LOG, batch.position)
]
FILES = RealFileSystem()


@given(st.binary(max_size=60))
def test_any_bytes_as_a_record(value: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_record(value)


@given(st.sampled_from(range(len(VALUES))), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_record(number: int, position: int, flip: int) -> None:
    changed = bytearray(VALUES[number])
    changed[position % len(changed)] ^= flip
    with contextlib.suppress(ProtocolError, ValueError):
        MetadataImage.of([*VALUES[:number], bytes(changed), *VALUES[number + 1 :]])


def is_checked(content: bytes, position: int) -> bool:
    """Whether the checksum covers the byte: all but a batch's offset and leader epoch (a wrong size or magic shows)."""
    batch = next(one for one in iterate_batches(content) if one.position <= position < one.position + one.size)
    at = position - batch.position
    return not (at < LENGTH_AT or PARTITION_LEADER_EPOCH_AT <= at < MAGIC_AT)


@given(st.integers(0, len(LOG) - 1), st.integers(1, 255), st.integers(0, len(LOG)), st.booleans())
def test_damaged_files(position: int, flip: int, size: int, is_snapshot: bool) -> None:
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / METADATA_LOG_DIRECTORY
        if is_snapshot:
            write_snapshot(FILES, path, SnapshotId(273, 1), VALUES, timestamp=0)
            [file] = path.iterdir()
        else:
            path.mkdir()
            file = Path(shutil.copy(GOLDEN, path))
        content = bytearray(file.read_bytes())
        position %= len(content)
        assume(size <= position or is_checked(bytes(content), position))
        content[position] ^= flip
        file.write_bytes(content[: max(size, 1)])
        files = find_metadata_log(FILES, [root])
        assert files is not None
        try:
            image = read_image(FILES, files)
        except DataDirectoryError as error:
            assert "\n" not in str(error)
        else:
            assert not is_snapshot, "a snapshot is whole or is none"
            assert image.records < len(VALUES), "the damaged batch and all behind it are left out"
