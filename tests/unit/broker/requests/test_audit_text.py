from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from support.permission_case import made
from tidelog.broker.requests.audit_log import RIGHTS
from tidelog.broker.requests.audit_text import ENTRIES, audit_entries
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_topics,
    delete_groups,
    delete_topics,
    incremental_alter_configs,
)
from tidelog.protocol.schema import Struct


def told(key: ApiKey, request: Any, response: Any) -> list[str]:
    return list(audit_entries(request, response, SimpleNamespace(api_key=key)))  # type: ignore[arg-type]


def test_what_is_audited_has_words() -> None:
    assert {key for key in load_apis() if loaded(load_apis()[key]).audited} == set(ENTRIES)


def test_topics() -> None:
    request = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(name="a", num_partitions=3),
            create_topics.CreatableTopic(
                name="b",
                num_partitions=-1,
                configs=[create_topics.CreatableTopicConfig(name="cleanup.policy", value="compact")],
            ),
            create_topics.CreatableTopic(name="c", num_partitions=1),
        ]
    )
    rows = [
        create_topics.CreatableTopicResult(name="a"),
        create_topics.CreatableTopicResult(name="b"),
        create_topics.CreatableTopicResult(name="c", error_code=29),
    ]
    response = create_topics.CreateTopicsResponse(topics=rows)
    assert told(ApiKey.CREATE_TOPICS, request, response) == [
        "created topic 'a' with 3 partitions",
        "created topic 'b' with the usual number of partitions and cleanup.policy=compact",
    ]
    request.validate_only = True
    assert told(ApiKey.CREATE_TOPICS, request, response) == []
    gone = delete_topics.DeleteTopicsResponse(responses=[delete_topics.DeletableTopicResult(name="a\n")])
    assert told(ApiKey.DELETE_TOPICS, delete_topics.DeleteTopicsRequest(), gone) == ["deleted topic 'a\\n'"]


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        (2, "retention.ms", "set retention.ms=7"),
        (4, "log.retention.ms", "set log.retention.ms=7"),
        (4, "ssl.key.password", "set ssl.key.password=(hidden)"),
        (4, "ssl.keystore.password", "set ssl.keystore.password=(hidden)"),
        (4, "listener.name.outside.ssl.key.password", "set listener.name.outside.ssl.key.password=(hidden)"),
    ],
)
def test_settings_without_secrets(kind: int, name: str, shown: str) -> None:
    change = incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value="7")
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name="1", configs=[change])
    row = incremental_alter_configs.AlterConfigsResourceResponse(resource_type=kind, resource_name="1")
    (line,) = told(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]),
        incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[row]),
    )
    assert line.endswith(f" '1': {shown}")


def test_users_without_what_they_know() -> None:
    secret = b"\xaa" * 32
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=secret, salted_password=secret
    )
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="bob", mechanism=2)],
        upsertions=[upsertion],
    )
    rows = [alter_user_scram_credentials.AlterUserScramCredentialsResult(user=name) for name in ("alice", "bob")]
    response = alter_user_scram_credentials.AlterUserScramCredentialsResponse(results=rows)
    assert told(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, response) == [
        "set the SCRAM-SHA-256 credential of user 'alice'",
        "deleted the SCRAM-SHA-512 credential of user 'bob'",
    ]


