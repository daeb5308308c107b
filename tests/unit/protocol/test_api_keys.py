"""That keys and names are Kafka's, `test_kafka_messages.py` holds."""

from __future__ import annotations

from tidelog.protocol.api_keys import ApiKey


def test_keys_are_numbers() -> None:
    assert ApiKey(18) is ApiKey.API_VERSIONS
    assert ApiKey.API_VERSIONS == 18
    assert ApiKey.API_VERSIONS.flexible_from == 3
    assert ApiKey.SASL_HANDSHAKE.flexible_from is None
