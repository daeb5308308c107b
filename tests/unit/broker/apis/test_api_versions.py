from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.apis.api_versions import api_versions
from tidelog.broker.metadata.features import METADATA_VERSION, SUPPORTED, Features
from tidelog.broker.requests.registry import listed_versions, load_apis
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.schema import decode, encode

CLUSTER, NODE = "MkU3OEVBNTcwNTJENDM2Qg", 4


def ask(
    version: int, name: str = "librdkafka", software: str = "2.16.0-rc1", *, telemetry: bool = True, **meant: Any
) -> ApiVersionsResponse:
    context: Any = SimpleNamespace(
        api_version=version,
        services=SimpleNamespace(
            features=Features(),
            listed_apis=listed_versions(load_apis(), telemetry=telemetry),
            logs=SimpleNamespace(cluster_id=CLUSTER, node_id=NODE),
        ),
        connection=SimpleNamespace(),
        client_id="me",
    )
    sent = ApiVersionsRequest(client_software_name=name, client_software_version=software, **meant)
    request, _ = decode(ApiVersionsRequest, version, encode(sent, version))
    answer = decode(ApiVersionsResponse, version, encode(api_versions(request, context), version))[0]
    assert hasattr(context.connection, "software") == (version >= 3 and not answer.error_code)
    return answer


@pytest.mark.parametrize("version", range(6))
def test_what_is_listed_is_what_is_registered(version: int) -> None:
    listed = {api.api_key: (api.min_version, api.max_version) for api in ask(version).api_keys}
    registered = {key: (entry.min_version, entry.max_version) for key, entry in load_apis().items()}
    assert list(listed) == sorted(listed)
    assert listed.pop(ApiKey.PRODUCE) == (0, registered.pop(ApiKey.PRODUCE)[1]), "KAFKA-18659"
    assert listed == registered
    rows = listed_versions(load_apis(), telemetry=True)
    assert listed == {row.api_key: (row.min_version, row.max_version) for row in rows if row.api_key}


@pytest.mark.parametrize(
    ("cluster", "node", "is_well"),
    [
        (CLUSTER, NODE, True),
        (None, -1, True),
        (CLUSTER, NODE + 1, False),
        (CLUSTER, -2, False),
        ("another", NODE, False),
        ("", NODE, False),
        (CLUSTER.lower(), NODE, False),
        ("x" * 30_000, 0x7FFFFFFF, False),
    ],
)
def test_a_client_that_means_another_node_has_to_begin_anew(
    cluster: str | None, node: int, is_well: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-1242: the address leads here by mistake. An error and nothing else; one short line says so."""
    caplog.set_level(logging.INFO, "tidelog")
    answer = ask(5, cluster_id=cluster, node_id=node)
    assert answer == ask(5) if is_well else answer == ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (not is_well)
    assert all(f"meant node {node} of cluster" in line and f"node {NODE} of {CLUSTER}" in line for line in lines)
    assert all(len(line) < 500 for line in lines)


@pytest.mark.parametrize(
    ("name", "cluster", "node"),
    [("a b", "another", 1), ("a", None, NODE), ("a", None, 0), ("a", CLUSTER, -1), ("a", "another", -1)],
)
def test_half_a_node_is_no_request_and_neither_is_a_name_with_a_space(
    name: str, cluster: str | None, node: int
) -> None:
    answer = ask(5, name, cluster_id=cluster, node_id=node)
    assert answer == ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)


def test_clients_are_asked_for_their_metrics_only_where_that_is_set() -> None:
    offered, quiet = ([row.api_key for row in ask(4, telemetry=on).api_keys] for on in (True, False))
    assert set(offered) - set(quiet) == {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert set(quiet) <= set(offered)


def test_features_by_version() -> None:
    assert not ask(2).supported_features
    # A supported range that begins at 0 is for version 4 only (KIP-1022).
    assert {feature.name for feature in ask(3).supported_features} == {METADATA_VERSION}
    assert {feature.name for feature in ask(4).supported_features} == set(SUPPORTED)
    assert [(f.name, f.max_version_level) for f in ask(4).finalized_features] == Features().finalized()


@pytest.mark.parametrize(
    ("name", "software"), [("", "1"), ("a", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", "1\n")]
)
def test_software_names_that_would_spoil_a_metric(name: str, software: str) -> None:
    assert ask(3, name, software).error_code == ErrorCode.INVALID_REQUEST
    assert ask(3, name, software).api_keys == []


def test_of_a_long_name_of_software_a_part_is_kept() -> None:
    """Ten thousand connections would hold 640 MB, which no limit counts, before any of them has authenticated."""
    services, connection = SimpleNamespace(listed_apis=[], features=Features()), SimpleNamespace()
    context: Any = SimpleNamespace(api_version=3, services=services, connection=connection)
    sent = ApiVersionsRequest(client_software_name="n" * 32_767, client_software_version="1" * 32_767)
    assert api_versions(sent, context).error_code == ErrorCode.NONE
    assert connection.software == ("n" * 256, "1" * 256)