def test_quotas_groups_and_rules() -> None:
    entity = [alter_client_quotas.EntityData(entity_type="user", entity_name="alice")]
    entry = alter_client_quotas.EntryData(
        entity=entity, ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1024.0, remove=False)]
    )
    assert told(
        ApiKey.ALTER_CLIENT_QUOTAS,
        alter_client_quotas.AlterClientQuotasRequest(entries=[entry]),
        alter_client_quotas.AlterClientQuotasResponse(entries=[alter_client_quotas.EntryResult(entity=entity)]),
    ) == ["changed quotas of user 'alice': set producer_byte_rate=1024"]
    rows = [
        delete_groups.DeletableGroupResult(group_id="g"),
        delete_groups.DeletableGroupResult(group_id="h", error_code=68),
    ]
    response = delete_groups.DeleteGroupsResponse(results=rows)
    assert told(ApiKey.DELETE_GROUPS, delete_groups.DeleteGroupsRequest(), response) == ["deleted group 'g'"]
    rule = create_acls.AclCreation(
        resource_type=2, resource_name="orders", resource_pattern_type=4, principal="User:alice", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    assert told(
        ApiKey.CREATE_ACLS,
        create_acls.CreateAclsRequest(creations=[rule]),
        create_acls.CreateAclsResponse(results=[create_acls.AclCreationResult()]),
    ) == ["created a rule: allow User:alice from * to READ topic 'orders' (prefixed)"]


class Example(NamedTuple):
    """A request that asks for something twice, an answer that says that the second was refused, and what is written."""

    request: dict[str, Any]
    response: dict[str, Any]
    lines: tuple[str, ...]


DENIED = 29
_TOPICS = [{"name": "a", "num_partitions": 3}, {"name": "b", "num_partitions": 3}]
_CONFIGS = [
    {"resource_type": 2, "resource_name": name, "configs": [{"name": "segment.ms", "value": "9"}]} for name in "ab"
]
_CHANGED = {
    "responses": [
        {"resource_type": 2, "resource_name": "a"},
        {"resource_type": 2, "resource_name": "b", "error_code": DENIED},
    ]
}
_RULE = {
    "resource_type": 2, "resource_name": "a", "resource_pattern_type": 4, "principal": "User:eve", "host": "*",
    "operation": 3, "permission_type": 2,
}  # fmt: skip
_PARTS = [{"partition_index": 0}, {"partition_index": 1, "error_code": DENIED}]

EXAMPLES: dict[ApiKey, Example] = {
    ApiKey.CREATE_TOPICS: Example(
        {"topics": _TOPICS},
        {"topics": [{"name": "a"}, {"name": "b", "error_code": DENIED}]},
        ("created topic 'a' with 3 partitions",),
    ),
    ApiKey.DELETE_TOPICS: Example(
        {"topic_names": ["a", "b"]},
        {"responses": [{"name": "a"}, {"name": "b", "error_code": DENIED}]},
        ("deleted topic 'a'",),
    ),
    ApiKey.CREATE_PARTITIONS: Example(
        {"topics": [{"name": "a", "count": 7}, {"name": "b", "count": 7}]},
        {"results": [{"name": "a"}, {"name": "b", "error_code": DENIED}]},
        ("gave topic 'a' 7 partitions",),
    ),
    ApiKey.DELETE_RECORDS: Example(
        {
            "topics": [
                {"name": "a", "partitions": [{"partition_index": 0, "offset": 5}, {"partition_index": 1, "offset": 5}]}
            ]
        },
        {
            "topics": [
                {
                    "name": "a",
                    "partitions": [
                        {"partition_index": 0, "low_watermark": 5},
                        {"partition_index": 1, "low_watermark": -1, "error_code": DENIED},
                    ],
                }
            ]
        },
        ("deleted records below 5 of partition 0 of topic 'a'",),
    ),
    ApiKey.ALTER_CONFIGS: Example({"resources": _CONFIGS}, _CHANGED, ("changed topic 'a': set segment.ms=9",)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Example(
        {"resources": _CONFIGS}, _CHANGED, ("changed topic 'a': set segment.ms=9",)
    ),
    ApiKey.CREATE_ACLS: Example(
        {"creations": [_RULE, {**_RULE, "resource_name": "b"}]},
        {"results": [{}, {"error_code": DENIED}]},
        ("created a rule: deny User:eve from * to READ topic 'a' (prefixed)",),
    ),
    ApiKey.DELETE_ACLS: Example(
        {"filters": [{}]},
        {
            "filter_results": [
                {
                    "matching_acls": [
                        {
                            **{name.replace("resource_pattern", "pattern"): value for name, value in _RULE.items()},
                            **more,
                        }
                        for more in ({}, {"resource_name": "b", "error_code": DENIED})
                    ]
                }
            ]
        },
        ("deleted a rule: deny User:eve from * to READ topic 'a' (prefixed)",),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Example(
        {"deletions": [{"name": name, "mechanism": 1} for name in "ab"], "upsertions": [{"name": "a", "mechanism": 2}]},
        {"results": [{"user": "a"}, {"user": "b", "error_code": DENIED}]},
        ("deleted the SCRAM-SHA-256 credential of user 'a'", "set the SCRAM-SHA-512 credential of user 'a'"),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Example(
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": name}],
                    "ops": [{"key": "producer_byte_rate", "value": 8.5}],
                }
                for name in ("a", None)
            ]
        },
        {"entries": [{}, {"error_code": DENIED}]},
        ("changed quotas of user 'a': set producer_byte_rate=8.5",),
    ),
    ApiKey.DELETE_GROUPS: Example(
        {"groups_names": ["a", "b"]},
        {"results": [{"group_id": "a"}, {"group_id": "b", "error_code": DENIED}]},
        ("deleted group 'a'",),
    ),
    ApiKey.OFFSET_DELETE: Example(
        {"group_id": "g"},
        {"topics": [{"name": "a", "partitions": _PARTS}, {"name": "b", "partitions": _PARTS[1:]}]},
        ("deleted offsets of group 'g' in partitions 0 of topic 'a'",),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Example(
        {"group_id": "g"},
        {"responses": [{"topic_name": "a", "partitions": _PARTS}, {"topic_name": "b", "partitions": _PARTS[1:]}]},
        ("moved share group 'g' in partitions 0 of topic 'a'",),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Example(
        {"group_id": "g"},
        {"responses": [{"topic_name": "a"}, {"topic_name": "b", "error_code": DENIED}]},
        ("deleted offsets of share group 'g' in topic 'a'",),
    ),
    ApiKey.UPDATE_FEATURES: Example(
        {"feature_updates": [{"feature": "share.version", "max_version_level": 1}]},
        {},
        ("set feature 'share.version' to 1",),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Example(
        {"dirs": [{"path": "/d", "topics": [{"name": "a", "partitions": [0, 1]}]}]},
        {"results": [{"topic_name": "a", "partitions": _PARTS}]},
        ("moves partition 0 of topic 'a' to '/d'",),
    ),
    ApiKey.WRITE_TXN_MARKERS: Example(
        {"markers": [{"producer_id": 7, "transaction_result": False}]},
        {"markers": [{"producer_id": 7, "topics": [{"name": "a", "partitions": _PARTS}]}]},
        ("wrote abort of producer 7 to partition 0 of topic 'a'",),
    ),
}


def test_every_act_has_an_example() -> None:
    assert set(EXAMPLES) == set(ENTRIES)


@pytest.mark.parametrize("key", EXAMPLES, ids=lambda key: key.label)
def test_what_was_done_is_written_and_what_was_refused_is_not(key: ApiKey) -> None:
    example, registration = EXAMPLES[key], loaded(load_apis()[key])
    request = made(registration.request, example.request)
    response = made(response_class(registration), example.response)
    assert told(key, request, response) == list(example.lines)
    refused = _refused(response)
    assert told(key, request, refused) == []
    if hasattr(request, "validate_only"):
        request.validate_only = True
        assert told(key, request, response) == []


@pytest.mark.parametrize("key", EXAMPLES, ids=lambda key: key.label)
def test_no_text_of_a_client_gets_in_as_it_is(key: ApiKey) -> None:
    """All names of an example with what ends a line, closes a quote and speaks to a terminal."""
    example, registration = EXAMPLES[key], loaded(load_apis()[key])
    lines = told(
        key,
        _hostile(made(registration.request, example.request)),
        _hostile(made(response_class(registration), example.response)),
    )
    assert len(lines) == len(example.lines)
    for line in lines:
        assert line.isprintable()
        assert "\\n\\x1b" in line
        assert HOSTILE not in line


@pytest.mark.parametrize("key", sorted(RIGHTS), ids=lambda key: key.label)
def test_of_a_change_of_rights_nothing_is_hidden_behind_a_long_text(key: ApiKey) -> None:
    """Mapping rules and lists may be long, and the last part of one may be the one that counts."""
    example, registration = EXAMPLES[key], loaded(load_apis()[key])
    long = "x" * 1000 + "the end"
    lines = told(
        key,
        _hostile(made(registration.request, example.request), long),
        _hostile(made(response_class(registration), example.response), long),
    )
    values = sum(line.count("the end") for line in lines)
    assert values == sum(line.count("x" * 1000) for line in lines) > 0
    assert "…" not in "".join(lines)


HOSTILE = "'\n\x1b[2J\u202e done: "


def _hostile(value: Any, more: str = HOSTILE) -> Any:
    """The same with what is hostile behind each text."""
    if isinstance(value, str):
        return value + more
    if isinstance(value, list):
        return [_hostile(one, more) for one in value]
    if isinstance(value, Struct):
        return type(value)(**{field.name: _hostile(getattr(value, field.name), more) for field in value.FIELDS})
    return value


def _refused(value: Any) -> Any:
    """The answer with every part refused."""
    if isinstance(value, list):
        return [_refused(one) for one in value]
    if isinstance(value, Struct):
        changes = {field.name: _refused(getattr(value, field.name)) for field in value.FIELDS}
        return type(value)(**{**changes, **({"error_code": DENIED} if "error_code" in changes else {})})
    return value
