from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.broker.network.advertised_address import ContainerNetwork, container_network, plain_host

# As Docker's bridge makes them, read in a container.
ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t00001FAC\t00000000\t0000\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
NONE, HOST = "0" * 32, "fd" + "0" * 28
ROUTE_V6 = f"""{HOST}0a 80 {NONE} 00 {NONE} 00000000 1 0 00000001 lo
{HOST}00 40 {NONE} 00 {NONE} 00000100 1 0 00000001 eth0
{NONE} 00 {NONE} 00 {HOST}01 00000400 1 0 00000003 eth0
"""


def container(root: Path, route: str = ROUTE, route_v6: str = ROUTE_V6) -> ContainerNetwork:
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    (root / "proc/net/route").write_text(route)
    (root / "proc/net/ipv6_route").write_text(route_v6)
    found = container_network({"container": "podman"}, root)
    assert found is not None
    return found


def test_the_gateway_and_the_networks_of_a_container(tmp_path: Path) -> None:
    found = container(tmp_path)
    assert found.gateways == {"172.17.0.1", "fd00::1"}
    assert [str(network) for network in found.networks] == ["172.17.0.0/16", "fd00::/64"]
    assert not found.is_beyond("172.17.0.9")
    assert not found.is_beyond("127.0.0.1")
    assert not found.is_beyond("fd00::77")
    assert found.is_beyond("10.0.0.4")
    assert found.is_beyond("2001:db8::1")
    assert not found.is_beyond("no address")


def test_outside_of_a_container_there_is_none(tmp_path: Path) -> None:
    assert container_network({}, tmp_path) is None
    assert container_network({"container": ""}, tmp_path) is None
    assert container_network({"container": "podman", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path) is None


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_engines_leave_a_mark(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    assert container_network({}, tmp_path) == ContainerNetwork(frozenset(), ()), "no routes can be read: none are known"


@pytest.mark.parametrize("text", ["", "x\n", "Iface\neth0 zz\n", "Iface\neth0 0 FFFFFFFFFF 3 0 0 0 0\n", "a b c\n" * 3])
def test_what_is_no_table_says_nothing(tmp_path: Path, text: str) -> None:
    assert container(tmp_path, text, text) == ContainerNetwork(frozenset(), ())


def test_addresses_of_a_socket_for_both_kinds() -> None:
    assert plain_host("::ffff:172.17.0.1") == "172.17.0.1"
    assert plain_host("172.17.0.1") == "172.17.0.1"
    assert plain_host("fe80::1%eth0") == "fe80::1"
    assert plain_host("::ffff:ac11:1") == "::ffff:ac11:1"
