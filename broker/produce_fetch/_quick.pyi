"""Types of the quick way of Produce and Fetch; the contract stands in `_quick.pyx`."""

from collections.abc import Callable
from typing import Any

from ..network.connection import Connection, Reply
from ..requests.services import Services
from ..requests.throttling import RequestMeter

class QuickPath:
    produces: int
    fetches: int
    def __init__(self, services: Services, metered: Callable[[Reply, RequestMeter, Connection], Reply]) -> None: ...
    def take(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Any: ...
