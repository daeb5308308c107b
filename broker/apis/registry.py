"""The table of APIs that this daemon answers, filled by the handlers themselves.

Each module of this package registers its handler with `@api(key, (min, max), RequestType)`. The dispatcher looks a
request up here, and the ApiVersions answer is made from here: what is listed is what is answered.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ...protocol.api_keys import ApiKey

#: A handler runs on the loop thread. It returns the response message, or an awaitable of it when it has to wait.
#: Raw ones take (broker, buffer, start, end, version, correlation id, connection) and return frames.
Handler = Callable[..., Any]
HandlerT = TypeVar("HandlerT", bound=Handler)


@dataclass(frozen=True, slots=True)
class Registration:
    """One API: the versions that `handler` answers, and the range that ApiVersions tells (nearly always the same)."""

    api_key: ApiKey
    min_version: int
    max_version: int
    request: Any
    handler: Handler
    listed_min_version: int
    #: True: the handler parses the frame itself and returns frames (see `dispatcher.py`).
    raw: bool


_registrations: dict[int, Registration] = {}


def api(
    api_key: ApiKey,
    versions: tuple[int, int],
    request: Any,
    *,
    listed_min_version: int | None = None,
    raw: bool = False,
) -> Callable[[HandlerT], HandlerT]:
    """Registers a handler for `versions` (first and last, both included) of `api_key`.

    `listed_min_version` is for the one API whose listed range is wider than the answered one (Produce, KAFKA-18659).
    """

    def register(handler: HandlerT) -> HandlerT:
        assert api_key not in _registrations, f"{api_key.name} is registered twice"
        low, high = versions
        listed = low if listed_min_version is None else listed_min_version
        _registrations[api_key] = Registration(api_key, low, high, request, handler, listed, raw)
        return handler

    return register


def load_apis() -> dict[int, Registration]:
    """Imports every module of this package and returns the whole table, by API key. Called once at start."""
    from .. import apis

    for module in pkgutil.iter_modules(apis.__path__):
        importlib.import_module(f"{apis.__name__}.{module.name}")
    return _registrations
