"""Stand-ins for a node and its services, for tests of what reads from one."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, TypeVar

from tidelog.broker.requests.services import Services
from tidelog.broker.runtime.lazy import Lazy

T = TypeVar("T")


class FakeNode(SimpleNamespace):
    """A `NodeState` and its `Services` in one: whatever is asked of either is a part, which tests may exchange."""

    groups: Any = SimpleNamespace(unloaded={})
    transactions: Any = Lazy(lambda: None)
    share: Any = Lazy(lambda: None)
    scrubber: Any = SimpleNamespace(statuses=tuple)
    backup: Any = None

    @property
    def services(self) -> Any:
        return self

    @property
    def partitions_remaining(self) -> int:
        return self.logs.partitions_remaining  # type: ignore[no-any-return]


def fake_node(**parts: Any) -> Any:
    """A `FakeNode`, as any type."""
    return FakeNode(**parts)


def services_with(**parts: Any) -> Services:
    """Services that have these parts, and no others."""
    names = [field.name for field in dataclasses.fields(Services)]
    return Services(**{**dict.fromkeys(names), **parts})


def made(part: T) -> Lazy[T]:
    """A part that is there already."""
    lazy = Lazy(lambda: part)
    lazy.get()
    return lazy
