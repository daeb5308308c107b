"""Which APIs and versions a client is offered, and what one is told that means another node: Kafka's answers beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.daemon import Daemon
from support.kafka_broker import kafka
from support.wire_client import WireClient
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse

Ranges = dict[int, tuple[int, int]]


def listed(bootstrap: str) -> Ranges:
    host, _, port = bootstrap.rpartition(":")
    with WireClient((host, int(port))) as client:
        answer = client.ask(
            ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 5, ApiVersionsResponse
        )
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def difference(ours: Ranges, theirs: Ranges) -> list[str]:
    def of(ranges: Ranges, key: int) -> str:
        return "{0[0]} to {0[1]}".format(ranges[key]) if key in ranges else "no"

    return [
        f"{ApiKey(key).name:34} Kafka {of(theirs, key):10} ours {of(ours, key)}"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]


def meant(bootstrap: str) -> list[ErrorCode]:
    """What a client is told that means this or that node (KIP-1242), in the order of the cases here."""
    host, _, port = bootstrap.rpartition(":")
    with WireClient((host, int(port))) as client:
        here = client.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        own, node = here.cluster_id, here.brokers[0].node_id
        cases = ((own, node), (None, -1), (None, node + 1), (own, node + 1), (own, -1), ("another", node), ("", node))
        codes = []
        for cluster, number in cases:
            for name in ("tests", "no name"):
                request = ApiVersionsRequest(
                    client_software_name=name, client_software_version="1", cluster_id=cluster, node_id=number
                )
                answer = client.ask(request, 5, ApiVersionsResponse)
                assert bool(answer.api_keys) != bool(answer.error_code)
                codes.append(ErrorCode(answer.error_code))
    return codes


def test_every_version_that_kafka_lists_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kafka(tmp_path / "kafka", is_new=True) as theirs_at:
        theirs, told_there = listed(theirs_at), meant(theirs_at)
    with Daemon(tmp_path / "ours") as ours_at:
        ours, told_here = listed(ours_at.bootstrap), meant(ours_at.bootstrap)
    assert told_here == told_there
    assert ErrorCode.REBOOTSTRAP_REQUIRED in told_there
    with capsys.disabled():
        print("", *difference(ours, theirs), sep="\n")
    assert set(ours) == set(theirs)
    for key in ours:
        assert ours[key][0] <= theirs[key][0], ApiKey(key).name
        assert ours[key][1] == theirs[key][1], ApiKey(key).name
