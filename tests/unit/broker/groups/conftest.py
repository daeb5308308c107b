"""What the tests of groups share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.groups import Groups
from support.heartbeat_groups import Consumers, Image


@pytest.fixture
def harness() -> Iterator[Groups]:
    """A group coordinator on a log in memory and a clock that stands still."""
    made = Groups()
    yield made
    made.close()


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    """A consumer group's coordinator where topic t has four partitions and u two."""
    made = Consumers(Image(t=4, u=2))
    yield made
    made.close()
