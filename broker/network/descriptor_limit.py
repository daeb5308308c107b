"""Limit of this process's file descriptors, and of the connections that may take them.

Each connection is one, and a second one from its first answer on (`outbound.py`). When all are used, logs can't roll and
files can't be read: an eighth is kept from connections.
"""

from __future__ import annotations

from collections.abc import Callable

from ...storage.io.platform import open_descriptors, raise_descriptor_limit

#: Descriptors are counted anew after so many connections: it takes a directory listing.
COUNT_EVERY = 64


def raise_limit() -> None:
    """Raises the soft limit to the hard one, as Java does for Kafka. Any thread."""
    raise_descriptor_limit()


def open_limit() -> int:
    """Soft limit of open files."""
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Descriptors:
    """Number of connections that the descriptors allow. Loop thread."""

    __slots__ = ("_count", "_known", "_since", "limit", "most")

    def __init__(self, limit: int, count: Callable[[], int] = open_descriptors) -> None:
        """`limit`: of the process; below 0 for none."""
        self.limit = limit
        self.most = limit - limit // 8
        """Above so many open ones no connection is taken."""
        self._count = count
        self._known = 0
        self._since = COUNT_EVERY

    def has_room(self, connections: int) -> bool:
        """True if one more connection may come, beside `connections` that are open."""
        if self.limit < 0 or 4 * connections < self.most:
            return True
        self._since += 1
        if self._since >= COUNT_EVERY or self._known + 2 * self._since >= self.most:
            self._known = self._count()
            self._since = 0
        return self._known + self._since < self.most
