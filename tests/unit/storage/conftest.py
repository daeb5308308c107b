"""What the tests of `storage/` share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.logs import World
from support.policies import install_policies
from tidelog.storage import deletion_policy


@pytest.fixture
def installed_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The deletion policies of support/policies.py, as a package that is installed for one test."""
    install_policies(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    deletion_policy.installed_policy.cache_clear()
    yield
    deletion_policy.installed_policy.cache_clear()
    sys.modules.pop("tests_policies", None)


@pytest.fixture
def world() -> Iterator[World]:
    """A log manager on a fake file system, started, without a log; it stops with the test if it still runs."""
    made = World()
    made.start()
    yield made
    if made.running:
        made.stop()
