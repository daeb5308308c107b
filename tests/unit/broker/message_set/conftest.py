"""What the tests of the message-set listener share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.message_sets import ListenerWorld, listener_world


@pytest.fixture
def topic_settings() -> dict[str, Any]:
    """Settings of every topic; a module that wants others has a fixture of this name."""
    return {}


@pytest.fixture
async def listening(tmp_path: Path, topic_settings: dict[str, Any]) -> AsyncIterator[ListenerWorld]:
    """A listener on topics t (two partitions) and u, asked without sockets."""
    async with listener_world(tmp_path, **topic_settings) as made:
        yield made
