"""APIs about who may do what, on a daemon that asks nobody who he is: the protocol's own refusals, in every version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.apis.registry import load_apis, loaded
from tidelog.broker.error_answers import response_class
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tidelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest
from tidelog.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tidelog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tidelog.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tidelog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.schema import ApiMessage, decode, encode


def answers(request: ApiMessage) -> list[Any]:
    """Of each version that is registered, through the wire."""
    registration = loaded(load_apis()[request.API_KEY])
    found = []
    for version in range(registration.min_version, registration.max_version + 1):
        sent, _ = decode(type(request), version, encode(request, version))
        answer = registration.handler(sent, SimpleNamespace(api_version=version))
        found.append(decode(response_class(registration), version, encode(answer, version))[0])
    return found


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (DescribeAclsRequest(), ErrorCode.SECURITY_DISABLED),
        (CreateDelegationTokenRequest(), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (RenewDelegationTokenRequest(), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ExpireDelegationTokenRequest(), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (DescribeDelegationTokenRequest(), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (SaslHandshakeRequest(mechanism="PLAIN"), ErrorCode.ILLEGAL_SASL_STATE),
        (SaslAuthenticateRequest(auth_bytes=b"x"), ErrorCode.ILLEGAL_SASL_STATE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_as_a_whole(request_: ApiMessage, code: ErrorCode) -> None:
    found = answers(request_)
    assert [answer.error_code for answer in found] == [code] * len(found)
    assert len(found) >= 2


def test_each_access_rule_is_refused() -> None:
    for answer in answers(CreateAclsRequest(creations=[AclCreation(), AclCreation()])):
        assert [result.error_code for result in answer.results] == [ErrorCode.SECURITY_DISABLED] * 2
    for answer in answers(DeleteAclsRequest(filters=[DeleteAclsFilter()])):
        assert [result.error_code for result in answer.filter_results] == [ErrorCode.SECURITY_DISABLED]


def test_no_user_has_credentials() -> None:
    everybody, none = DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsRequest(users=[])
    assert [list(answer.results) for request in (everybody, none) for answer in answers(request)] == [[], []]
    users = [UserName(name=name) for name in ("a", "b", "a")]
    (answer,) = answers(DescribeUserScramCredentialsRequest(users=users))
    assert {result.user: result.error_code for result in answer.results} == {
        "a": ErrorCode.DUPLICATE_RESOURCE,
        "b": ErrorCode.RESOURCE_NOT_FOUND,
    }


def test_credentials_are_not_taken() -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name="gone", mechanism=1),
            ScramCredentialDeletion(name="both", mechanism=1),
        ],
        upsertions=[
            ScramCredentialUpsertion(name="new", mechanism=1),
            ScramCredentialUpsertion(name="new", mechanism=2),
            ScramCredentialUpsertion(name="both", mechanism=1),
        ],
    )
    (answer,) = answers(request)
    assert {result.user: result.error_code for result in answer.results} == {
        "gone": ErrorCode.RESOURCE_NOT_FOUND,
        "both": ErrorCode.DUPLICATE_RESOURCE,
        "new": ErrorCode.SECURITY_DISABLED,
    }


def test_all_are_registered() -> None:
    assert {ApiKey.CREATE_ACLS, ApiKey.SASL_HANDSHAKE, ApiKey.DESCRIBE_DELEGATION_TOKEN} <= set(load_apis())
