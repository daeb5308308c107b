"""Levels by Kafka's names; all of a change or nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tidelog.broker.runtime import logging as logger_levels
from tidelog.protocol.errors import ProtocolError

NAME = "tidelog.test_logger_levels"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "number", "told"),
    [("TRACE", 10, "DEBUG"), ("debug", 10, "DEBUG"), ("WARN", 30, "WARN"), ("FATAL", 50, "FATAL")],
)
def test_levels_are_set_and_told(logger: logging.Logger, name: str, number: int, told: str) -> None:
    logger_levels.change([(NAME, name)])
    assert logger.level == number
    assert dict(logger_levels.levels())[NAME] == told
    logger_levels.change([(NAME, None)])
    assert logger.level == logging.NOTSET


def test_all_or_nothing(logger: logging.Logger) -> None:
    with pytest.raises(ProtocolError):
        logger_levels.change([(NAME, "ERROR"), ("tidelog.no_such_logger", "ERROR")])
    assert logger.level == logging.NOTSET
