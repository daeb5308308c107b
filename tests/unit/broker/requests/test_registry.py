from __future__ import annotations

import pkgutil
import re
import sys

import pytest
from tidelog.broker import apis
from tidelog.broker.requests.registry import ON_DEMAND, api, load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages.api_versions import ApiVersionsRequest


def test_every_module_of_the_package_registers_one_api() -> None:
    handlers = {loaded(entry).handler.__module__.rpartition(".")[2] for entry in list(load_apis().values())}
    assert handlers == {module.name for module in pkgutil.iter_modules(apis.__path__)} - {"registry"}
    assert len(load_apis()) == len(handlers)


def test_registrations_are_within_what_their_message_declares() -> None:
    for key, listed in list(load_apis().items()):
        entry = loaded(listed)
        low, high = entry.request.VERSIONS
        assert entry.request.API_KEY == entry.api_key == key
        assert low <= entry.min_version <= entry.max_version <= high
        assert (entry.min_version, entry.max_version) == (listed.min_version, listed.max_version)


def test_the_first_line_of_each_api_says_its_versions() -> None:
    wrong = []
    for listed in list(load_apis().values()):
        entry = loaded(listed)
        line = (sys.modules[entry.handler.__module__].__doc__ or "").partition("\n")[0]
        told = re.search(r"versions? (\d+)(?: (?:to|and) (\d+))?", line)
        if told is None or (int(told[1]), int(told[2] or told[1])) != (entry.min_version, entry.max_version):
            wrong.append(line)
    assert wrong == []


def test_every_api_is_answered_from_its_first_version_on() -> None:
    """What Kafka 4 dropped (KIP-896) is here: whoever speaks a version that some Kafka once answered is answered."""
    early = {"SHARE_GROUP_HEARTBEAT", "SHARE_GROUP_DESCRIBE", "SHARE_FETCH", "SHARE_ACKNOWLEDGE"}
    assert {key.name for key, entry in load_apis().items() if entry.min_version} == early, "0 was never released"


def test_a_key_is_registered_once() -> None:
    load_apis()
    with pytest.raises(AssertionError, match="API_VERSIONS is registered twice"):
        api(ApiKey.API_VERSIONS, (0, 1), ApiVersionsRequest, requires=())(lambda: None)


def test_what_is_loaded_on_demand_says_its_versions_twice_and_the_same() -> None:
    load_apis()
    key = next(iter(ON_DEMAND))
    with pytest.raises(AssertionError, match=f"{key.name} (has other versions|is registered twice)"):
        api(key, (0, 99), ApiVersionsRequest, requires=())(lambda: None)
