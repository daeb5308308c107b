"""ApiVersions is what anybody may ask, as often as they like, before they say who they are: it costs memory and nothing else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.wire_client import WireClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.testing import Broker

FILES = ("import", "open", "os.listdir", "os.scandir", "os.walk", "glob.glob")
"""What Python itself tells its audit hooks of files that are looked at, and of modules that are looked for."""

_watched: list[tuple[str, Any]] | None = None
BROKER = "tidelog-broker"
"""The thread of a broker's loop: others may look at files whenever they like."""


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and event in FILES and threading.current_thread().name == BROKER:
        _watched.append((event, arguments[0]))


sys.addaudithook(_hook)  # for good: Python has no way to take one back


@contextmanager
def _watching() -> Iterator[list[tuple[str, Any]]]:
    """What the loop does with files meanwhile."""
    global _watched
    _watched = seen = []
    try:
        yield seen
    finally:
        _watched = None


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_no_request_for_the_apis_looks_at_a_file_or_for_a_module(tmp_path: Path, listener: str) -> None:
    settings = {"listeners": f"{listener}://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    request = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
    with Broker(settings, directory=tmp_path) as broker, WireClient(("127.0.0.1", broker.port)) as client:
        for version in range(5):  # the first compiles what writes it
            client.ask(request, version, ApiVersionsResponse)
        with _watching() as seen:
            for version in range(5):
                for _ in range(3):
                    assert client.ask(request, version, ApiVersionsResponse).error_code == ErrorCode.NONE
        assert seen == []


def test_a_look_at_a_file_would_have_been_seen(tmp_path: Path) -> None:
    with _watching() as seen:
        thread = threading.Thread(target=lambda: list(tmp_path.iterdir()), name=BROKER)
        thread.start()
        thread.join()
    assert [event for event, _ in seen] == ["os.listdir"]
