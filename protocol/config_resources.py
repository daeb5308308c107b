"""Which kinds of resources have settings, and what a client may do to one of them, in the numbers of Kafka's protocol.

DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources say them on the wire, and `ConfigRecord` in
`__cluster_metadata`.
"""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The kind of resource that settings belong to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """Operations of IncrementalAlterConfigs on a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
