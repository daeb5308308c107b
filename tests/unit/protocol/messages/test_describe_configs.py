"""Version 0, which no other codec at hand knows; bytes laid out after the protocol guide."""

from __future__ import annotations

from support.messages import check_round_trip
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def test_version_0_tells_whether_a_value_is_the_default() -> None:
    config = DescribeConfigsResourceResult(name="c", value="v", read_only=True, is_default=True, is_sensitive=False)
    result = DescribeConfigsResult(resource_type=2, resource_name="t", configs=[config])
    assert check_round_trip(DescribeConfigsResponse(results=[result]), 0) == bytes.fromhex(
        "00000000 00000001 0000 ffff 02 0001 74 00000001 0001 63 0001 76 01 01 00"
    )
