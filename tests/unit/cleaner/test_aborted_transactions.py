from __future__ import annotations

from support.cleaning import CleaningWorld, Producer
from tidelog.cleaner.aborted_transactions import AbortedTransactions
from tidelog.storage.index.transaction_index import TransactionIndex
from tidelog.storage.segment.names import CLEANED_STAGE


def test_all_that_begin_below_the_end_are_found_where_ever_their_marker_is() -> None:
    made = CleaningWorld()
    made.start(segment_bytes=100_000)
    log = made.log()
    first, second = Producer(1), Producer(2)
    first.send(log, (b"a", b"x"))
    log.roll()
    second.send(log, (b"b", b"x"))
    second.end(log, commit=False)
    log.roll()
    first.end(log, commit=False)  # in the active segment
    directory = log.log_directory
    assert AbortedTransactions.of(directory, log.segments, 1).keys() == [(1, 0, 3)]
    found = AbortedTransactions.of(directory, log.segments, 3)
    assert sorted(found.keys()) == [(1, 0, 3), (2, 1, 2)]
    assert len(found) == 2

    path = directory.file(0, ".txnindex", CLEANED_STAGE)
    found.write(directory, 0, [(1, 0, 3), (2, 1, 2)])
    entries = TransactionIndex(made.file_system, path, 0).all()
    assert [(txn.producer_id, txn.last_offset) for txn in entries] == [(2, 2), (1, 3)]
    found.write(directory, 0, [])
    assert not made.file_system.exists(path)
