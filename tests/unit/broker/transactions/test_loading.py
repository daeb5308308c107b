"""What a start makes of a partition of `__transaction_state`."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from tidelog.broker.coordinator.internal_topic import ReplayBatch
from tidelog.broker.transactions.log import load_transactions, transaction_key, transaction_value
from tidelog.broker.transactions.states import TransactionMetadata, TransactionState

METADATA = TransactionMetadata("a", 5, 1, 100, TransactionState.EMPTY, 7, previous_producer_id=5)


def batch(offset: int, *records: tuple[bytes | None, bytes | None], is_control: bool = False) -> ReplayBatch:
    return ReplayBatch(offset, -1, False, is_control, [(offset + i, k, v) for i, (k, v) in enumerate(records)])


def test_the_last_record_of_an_id_counts() -> None:
    later = replace(METADATA, producer_epoch=2)
    other = replace(METADATA, transactional_id="b")
    loaded = load_transactions(
        "log",
        [
            batch(0, (transaction_key("a"), transaction_value(METADATA, 1)), (transaction_key("c"), b"")),
            batch(2, (transaction_key("b"), transaction_value(other, 1)), (transaction_key("c"), None)),
            batch(4, (b"\0\0\0\1", b"\0\0\0\0\0\0"), is_control=True),
            batch(5, (transaction_key("a"), transaction_value(later, 1))),
        ],
    )
    assert loaded.by_id == {"a": later, "b": other}
    assert (loaded.broken, loaded.skipped) == (0, 0)


def test_what_cannot_be_read_is_passed_over_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    good = transaction_key("a"), transaction_value(METADATA, 1)
    with caplog.at_level(logging.ERROR):
        first = batch(7, (b"\0\0\0\7x", b"1"), good, (transaction_key("b"), b"\0\7"))
        loaded = load_transactions("log-3", [first, batch(10, (None, b""), (b"\0\5", b""))])
    assert (list(loaded.by_id), loaded.broken, loaded.skipped) == (["a"], 2, 2)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("log-3: the record at offset 7 cannot be read")
