from __future__ import annotations

from kio.schema.index import api_key_map
from tidelog.protocol.api_keys import ApiKey

# KIP-896 and the end of ZooKeeper took these out of Kafka 4; their headers must still be readable.
REMOVED = {4: "leader_and_isr", 5: "stop_replica", 6: "update_metadata", 7: "controlled_shutdown"}


def test_every_key_that_kafka_has_and_no_other() -> None:
    assert {key.value: key.name.lower() for key in ApiKey} == {**api_key_map, **REMOVED}


def test_keys_are_numbers() -> None:
    assert ApiKey(18) is ApiKey.API_VERSIONS
    assert ApiKey.API_VERSIONS == 18
    assert ApiKey.API_VERSIONS.flexible_from == 3
    assert ApiKey.SASL_HANDSHAKE.flexible_from is None
