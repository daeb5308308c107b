"""The first answer that any client gets; bytes laid out after the protocol guide, KIP-511 and KIP-584."""

from __future__ import annotations

from support.messages import check_round_trip
from tidelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

RESPONSE = ApiVersionsResponse(
    error_code=35,
    api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
    supported_features=[SupportedFeatureKey(name="f", min_version=0, max_version=3)],
    finalized_features_epoch=9,
    finalized_features=[FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)],
)


def test_requests() -> None:
    request = ApiVersionsRequest(client_software_name="ab", client_software_version="1")
    assert check_round_trip(request, 3) == bytes.fromhex("03 6162 02 31 00")
    assert check_round_trip(ApiVersionsRequest(), 0) == b""
    meaning = ApiVersionsRequest(client_software_name="ab", client_software_version="1", cluster_id="Cc", node_id=7)
    assert check_round_trip(meaning, 5) == bytes.fromhex("03 6162 02 31 03 4363 00000007 00")
    meaning.cluster_id, meaning.node_id = None, -1
    assert check_round_trip(meaning, 5) == bytes.fromhex("03 6162 02 31 00 ffffffff 00")


def test_responses() -> None:
    # Features stay out of versions that can't carry them: version 0 also answers requests that nobody understands.
    for version, data in ((0, "0023 00000001 0012 0000 0004"), (2, "0023 00000001 0012 0000 0004 00000000")):
        response = ApiVersionsResponse(error_code=35, api_keys=RESPONSE.api_keys)
        assert check_round_trip(response, version) == bytes.fromhex(data)
    assert check_round_trip(RESPONSE, 4) == bytes.fromhex(
        "0023 02 0012 0000 0004 00 00000000 03"
        "00 08 02 02 66 0000 0003 00"
        "01 08 0000000000000009"
        "02 08 02 02 66 0002 0001 00"
    )
