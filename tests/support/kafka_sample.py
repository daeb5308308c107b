"""Kafka's sample directory (tests/golden/kafka-data) to open, and what its records are, decoded from the files alone.

That the decoder agrees with Kafka is for tests/golden; here it is the oracle of what clients must get.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-data" / "data"
PARTITIONS = sorted(
    (path.name.rpartition("-")[0], int(path.name.rpartition("-")[2]))
    for path in GOLDEN.iterdir()
    if path.is_dir() and not path.name.startswith("__")
)
# Records older than the logs' start, which DeleteRecords has moved into the middle of a segment.
LOG_STARTS = {("deleted-records", 0): 333}
COMMIT = b"\0\0\0\1"


class Transaction(NamedTuple):
    """One that has ended; offsets of its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_committed: bool


class SampleLog(NamedTuple):
    """One partition. `committed` are the records that a reader of committed data gets; markers are in neither list."""

    start: int
    end: int
    last_stable_offset: int
    records: list[Record]
    committed: list[Record]
    transactions: list[Transaction]


def copy_sample(directory: Path) -> None:
    """The directory as Kafka left it after a clean stop."""
    shutil.copytree(GOLDEN, directory)
    (directory / "kafka_cleanshutdown").rename(directory / ".kafka_cleanshutdown")


def sample_log(topic: str, partition: int) -> SampleLog:
    files = sorted((GOLDEN / f"{topic}-{partition}").glob("*.log"))
    start = LOG_STARTS.get((topic, partition), int(files[0].stem))
    records: list[Record] = []
    owners: dict[int, int] = {}  # offset → producer id, of records in transactions
    opened: dict[int, int] = {}  # producer id → first offset
    transactions: list[Transaction] = []
    end = start
    for data in (file.read_bytes() for file in files):
        for batch in iterate_batches(data):
            found = list(iterate_records(data, batch.position))
            end = batch.last_offset + 1
            if batch.is_control:
                for marker in found:
                    first = opened.pop(batch.producer_id, marker.offset)
                    is_committed = marker.key == COMMIT
                    transactions.append(Transaction(batch.producer_id, first, marker.offset, is_committed))
                continue
            if batch.is_transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
                owners |= dict.fromkeys((record.offset for record in found), batch.producer_id)
            records += [record for record in found if record.offset >= start]
    stable = min(opened.values(), default=end)
    committed = [
        record
        for record in records
        if record.offset < stable and not _is_aborted(transactions, owners.get(record.offset), record.offset)
    ]
    return SampleLog(start, end, stable, records, committed, transactions)


def _is_aborted(transactions: list[Transaction], producer_id: int | None, offset: int) -> bool:
    """True if the first marker of the record's producer behind it aborts it."""
    if producer_id is None:
        return False
    own = (one for one in transactions if one.producer_id == producer_id and one.last_offset > offset)
    return not next(own).is_committed
