from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from tidelog.broker.requests.error_responses import errors_of
from tidelog.protocol import messages
from tidelog.protocol.messages.heartbeat import HeartbeatResponse
from tidelog.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tidelog.protocol.schema import ApiMessage, Struct


def test_codes_at_every_depth_in_order() -> None:
    partitions = [MetadataResponsePartition(error_code=5, partition_index=0), MetadataResponsePartition()]
    topics = [MetadataResponseTopic(error_code=3), MetadataResponseTopic(partitions=partitions)]
    assert list(errors_of(MetadataResponse(topics=topics))) == [3, 5]
    assert list(errors_of(MetadataResponse(topics=[]))) == []
    assert list(errors_of(HeartbeatResponse(error_code=27))) == [27]
    assert list(errors_of(HeartbeatResponse())) == []
    assert list(errors_of(b"raw")) == []


def test_a_code_anywhere_in_any_response_is_found() -> None:
    """Each `error_code` of each declared response is set alone, by another way of walking, and must come out."""
    seen = 0
    for module in pkgutil.iter_modules(messages.__path__):
        found = importlib.import_module(f"{messages.__name__}.{module.name}")
        for name, cls in vars(found).items():
            if not (isinstance(cls, type) and issubclass(cls, ApiMessage) and name.endswith("Response")):
                continue
            for path in _code_paths(cls):
                seen += 1
                assert list(errors_of(_with_code(cls, path))) == [9], (name, path)
    assert seen > 60


def _code_paths(cls: type[Struct]) -> Iterator[tuple[Any, ...]]:
    for field in cls.FIELDS:
        if field.name == "error_code":
            yield (field,)
        elif isinstance(field.element, type) and issubclass(field.element, Struct):
            for rest in _code_paths(field.element):
                yield (field, *rest)


def _with_code(cls: type[Struct], path: tuple[Any, ...]) -> Struct:
    field, *rest = path
    if not rest:
        return cls(error_code=9)
    inner = _with_code(field.element, tuple(rest))
    return cls(**{field.name: [inner] if field.is_array else inner})
