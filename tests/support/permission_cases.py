"""Requests that make every API ask all that it declares: for each API, one about two resources that are named alike, and for each
kind of part one of which a part may be allowed and another denied."""

from __future__ import annotations

from support.permission_case import (
    GROUPS,
    NEW_TOPICS,
    OPEN,
    TRANSACTIONS,
    Case,
    group_of,
    plain,
    share_fetch,
    state,
)  # fmt: skip
from tidelog.broker.security.acl.model import AclOperation, ResourceType
from tidelog.protocol.api_keys import ApiKey

T, G, X, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
O = AclOperation  # noqa: E741

CASES: tuple[Case, ...] = (
    Case(
        ApiKey.PRODUCE,
        lambda n, ids, batch: {
            "acks": -1, "timeout_ms": 1000,
            "topic_data": [{"name": t, "partition_data": [{"index": 0, "records": batch}]} for t in n],
        },
        ask=(O.WRITE, T), first=3, last=12,
    ),
    Case(
        ApiKey.PRODUCE,
        lambda n, ids, batch: {
            "acks": -1, "timeout_ms": 1000,
            "topic_data": [{"topic_id": ids[t], "partition_data": [{"index": 0, "records": batch}]} for t in n],
        },
        ask=(O.WRITE, T), first=13, by_id=True,
    ),
    Case(
        ApiKey.PRODUCE,
        lambda n, ids, batch: {
            "transactional_id": "txn-a", "acks": -1, "timeout_ms": 1000,
            "topic_data": [{"name": t, "partition_data": [{"index": 0, "records": batch}]} for t in n],
        },
        first=3, last=12,
    ),
    Case(
        ApiKey.FETCH,
        lambda n, ids, batch: {
            "max_bytes": 1 << 20,
            "topics": [{"topic": t, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]} for t in n],
        },
        ask=(O.READ, T), last=12,
    ),
    Case(
        ApiKey.FETCH,
        lambda n, ids, batch: {
            "max_bytes": 1 << 20,
            "topics": [
                {"topic_id": ids[t], "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]} for t in n
            ],
        },
        ask=(O.READ, T), first=13, by_id=True,
    ),
    Case(
        ApiKey.LIST_OFFSETS,
        lambda n, ids, batch: {
            "replica_id": -1,
            "topics": [
                {"name": t, "partitions": [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1}]} for t in n
            ],
        },
        ask=(O.DESCRIBE, T),
    ),
    Case(
        ApiKey.METADATA,
        lambda n, ids, batch: {"topics": [{"name": t} for t in n], "allow_auto_topic_creation": False},
        ask=(O.DESCRIBE, T), first=4,
    ),
    Case(
        ApiKey.METADATA,
        lambda n, ids, batch: {
            "topics": [{"name": None, "topic_id": ids[t]} for t in n], "allow_auto_topic_creation": False,
        },
        ask=(O.DESCRIBE, T), first=12, by_id=True,
    ),
    Case(ApiKey.METADATA, plain(topics=None), ask=(O.DESCRIBE, T), first=1, is_hidden=True),
    Case(
        ApiKey.METADATA,
        lambda n, ids, batch: {"topics": [{"name": t} for t in n], "allow_auto_topic_creation": True},
        names=NEW_TOPICS, ask=(O.CREATE, T), first=4, last=12,
    ),
    Case(
        ApiKey.METADATA,
        plain(topics=[], include_cluster_authorized_operations=True, allow_auto_topic_creation=False),
        first=8, last=10, is_hidden=True,
    ),
    Case(
        ApiKey.OFFSET_COMMIT,
        lambda n, ids, batch: {
            "group_id": "group-a", "generation_id_or_member_epoch": -1,
            "topics": [
                {"name": t, "topic_id": ids[t], "partitions": [{"partition_index": 0, "committed_offset": 1}]} for t in n
            ],
        },
        ask=(O.READ, T), first=2, last=9,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        lambda n, ids, batch: {
            "group_id": "group-a", "topics": [{"name": t, "partition_indexes": [0]} for t in n],
        },
        ask=(O.DESCRIBE, T), last=7,
    ),
    Case(ApiKey.OFFSET_FETCH, plain(group_id="group-a", topics=None), first=2, last=7, ask=(O.DESCRIBE, T), is_hidden=True),
    Case(
        ApiKey.OFFSET_FETCH,
        lambda n, ids, batch: {
            "groups": [{"group_id": g, "topics": [{"name": "alpha", "partition_indexes": [0]}]} for g in n]
        },
        names=GROUPS, ask=(O.DESCRIBE, G), first=8, last=9,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        lambda n, ids, batch: {
            "groups": [{"group_id": "group-a", "topics": [{"topic_id": ids[t], "partition_indexes": [0]} for t in n]}]
        },
        ask=(O.DESCRIBE, T), first=10, by_id=True,
    ),
    Case(ApiKey.FIND_COORDINATOR, lambda n, ids, batch: {"key": n[0], "key_type": 0}, names=GROUPS, last=3),
    Case(
        ApiKey.FIND_COORDINATOR,
        lambda n, ids, batch: {"key_type": 0, "coordinator_keys": list(n)},
        names=GROUPS, ask=(O.DESCRIBE, G), first=4,
    ),
    Case(
        ApiKey.FIND_COORDINATOR,
        lambda n, ids, batch: {"key_type": 1, "coordinator_keys": list(n)},
        names=TRANSACTIONS, ask=(O.DESCRIBE, X), first=4,
    ),
    Case(ApiKey.FIND_COORDINATOR, plain(key_type=2, coordinator_keys=["group-a:x:0"]), first=6),
    Case(
        ApiKey.JOIN_GROUP,
        plain(group_id="group-a", session_timeout_ms=300_000, protocol_type="consumer", protocols=[{"name": "range"}]),
        names=GROUPS, first=4,  # so that the first answer brings an id, and nobody waits
    ),
    Case(ApiKey.HEARTBEAT, plain(group_id="group-a", member_id="m"), names=GROUPS),
    Case(ApiKey.LEAVE_GROUP, plain(group_id="group-a", members=[{"member_id": "m"}]), names=GROUPS, first=3),
    Case(ApiKey.SYNC_GROUP, plain(group_id="group-a", member_id="m", protocol_type="c", protocol_name="r"), names=GROUPS),
    Case(ApiKey.DESCRIBE_GROUPS, lambda n, ids, batch: {"groups": list(n)}, names=GROUPS, ask=(O.DESCRIBE, G)),
    Case(ApiKey.LIST_GROUPS, plain(), names=GROUPS, ask=(O.DESCRIBE, G), is_hidden=True),
    Case(ApiKey.SASL_HANDSHAKE, plain(mechanism="PLAIN")),
    Case(ApiKey.SASL_AUTHENTICATE, plain(auth_bytes=b"x")),
    Case(ApiKey.API_VERSIONS, plain(client_software_name="test", client_software_version="1")),
    Case(
        ApiKey.CREATE_TOPICS,
        lambda n, ids, batch: {
            "topics": [{"name": t, "num_partitions": 1, "replication_factor": 1} for t in n],
            "timeout_ms": 1000, "validate_only": True,
        },
        names=("made-1", "made-2"), ask=(O.CREATE, T), first=4,
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        lambda n, ids, batch: {"topics": [{"name": t} for t in n], "timeout_ms": 1000},
        names=("gone-1", "gone-0"), ask=(O.DELETE, T), first=6,
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        lambda n, ids, batch: {"topics": [{"name": t} for t in n], "timeout_ms": 1000},
        names=("gone-1", "gone-2"), ask=(O.DESCRIBE, T), first=6,
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        lambda n, ids, batch: {"topic_names": list(n), "timeout_ms": 1000},
        names=("gone-1", "gone-0"), ask=(O.DELETE, T), last=5,
    ),
    Case(
        ApiKey.DELETE_RECORDS,
        lambda n, ids, batch: {
            "topics": [{"name": t, "partitions": [{"partition_index": 0, "offset": 0}]} for t in n], "timeout_ms": 1000,
        },
        ask=(O.DELETE, T),
    ),
    Case(ApiKey.INIT_PRODUCER_ID, plain(transactional_id="txn-a", transaction_timeout_ms=1000), names=TRANSACTIONS),
    Case(ApiKey.INIT_PRODUCER_ID, plain(transactional_id=None, transaction_timeout_ms=1000)),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        lambda n, ids, batch: {"topics": [{"topic": t, "partitions": [{"partition": 0}]} for t in n]},
        ask=(O.DESCRIBE, T),
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda n, ids, batch: {
            "v3_and_below_transactional_id": "txn-a", "v3_and_below_producer_id": 1,
            "v3_and_below_topics": [{"name": t, "partitions": [0]} for t in n],
        },
        ask=(O.WRITE, T), last=3,
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda n, ids, batch: {
            "transactions": [
                {"transactional_id": "txn-a", "producer_id": 1, "topics": [{"name": t, "partitions": [0]} for t in n]}
            ]
        },
        first=4,
    ),
    Case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        plain(transactional_id="txn-a", producer_id=1, group_id="group-a"),
        names=TRANSACTIONS,
    ),
    Case(ApiKey.END_TXN, plain(transactional_id="txn-a", producer_id=1), names=TRANSACTIONS),
    Case(
        ApiKey.WRITE_TXN_MARKERS,
        lambda n, ids, batch: {
            "markers": [
                {
                    "producer_id": 77, "transaction_result": False, "coordinator_epoch": 0,
                    "topics": [{"name": t, "partition_indexes": [9]} for t in n],
                }
            ]
        },
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        lambda n, ids, batch: {
            "transactional_id": "txn-a", "group_id": "group-a", "producer_id": 1,
            "topics": [{"name": t, "partitions": [{"partition_index": 0, "committed_offset": 1}]} for t in n],
        },
        ask=(O.READ, T), last=5,
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        lambda n, ids, batch: {
            "transactional_id": "txn-a", "group_id": "group-a", "producer_id": 1,
            "topics": [{"topic_id": ids[t], "partitions": [{"partition_index": 0, "committed_offset": 1}]} for t in n],
        },
        ask=(O.READ, T), first=6, by_id=True,
    ),
    Case(ApiKey.DESCRIBE_ACLS, plain(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1), first=1),
    Case(
        ApiKey.CREATE_ACLS,
        plain(
            creations=[
                {
                    "resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:x",
                    "host": "*", "operation": 99, "permission_type": 3,
                }
            ]
        ),
        first=1,
    ),
    Case(
        ApiKey.DELETE_ACLS,
        plain(
            filters=[
                {
                    "resource_type_filter": 2, "resource_name_filter": "nobody-has-it", "pattern_type_filter": 3,
                    "operation": 1, "permission_type": 1,
                }
            ]
        ),
        first=1,
    ),
    *(
        Case(
            ApiKey.DESCRIBE_CONFIGS,
            lambda n, ids, batch, kind=kind: {
                "resources": [
                    {"resource_type": 2, "resource_name": n[0], "configuration_keys": ["retention.ms"]},
                    {"resource_type": kind, "resource_name": n[1]},
                ],
            },
            names=("alpha", "0"), ask=(O.DESCRIBE_CONFIGS, C),
        )
        for kind in (4, 8, 16)
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        lambda n, ids, batch: {"resources": [{"resource_type": 2, "resource_name": t} for t in n]},
        ask=(O.DESCRIBE_CONFIGS, T),
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        lambda n, ids, batch: {"resources": [{"resource_type": 32, "resource_name": g} for g in n]},
        names=GROUPS, ask=(O.DESCRIBE_CONFIGS, G),
    ),
    *(
        Case(ApiKey.DESCRIBE_CONFIGS, plain(resources=[{"resource_type": kind, "resource_name": "0"}]))
        for kind in (4, 8, 16)
    ),
    *(
        Case(
            key,
            lambda n, ids, batch, kind=kind: {
                "resources": [
                    {"resource_type": 2, "resource_name": n[0], "configs": []},
                    {"resource_type": kind, "resource_name": n[1], "configs": []},
                ], "validate_only": True,
            },
            names=("alpha", "0"), ask=(O.ALTER_CONFIGS, C),
        )
        for key, kinds in ((ApiKey.ALTER_CONFIGS, (4, 16)), (ApiKey.INCREMENTAL_ALTER_CONFIGS, (4, 8, 16)))
        for kind in kinds
    ),
    Case(
        ApiKey.ALTER_CONFIGS,
        lambda n, ids, batch: {
            "resources": [{"resource_type": 2, "resource_name": t, "configs": []} for t in n], "validate_only": True,
        },
        ask=(O.ALTER_CONFIGS, T),
    ),
    Case(
        ApiKey.ALTER_CONFIGS,
        lambda n, ids, batch: {
            "resources": [{"resource_type": 32, "resource_name": g, "configs": []} for g in n], "validate_only": True,
        },
        names=GROUPS, ask=(O.ALTER_CONFIGS, G),
    ),
    Case(
        ApiKey.ALTER_CONFIGS,
        plain(resources=[{"resource_type": 4, "resource_name": "0", "configs": []}], validate_only=True),
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda n, ids, batch: {
            "resources": [
                {
                    "resource_type": 2, "resource_name": t,
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "7"}],
                }
                for t in n
            ],
        },
        ask=(O.ALTER_CONFIGS, T),
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda n, ids, batch: {
            "resources": [{"resource_type": 32, "resource_name": g, "configs": []} for g in n], "validate_only": True,
        },
        names=GROUPS, ask=(O.ALTER_CONFIGS, G),
    ),
    *(
        Case(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            plain(resources=[{"resource_type": kind, "resource_name": "0", "configs": []}], validate_only=True),
        )
        for kind in (4, 8, 16)
    ),
    Case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        lambda n, ids, batch: {"dirs": [{"path": "/nowhere", "topics": [{"name": t, "partitions": [0]} for t in n]}]},
        first=1,
    ),
    Case(
        ApiKey.DESCRIBE_LOG_DIRS,
        lambda n, ids, batch: {"topics": [{"topic": t, "partitions": [0]} for t in n]},
        first=3,
    ),
    Case(
        ApiKey.CREATE_PARTITIONS,
        lambda n, ids, batch: {
            "topics": [{"name": t, "count": 2, "assignments": None} for t in n], "timeout_ms": 1000,
            "validate_only": True,
        },
        ask=(O.ALTER, T),
    ),
    Case(ApiKey.CREATE_DELEGATION_TOKEN, plain(), first=1),
    Case(ApiKey.RENEW_DELEGATION_TOKEN, plain(), first=1),
    Case(ApiKey.EXPIRE_DELEGATION_TOKEN, plain(), first=1),
    Case(ApiKey.DESCRIBE_DELEGATION_TOKEN, plain(), first=1),
    Case(ApiKey.DELETE_GROUPS, lambda n, ids, batch: {"groups_names": list(n)}, names=("gone-1", "gone-2"), ask=(O.DELETE, G)),
    Case(
        ApiKey.ELECT_LEADERS,
        lambda n, ids, batch: {"topic_partitions": [{"topic": t, "partitions": [0]} for t in n], "timeout_ms": 1000},
    ),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda n, ids, batch: {
            "topics": [{"name": t, "partitions": [{"partition_index": 0, "replicas": None}]} for t in n]
        },
    ),
    Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, plain(topics=None)),
    Case(
        ApiKey.OFFSET_DELETE,
        lambda n, ids, batch: {
            "group_id": "group-b", "topics": [{"name": t, "partitions": [{"partition_index": 7}]} for t in n],
        },
        ask=(O.READ, T),
    ),
    Case(ApiKey.DESCRIBE_CLIENT_QUOTAS, plain(components=[])),
    Case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        plain(
            entries=[
                {
                    "entity": [{"entity_type": "user", "entity_name": name}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
                }
                for name in ("u", "v")
            ]
        ),
    ),
    Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, plain(users=None)),
    Case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        plain(
            deletions=[{"name": "bob", "mechanism": 1}],
            upsertions=[
                {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"s" * 16, "salted_password": b"p" * 32}
            ],
        ),
    ),
    Case(
        ApiKey.DESCRIBE_QUORUM,
        plain(topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]),
    ),
    Case(ApiKey.UPDATE_FEATURES, plain(feature_updates=[{"feature": "nothing", "max_version_level": 1}])),
    Case(ApiKey.DESCRIBE_CLUSTER, plain(include_cluster_authorized_operations=True), is_hidden=True),
    Case(
        ApiKey.DESCRIBE_PRODUCERS,
        lambda n, ids, batch: {"topics": [{"name": t, "partition_indexes": [0]} for t in n]},
        ask=(O.READ, T),
    ),
    Case(ApiKey.UNREGISTER_BROKER, plain(broker_id=7)),
    Case(ApiKey.UNREGISTER_CONTROLLER, plain(controller_id=7)),
    Case(ApiKey.ADD_RAFT_VOTER, plain()),
    Case(ApiKey.REMOVE_RAFT_VOTER, plain()),
    Case(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda n, ids, batch: {"transactional_ids": list(n)},
        names=TRANSACTIONS, ask=(O.DESCRIBE, X),
    ),
    Case(ApiKey.DESCRIBE_TRANSACTIONS, plain(transactional_ids=[OPEN]), ask=(O.DESCRIBE, T), is_hidden=True),
    Case(ApiKey.LIST_TRANSACTIONS, plain(), names=TRANSACTIONS, ask=(O.DESCRIBE, X), is_hidden=True),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda n, ids, batch: {
            "group_id": group_of(n, "modern"), "member_id": "m-names", "rebalance_timeout_ms": 900_000, "topic_partitions": [],
            "subscribed_topic_names": list(n),
        },
    ),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        lambda n, ids, batch: {
            "group_id": "modern-too", "member_id": "m-expression", "rebalance_timeout_ms": 900_000, "topic_partitions": [],
            "subscribed_topic_regex": "al.*|br.*",
        },
        ask=(O.DESCRIBE, T), is_hidden=True, first=1,
    ),
    Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        plain(group_ids=["modern", "nobody"]), names=("modern", "nobody"), ask=(O.DESCRIBE, G),
    ),
    Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        plain(group_ids=["modern-one", "modern"]), names=("modern-one", "modern"), ask=(O.DESCRIBE, T), denies="bravo",
    ),
    Case(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, plain()),
    Case(ApiKey.PUSH_TELEMETRY, plain(client_instance_id=b"i" * 16)),
    Case(ApiKey.LIST_CONFIG_RESOURCES, plain()),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda n, ids, batch: {"topics": [{"name": t} for t in n], "response_partition_limit": 100},
        ask=(O.DESCRIBE, T),
    ),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        plain(topics=[], response_partition_limit=2000), ask=(O.DESCRIBE, T), is_hidden=True,
    ),
    Case(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        lambda n, ids, batch: {
            "group_id": group_of(n, "application"), "member_id": "m", "rebalance_timeout_ms": 900_000, "process_id": "p",
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
            "topology": {
                "epoch": 0,
                "subtopologies": [
                    {
                        "subtopology_id": "0", "source_topics": list(n),
                        "state_changelog_topics": [{"name": "application-store-changelog", "replication_factor": 1}],
                    }
                ],
            },
        },
    ),
    Case(
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        plain(group_id="application", member_id="m", topology_epoch=0, topology_description={}),
    ),
    Case(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        plain(group_ids=["application", "nobody"]), names=("application", "nobody"), ask=(O.DESCRIBE, G),
    ),
    Case(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        plain(group_ids=["application-one", "application"]),
        names=("application-one", "application"), ask=(O.DESCRIBE, T), denies="bravo",
    ),
    Case(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        lambda n, ids, batch: {"group_id": group_of(n, "shared"), "member_id": "m", "subscribed_topic_names": list(n)},
    ),
    Case(
        ApiKey.SHARE_GROUP_DESCRIBE,
        plain(group_ids=["shared", "nobody"]), names=("shared", "nobody"), ask=(O.DESCRIBE, G),
    ),
    Case(
        ApiKey.SHARE_GROUP_DESCRIBE,
        plain(group_ids=["shared-one", "shared"]), names=("shared-one", "shared"), ask=(O.DESCRIBE, T), denies="bravo",
    ),
    Case(
        ApiKey.SHARE_FETCH, share_fetch, ask=(O.READ, T), by_id=True,
    ),
    Case(
        ApiKey.SHARE_ACKNOWLEDGE,
        lambda n, ids, batch: {
            "group_id": "shared", "member_id": "m", "share_session_epoch": 1,
            "topics": [
                {
                    "topic_id": ids[t],
                    "partitions": [
                        {
                            "partition_index": 0,
                            "acknowledgement_batches": [
                                {"first_offset": 500, "last_offset": 500, "acknowledge_types": [1]}
                            ],
                        }
                    ],
                }
                for t in n
            ],
        },
        ask=(O.READ, T), by_id=True, after=(ApiKey.SHARE_FETCH, share_fetch),
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda n, ids, batch: {
            "groups": [{"group_id": "shared", "topics": [{"topic_name": t, "partitions": [0]} for t in n]}]
        },
        ask=(O.DESCRIBE, T),
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda n, ids, batch: {"groups": [{"group_id": g, "topics": None} for g in n]},
        names=("shared", "nobody"), ask=(O.DESCRIBE, G),
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        plain(groups=[{"group_id": "shared", "topics": None}]), ask=(O.DESCRIBE, T), is_hidden=True,
    ),
    Case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        lambda n, ids, batch: {
            "group_id": "idle",
            "topics": [{"topic_name": t, "partitions": [{"partition_index": 0, "start_offset": 0}]} for t in n],
        },
        ask=(O.READ, T),
    ),
    Case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        lambda n, ids, batch: {"group_id": "idle", "topics": [{"topic_name": t} for t in n]},
        ask=(O.READ, T),
    ),
    Case(ApiKey.INITIALIZE_SHARE_GROUP_STATE, state(state_epoch=0, start_offset=0), by_id=True),
    Case(ApiKey.READ_SHARE_GROUP_STATE, state(leader_epoch=0), by_id=True),
    Case(ApiKey.WRITE_SHARE_GROUP_STATE, state(state_epoch=0, leader_epoch=0, start_offset=0), by_id=True),
    Case(ApiKey.DELETE_SHARE_GROUP_STATE, state(), by_id=True),
    Case(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, state(leader_epoch=0), by_id=True),
)  # fmt: skip
