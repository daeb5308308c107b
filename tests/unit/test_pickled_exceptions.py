"""Exceptions go between processes: from a Spark executor to its driver, from a worker of `multiprocessing` to its parent."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from types import ModuleType

import pytest
from tidelog import cleaner, clients, config, pipeline, protocol, storage
from tidelog.backup import store as stores
from tidelog.backup.store.errors import StoreError
from tidelog.clients.kafka.connection import TlsFailedError
from tidelog.clients.kafka.conversations import SaslRefusedError
from tidelog.clients.kafka.protocol import AnnouncedSizeError, NoCommonVersionError
from tidelog.config.exceptions import ConfigError
from tidelog.pipeline.exceptions import BrokerError
from tidelog.pipeline.sink.producer import RefusedError
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.message_set.wire import MessageSetError
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.records.exceptions import InvalidRecordError, InvalidTimestampError, RecordFault
from tidelog.storage.exceptions import DataDirectoryError

PACKAGES = (pipeline, stores, clients, storage, cleaner, protocol, config)
"""What the pipeline raises, with what comes through it, and what stores do. Other errors of a broker's stay in its process."""

MADE: dict[type[Exception], Exception] = {
    BrokerError: BrokerError(29, "no", retriable=False),
    RefusedError: RefusedError(("t", 0), 3, 87, "no", ((1, "no key"),)),
    ProtocolError: ProtocolError(ErrorCode.INVALID_REQUEST, "no"),
    AnnouncedSizeError: AnnouncedSizeError(1 << 31),
    NoCommonVersionError: NoCommonVersionError(MetadataRequest, 0, 3, (9, 12)),
    SaslRefusedError: SaslRefusedError(58, "no", "PLAIN"),
    TlsFailedError: TlsFailedError(ConnectionResetError(104, "reset")),
    MessageSetError: MessageSetError(3, "a fetch"),
    ConfigError: ConfigError(["a is not a number", "b is not known"]),
    StoreError: StoreError("read", "s3://bucket", "cuts/1", "is gone", "look elsewhere"),
    DataDirectoryError: DataDirectoryError("/data", "is full", "make room"),
    InvalidRecordError: InvalidRecordError("no", 1, (RecordFault(1, "no key"),)),
    InvalidTimestampError: InvalidTimestampError("no", 1, (RecordFault(1, "too old"),)),
}
"""One of each class whose arguments are not a sentence; a class below one of them is made with the same ones' text."""


#: Of the extra `pipeline`, which this ring does not install.
EXTRA = {"numpy", "pandas", "pyarrow", "pyspark"}


def imported(name: str) -> ModuleType | None:
    """None for a module that needs the extra where that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRA:
            raise
        return None


def modules(package: ModuleType) -> list[ModuleType]:
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [package, *filter(None, (imported(name) for name in names if not name.endswith("__main__")))]


def exceptions() -> list[type[Exception]]:
    found = {
        kind
        for package in PACKAGES
        for module in modules(package)
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == module.__name__
    }
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")


def example(kind: type[Exception]) -> Exception:
    """One of it: of the table, or made as the nearest class in the table is, or with a sentence."""
    if kind in MADE:
        return MADE[kind]
    own = next((base for base in kind.__mro__ if "__init__" in vars(base)), Exception)
    if own is DataDirectoryError:
        return kind("/data", "is full", "make room")
    if own is StoreError:
        return kind("read", "s3://bucket", "cuts/1", "is gone", "look elsewhere")
    return kind("what went wrong")


def test_there_are_exceptions() -> None:
    assert len(exceptions()) > 50
    assert set(MADE) <= set(exceptions())


@pytest.mark.parametrize("kind", exceptions(), ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_an_exception_is_the_same_in_another_process(kind: type[Exception]) -> None:
    error = example(kind)
    error.add_note("while reading t-0")
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is kind
    assert (str(there), there.args) == (str(error), error.args)
    said = {name: str(value) for name, value in vars(error).items()}
    assert {name: str(value) for name, value in vars(there).items()} == said
    if isinstance(error, OSError):
        assert isinstance(there, OSError)
        assert (there.errno, there.strerror) == (error.errno, error.strerror)
