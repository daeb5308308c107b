from __future__ import annotations

import pytest
from tidelog.config.listener_settings import PER_LISTENER, ListenerSetting, listener_row, split_name, whole_name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("listener.name.a.ssl.key.password", ("a", "", "ssl.key.password")),
        ("listener.name.a.b.ssl.key.password", ("a.b", "", "ssl.key.password")),
        ("listener.name.a.plain.sasl.jaas.config", ("a", "plain", "sasl.jaas.config")),
        ("listener.name.a.scram-sha-512.sasl.jaas.config", ("a", "scram-sha-512", "sasl.jaas.config")),
        # A mechanism has no certificates of its own: that is a listener called a.plain.
        ("listener.name.a.plain.ssl.key.password", ("a.plain", "", "ssl.key.password")),
        ("listener.name.plain.sasl.jaas.config", ("plain", "", "sasl.jaas.config")),
        ("listener.name.a.log.dirs", None),
        ("listener.name..ssl.key.password", None),
        ("ssl.key.password", None),
    ],
)
def test_a_name_comes_apart(name: str, parts: tuple[str, str, str] | None) -> None:
    found = split_name(name)
    assert found == (None if parts is None else ListenerSetting(*parts))
    if found is not None:
        assert whole_name(found.listener, found.setting, found.mechanism) == name


def test_the_row_has_the_whole_name_and_all_else_from_the_brokers() -> None:
    row = listener_row("listener.name.a.ssl.client.auth")
    assert row is not None
    assert row.name == "listener.name.a.ssl.client.auth"
    assert (row.type, row.allowed) == (PER_LISTENER["ssl.client.auth"].type, PER_LISTENER["ssl.client.auth"].allowed)
    assert listener_row("listener.name.a.num.partitions") is None
