"""Every setting that an error or `why` names is found, and the address told for it is an anchor of docs/SETTINGS.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.documentation import anchors
from tidelog.config.definitions import BROKER_SETTINGS, TOPIC_SETTINGS, find_broker_setting
from tidelog.config.exceptions import ConfigError
from tidelog.config.listener_settings import PER_LISTENER
from tidelog.config.loader import load_config
from tidelog.config.page import (
    MOST_NAMED,
    PAGE,
    address_of,
    find_setting,
    pointer,
    settings_named_in,
    with_address,
    without_address,
)

ROOT = Path(__file__).resolve().parents[3]
ANCHORS = anchors(ROOT / PAGE)
EVERY = sorted({*BROKER_SETTINGS, *TOPIC_SETTINGS})


def is_there(address: str) -> bool:
    page, _, anchor = address.partition("#")
    return page == PAGE and anchor in ANCHORS


@pytest.mark.parametrize("name", EVERY)
def test_the_address_of_each_setting_is_an_anchor(name: str) -> None:
    for row in (BROKER_SETTINGS.get(name), TOPIC_SETTINGS.get(name)):
        assert row is None or is_there(address_of(row))


@pytest.mark.parametrize("name", EVERY)
def test_each_setting_is_found_in_the_sentences_of_errors(name: str) -> None:
    row = find_setting(name)
    assert row is not None
    for sentence in (f"{name}='x' is not a number (--set)", f"listener a can't be bound; or set {name} to an address"):
        if name == "port" and "=" not in sentence:
            continue  # a word of many sentences
        assert settings_named_in(sentence) == [row], sentence
        assert pointer(sentence) == f"see {address_of(row)}, or `tidelog settings {name}`"


@pytest.mark.parametrize("setting", sorted(PER_LISTENER))
def test_a_listeners_own_setting_is_explained_with_the_brokers(setting: str) -> None:
    row = find_broker_setting(f"listener.name.outside.{setting}")
    assert row is not None
    assert address_of(row) == f"{PAGE}#{setting}"
    assert is_there(address_of(row))


@pytest.mark.parametrize(
    "name", ["zookeeper.connect", "listener.name.a.ssl.engine.factory.class", "ssl.engine.factory.class"]
)
def test_names_that_have_no_entry_lead_to_what_is_said_of_them(name: str) -> None:
    row = find_broker_setting(name)
    assert row is not None
    assert is_there(address_of(row))


@pytest.mark.parametrize(
    "text",
    [
        "/data/log.dirs: Permission denied",
        "there are no listeners here",
        "no daemon answers at http://127.0.0.1:1 (the port is closed)",
        "server.properties: can't be read",
        "--log.dirs is no option",
        "",
    ],
)
def test_what_is_no_setting_is_not_taken_for_one(text: str) -> None:
    assert pointer(text) is None


def test_each_is_named_once_in_order_and_not_more_than_a_line_takes() -> None:
    names = EVERY[:MOST_NAMED] if "." in EVERY[0] else EVERY[1 : MOST_NAMED + 1]
    said = pointer("; ".join(f"{name}={name}" for name in [*names, *reversed(EVERY)]))
    assert said is not None
    assert said.endswith(f"`tidelog settings {' '.join(names)}`")


def test_what_a_refused_start_names_is_explained() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(assignments=["log.segment.bytes=1G", "log.retention.horus=3", "listener.name.a.ssl.client.auth=no"])
    said = pointer(str(caught.value))
    assert said is not None
    for name in ("log.segment.bytes", "log.retention.hours", "ssl.client.auth"):
        assert f"{PAGE}#{name}" in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "retention.ms='x' is not a whole number",
            "retention.ms='x' is not a whole number; see docs/SETTINGS.md#retention.ms",
        ),
        (
            "set segment.ms or flush.ms.",
            "set segment.ms or flush.ms; see docs/SETTINGS.md#segment.ms, docs/SETTINGS.md#flush.ms",
        ),
        ("there is no logger x", "there is no logger x"),
    ],
)
def test_other_programs_are_told_the_address_behind_the_error(text: str, told: str) -> None:
    """`tidelog` takes it off again, and has a line of its own for it."""
    assert with_address(text) == told
    assert without_address(told) == text.removesuffix(".")
    assert pointer(without_address(told)) == pointer(text)
