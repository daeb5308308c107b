"""What the tests of several rooms of the broker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.logs import World
from support.transactions import Node


@pytest.fixture
def machine() -> Iterator[World]:
    """A log manager on a fake file system, started, without a log."""
    made = World()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def node() -> Iterator[Node]:
    """Both coordinators on real logs, without a broker."""
    made = Node()
    yield made
    made.close()
