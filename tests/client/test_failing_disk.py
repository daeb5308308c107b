"""A disk that refuses, or descriptors that have run out, are told to clients without a word of where the data are, and to the
log in a line and not in a traceback: every API is asked, in its latest version, of a broker whose directory can not be opened.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.inside import services_of
from support.logs import batch
from support.permission_case import TOPICS, Fields, made
from support.permission_cases import CASES
from support.wire_client import WireClient, request_frame
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.testing import Broker

SHOW_PATHS = {ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_REPLICA_LOG_DIRS}
"""That is what they are for, in Kafka too."""
FOLDER = "where-the-data-are"


@contextlib.contextmanager
def refusing(folder: Path, number: int, patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Nothing below the folder can be opened, made, renamed or removed. Yields what was refused."""
    refused: list[str] = []

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **more: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(str(folder)):
                refused.append(os.fspath(path))
                raise OSError(number, os.strerror(number), os.fspath(path))
            return real(path, *arguments, **more)

        return call

    with patch.context() as inner:
        for name in (
            "open",
            "makedirs",
            "mkdir",
            "replace",
            "rename",
            "unlink",
            "listdir",
            "scandir",
            "link",
            "truncate",
        ):
            inner.setattr(os, name, guarded(getattr(os, name)))
        yield refused


def answer_of(broker: Broker, key: ApiKey, version: int, fields: Fields) -> bytes:
    """All that comes back; nothing where the connection ends instead."""
    registration = loaded(load_apis()[key])
    frame = request_frame(made(registration.request, fields), min(version, registration.max_version))
    with contextlib.suppress(EOFError, ConnectionError), WireClient((broker.host, broker.port)) as client:
        client.send(frame)
        return client.receive()
    return b""


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO], ids=["EMFILE", "EIO"])
def test_no_api_tells_where_the_data_are_when_the_disk_refuses(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    with Broker({"group.initial.rebalance.delay.ms": 0}, directory=folder) as broker:
        for name in TOPICS:
            broker.create_topic(name)
        topics = services_of(broker).topics
        ids = {name: topics.get(name).topic_id.bytes for name in TOPICS}  # type: ignore[union-attr]
        caplog.clear()
        with refusing(folder, number, monkeypatch) as refused:
            for case in CASES:
                if case.key not in SHOW_PATHS:
                    known = {**ids, **{name: ids.get(name, bytes(15) + b"\1") for name in case.names}}
                    told = answer_of(broker, case.key, case.last, case.fields(case.names, known, bytes(batch("x"))))
                    assert FOLDER.encode() not in told, case.key.label
            assert refused
    # What the broker's own tasks meet is told elsewhere (tidelog.storage): no client waits for it.
    traces = [record for record in caplog.records if record.exc_info and record.name.startswith("tidelog.broker")]
    assert not traces, [record.getMessage() for record in traces]


def test_a_topic_that_no_descriptor_is_left_for_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    with Broker(directory=folder) as broker, WireClient((broker.host, broker.port)) as client:
        with refusing(folder, errno.EMFILE, monkeypatch):
            caplog.clear()
            request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=3, replication_factor=1)])
            (result,) = client.ask(request, 7, CreateTopicsResponse).topics
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert result.error_message == "the disk under the log failed: Too many open files"
            lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
            assert len(lines) == 1, lines
            assert str(folder) in lines[0], "who runs it has to know where"
            found = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)
            assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert FOLDER not in str(found)
        assert not client.ask(request, 7, CreateTopicsResponse).topics[0].error_code, "it can be tried again"
