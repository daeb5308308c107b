"""Any value in range goes through file, environment and --set unharmed; any other is refused with the range."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.definitions import HONOURED_BROKER, HONOURED_TOPIC
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config, parse_properties
from tidelog.config.log_config import log_config
from tidelog.config.setting import Setting, SettingType, Value, text_of
from tidelog.config.table.broker import COPIES

# These mean more than their text, and have tests of their own.
PARSED = {
    "max.connections.per.ip.overrides", "cordoned.log.dirs", "message.set.listeners",
    "listeners", "advertised.listeners", "http.listener", "listener.security.protocol.map", "controller.listener.names",
    "group.coordinator.rebalance.protocols", "node.id", "broker.id", "log.dirs",
    "group.min.session.timeout.ms", "group.max.session.timeout.ms", "http.authentication", "http.tokens.file",
    "http.users.admin", "http.users.read", "queued.max.request.bytes", "super.users", *COPIES,
    "backup.access.key.id", "backup.secret.access.key", "backup.secrets",
}  # fmt: skip
#: Each is held to its own limits, which are settings too.
HELD = ("group.consumer.", "group.share.", "group.streams.", "share.coordinator.")
PLAIN = [row for row in HONOURED_BROKER if row.name not in PARSED and not row.name.startswith(HELD)]
WORD = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=","), min_size=1, max_size=8)


def values(row: Setting) -> st.SearchStrategy[Value]:
    """What the row allows, edges often."""
    allowed = row.allowed
    if row.type is SettingType.BOOLEAN:
        return st.booleans()
    if row.type.is_integer:
        low, high = bounds(row)
        return st.sampled_from([low, high, *allowed.also]) | st.integers(low, high)
    if row.type is SettingType.DOUBLE:
        return st.floats(allowed.low, allowed.high, allow_nan=False, allow_infinity=False)
    if allowed.choices:
        word = st.sampled_from(allowed.choices)
    elif allowed.pattern:
        word = st.from_regex(re.compile(allowed.pattern.removeprefix("^").removesuffix("$"), re.ASCII), fullmatch=True)
    else:
        word = WORD
    if row.type is SettingType.LIST:
        return st.lists(word, min_size=1, max_size=3, unique=True).map(tuple)
    return word


def bounds(row: Setting) -> tuple[int, int]:
    lowest, highest = row.type.bounds
    return int(lowest if row.allowed.low is None else row.allowed.low), int(
        highest if row.allowed.high is None else row.allowed.high
    )


def wrong_texts(row: Setting) -> st.SearchStrategy[str]:
    """What the row does not allow."""
    if row.type.is_integer:
        low, high = bounds(row)
        outside = st.integers(max_value=low - 1) | st.integers(min_value=high + 1)
        return outside.filter(lambda n: n not in row.allowed.also).map(str) | st.sampled_from(["", "x", "1.5", "1e3"])
    if row.type is SettingType.BOOLEAN:
        return st.sampled_from(["", "yes", "1", "tru"])
    if row.type is SettingType.DOUBLE:
        texts = st.sampled_from(["", "half", "nan", "inf"])
        if row.allowed.low is not None:
            texts |= st.floats(max_value=row.allowed.low, exclude_max=True).map(str)
        if row.allowed.high is not None:
            texts |= st.floats(min_value=row.allowed.high, exclude_min=True).map(str)
        return texts
    choices, pattern = row.allowed.choices, row.allowed.pattern
    assert choices or pattern
    return WORD.filter(lambda word: not re.search(pattern, word) if pattern else word not in choices)


@given(st.data())
def test_a_value_in_range_comes_through_every_source(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(PLAIN))
    value = data.draw(values(row))
    text = text_of(value)
    assert text is not None
    as_escapes = "".join(f"\\u{unit:04x}" for unit in _utf16(text))
    escaped = as_escapes if data.draw(st.booleans()) else text.replace("\\", "\\\\")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "server.properties"
        file.write_text(f"{row.name} = {escaped}\n", encoding="utf-8")
        from_file = load_config(file)
    loaded = [from_file, load_config(None, {row.environment: text}), load_config(None, {}, [f"{row.name}={text}"])]
    assert [getattr(config, row.attribute) for config in loaded] == [value] * 3
    assert [config.given for config in loaded] == [{row.name: text}] * 3


@given(st.data())
def test_a_value_out_of_range_is_refused_with_the_range(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([row for row in PLAIN if row.allowed_text()]))
    text = data.draw(wrong_texts(row))
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, [f"{row.name}={text}"])
    (problem,) = caught.value.problems
    assert problem.startswith(f"{row.name}={text!r}")
    assert f"allowed: {row.allowed_text()}" in problem


@given(st.data())
def test_a_topics_value_in_range_is_taken_and_others_are_refused_with_the_range(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([row for row in HONOURED_TOPIC if not row.internal]))
    value = data.draw(values(row))
    config = log_config(BrokerConfig(), {row.name: text_of(value) or ""})
    found = getattr(config, row.attribute)
    assert found == (type(found)(value) if isinstance(value, tuple) else value)
    if not row.allowed_text():
        return
    text = data.draw(wrong_texts(row))
    with pytest.raises(ConfigError, match="allowed: ") as caught:
        log_config(BrokerConfig(), {row.name: text})
    assert row.allowed_text() in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_is_a_properties_file_or_a_clear_error(content: str) -> None:
    try:
        pairs = list(parse_properties(content))
    except ValueError as error:
        assert "four hexadecimal digits" in str(error)
    else:
        assert all(isinstance(name, str) and isinstance(text, str) for name, text in pairs)


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
