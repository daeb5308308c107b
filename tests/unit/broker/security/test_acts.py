from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.apis.registry import load_apis, loaded
from tidelog.broker.security.acts import ACTS, acts
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


def told(key: ApiKey, request: Any, response: Any) -> list[str]:
    return list(acts(request, response, SimpleNamespace(api_key=key)))  # type: ignore[arg-type]


def test_what_is_audited_has_words() -> None:
    assert {key for key in load_apis() if loaded(load_apis()[key]).audited} == set(ACTS)


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
