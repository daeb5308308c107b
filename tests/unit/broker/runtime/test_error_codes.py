from __future__ import annotations

import inspect

import pytest
from support.logs import World, append
from tidelog.broker.runtime.error_codes import error_code
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records import exceptions as records
from tidelog.storage import exceptions as storage


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, "why"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (records.RecordTooLargeError("why"), ErrorCode.MESSAGE_TOO_LARGE),
        (records.InvalidRecordError("why"), ErrorCode.INVALID_RECORD),
        (records.CorruptRecordError("why"), ErrorCode.CORRUPT_MESSAGE),
        (records.UnsupportedCompressionError("why"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (storage.OffsetOutOfRangeError("why"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (storage.OutOfOrderSequenceError("why"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (storage.InvalidProducerEpochError("why"), ErrorCode.INVALID_PRODUCER_EPOCH),
        (storage.UnknownProducerError("why"), ErrorCode.UNKNOWN_PRODUCER_ID),
    ],
)
def test_codes(error: Exception, code: ErrorCode) -> None:
    found, message = error_code(error)
    assert found is code
    assert "why" in message


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (storage.KafkaStorageError("/data/x: rolling failed"), "the disk under the log failed"),
        (storage.DiskFullError("/data: the disk is full"), "the disk is full but for its reserve"),
        (OSError(24, "no", "/data/x"), "the disk under the log failed: Too many open files"),
        (
            caused(storage.KafkaStorageError("/data/x can't be written"), OSError(28, "no", "/data/x")),
            "the disk under the log failed: No space left on device",
        ),
    ],
)
def test_of_a_disk_clients_are_told_the_reason_and_no_path(error: Exception, told: str) -> None:
    assert error_code(error) == (ErrorCode.KAFKA_STORAGE_ERROR, told)


def test_a_defect_is_logged_whole_and_told_in_general(caplog: pytest.LogCaptureFixture) -> None:
    code, message = error_code(KeyError("secret"))
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in message
    assert "KeyError: 'secret'" in caplog.text


def test_a_disk_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    error_code(storage.KafkaStorageError("disk"))
    assert [record.getMessage() for record in caplog.records] == ["storage failed: disk"]


def test_a_log_that_is_gone_is_no_disks_fault(caplog: pytest.LogCaptureFixture) -> None:
    """Found by the simulator (seed 5614): an append that a deletion overtook, or a stop."""
    world = World()
    world.start()
    log = world.log()
    world.manager.delete("t", 0)
    with pytest.raises(storage.KafkaStorageError) as late:
        append(log, "late")
    assert error_code(late.value) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0 is closed")
    assert not caplog.records


def test_no_class_hides_behind_its_base() -> None:
    """A record error of any kind is the client's, never "unknown"."""
    # The last says nothing about a record: whoever set the time goes on elsewhere.
    not_told = (records.RecordError, records.UnsupportedFormatError, records.OutOfTimeError)
    for _, kind in inspect.getmembers(records, inspect.isclass):
        if kind not in not_told and issubclass(kind, records.RecordError):
            assert error_code(kind("why"))[0] is not ErrorCode.UNKNOWN_SERVER_ERROR, kind


@pytest.mark.parametrize("code", [ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION])
def test_where_a_setting_is_at_fault_its_page_is_told(code: ErrorCode) -> None:
    """To clients of any kind: Java's programs show the message as it is."""
    told = "max.partitions=3 is reached; see docs/SETTINGS.md#max.partitions"
    assert error_code(ProtocolError(code, "max.partitions=3 is reached")) == (code, told)
    refused = ProtocolError(ErrorCode.INVALID_REQUEST, "max.partitions=3 is reached")
    assert error_code(refused)[1] == "max.partitions=3 is reached"
