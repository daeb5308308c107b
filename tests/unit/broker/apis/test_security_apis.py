"""APIs about who may do what: users and passwords; and on a daemon without an authorizer the protocol's own refusals."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from support.nodes import made
from support.permissions import EVERYTHING
from tidelog.broker.apis.describe_user_scram_credentials import describe_user_scram_credentials
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.security.credentials import Credential, Users, is_password, new_credential, salted_password
from tidelog.broker.security.sasl.disguise import Disguise
from tidelog.broker.security.sasl.scram import ScramExchange
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


class Store:
    """Keeps nothing, and never fails."""

    def set_resource(self, kind: str, resource: str, settings: object) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future


def users(**credentials: dict[str, Credential]) -> Users:
    texts = {name: {mechanism: one.text() for mechanism, one in own.items()} for name, own in credentials.items()}
    return Users(texts, Store())  # type: ignore[arg-type]


def answers(
    request: ApiMessage,
    known: Users | None = None,
    protocol: str = "PLAINTEXT",
    principal: str = "User:ANONYMOUS",
) -> list[Any]:
    """Of each version that is registered, through the wire."""
    broker, connection = (
        SimpleNamespace(users=made(known or users()), authorizer=None),
        SimpleNamespace(authentication=None, principal=principal, listener=SimpleNamespace(security_protocol=protocol)),
    )
    registration = loaded(load_apis()[request.API_KEY])
    found = []
    for version in range(registration.min_version, registration.max_version + 1):
        sent, _ = decode(type(request), version, encode(request, version))
        context = SimpleNamespace(api_version=version, services=broker, connection=connection, **EVERYTHING)
        answer = registration.handler(sent, context)
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
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


ALICE = {"SCRAM-SHA-256": new_credential("SCRAM-SHA-256", "a", b"salt", 5000)}
BOTH = {**ALICE, "SCRAM-SHA-512": new_credential("SCRAM-SHA-512", "a", b"salt", 6000)}


async def test_who_is_deleted_while_all_are_listed_is_not_an_error() -> None:
    """Between two parts of the answer others have their turn."""
    known = users(**{f"user{number:03}": ALICE for number in range(250)})

    async def next_turn() -> None:
        await known.change("user249", {"SCRAM-SHA-256": None})

    context: Any = SimpleNamespace(services=SimpleNamespace(users=made(known)), next_turn=next_turn)
    answer: Any = await describe_user_scram_credentials(DescribeUserScramCredentialsRequest(users=None), context)  # type: ignore[misc]
    assert [one.user for one in answer.results] == [f"user{number:03}" for number in range(249)]
    assert {one.error_code for one in answer.results} == {ErrorCode.NONE}


def test_credentials_are_listed_and_not_shown() -> None:
    known = users(alice=ALICE, bob=BOTH)
    for request in (DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsRequest(users=[])):
        (answer,) = answers(request, known)
        found = {one.user: [(i.mechanism, i.iterations) for i in one.credential_infos] for one in answer.results}
        assert found == {"alice": [(1, 5000)], "bob": [(1, 5000), (2, 6000)]}
    wanted = [UserName(name=name) for name in ("alice", "nobody", "bob", "bob")]
    (answer,) = answers(DescribeUserScramCredentialsRequest(users=wanted), known)
    assert {result.user: result.error_code for result in answer.results} == {
        "alice": ErrorCode.NONE,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
    }


def upsertion(whose: str, mechanism: int = 1, **other: Any) -> ScramCredentialUpsertion:
    salted = salted_password({1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}[mechanism], "new", b"s", 4096)
    return ScramCredentialUpsertion(
        **{"name": whose, "mechanism": mechanism, "iterations": 4096, "salt": b"s", "salted_password": salted, **other}
    )


def test_credentials_are_set_and_deleted_user_by_user() -> None:
    known = users(alice=ALICE, bob=BOTH)
    deletions = [ScramCredentialDeletion(name="alice", mechanism=1), ScramCredentialDeletion(name="bob", mechanism=2)]
    deletions += [
        ScramCredentialDeletion(name="nobody", mechanism=1),
        ScramCredentialDeletion(name="twice", mechanism=1),
    ]
    wanted = [upsertion("carol"), upsertion("carol", 2), upsertion("bob"), upsertion("twice")]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=wanted)
    (answer,) = answers(request, known)
    assert {result.user: result.error_code for result in answer.results} == {
        "alice": ErrorCode.NONE,
        "bob": ErrorCode.NONE,
        "carol": ErrorCode.NONE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert known.names() == ["bob", "carol"]
    assert list(known.of("bob")) == ["SCRAM-SHA-256"]
    assert is_password(known.of("bob")["SCRAM-SHA-256"], "SCRAM-SHA-256", "new")
    assert is_password(known.of("carol")["SCRAM-SHA-512"], "SCRAM-SHA-512", "new")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"iterations": 4095}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16385}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salt": b"x" * 1025}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"name": ""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"name": "n" * 1025}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_credentials_that_are_none(change: dict[str, Any], code: ErrorCode) -> None:
    known = users()
    (answer,) = answers(AlterUserScramCredentialsRequest(upsertions=[upsertion("x", **change)]), known)
    assert [result.error_code for result in answer.results] == [code]
    assert known.names() == []


@pytest.mark.parametrize("salt", [b"", b"salt"])
@pytest.mark.parametrize("size", [1, 5, 31, 32, 33, 64, 65, 200, 5000])
@pytest.mark.parametrize(("mechanism", "name"), [(1, "sha256"), (2, "sha512")])
def test_who_has_a_salted_password_of_any_length_gets_in_with_it(
    mechanism: int, name: str, size: int, salt: bytes
) -> None:
    """Apache Kafka 4.3.1 was seen to take each of them, and to let in who has it."""
    known, salted = users(), b"p" * size
    wanted = upsertion("x", mechanism, salted_password=salted, salt=salt)
    (answer,) = answers(AlterUserScramCredentialsRequest(upsertions=[wanted]), known)
    assert [result.error_code for result in answer.results] == [ErrorCode.NONE]
    server = ScramExchange({1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}[mechanism], known, Disguise(b"d"), lambda: "server")
    first = server.step(b"n,,n=x,r=client").reply
    assert first == b"r=clientserver,s=" + base64.b64encode(salt) + b",i=4096"
    said = b"n=x,r=client," + first + b",c=biws,r=clientserver"
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), said, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
    last = server.step(b"c=biws,r=clientserver,p=" + proof)
    assert last.user == "x"
    assert last.reply == b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), said, name))


def test_mechanisms_that_there_are_not() -> None:
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="x", mechanism=0)])
    (answer,) = answers(request)
    assert [result.error_code for result in answer.results] == [ErrorCode.UNSUPPORTED_SASL_MECHANISM]


def test_all_are_registered() -> None:
    assert {ApiKey.CREATE_ACLS, ApiKey.SASL_HANDSHAKE, ApiKey.DESCRIBE_DELEGATION_TOKEN} <= set(load_apis())


@pytest.mark.parametrize(
    ("protocol", "principal", "code"),
    [
        ("PLAINTEXT", "User:ANONYMOUS", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        ("SSL", "User:ANONYMOUS", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        ("SSL", "User:CN=alice", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ("SASL_PLAINTEXT", "User:alice", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ("SASL_SSL", "User:alice", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
    ],
)
@pytest.mark.parametrize(
    "request_",
    [
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(),
        ExpireDelegationTokenRequest(),
        DescribeDelegationTokenRequest(),
    ],
    ids=lambda request: type(request).__name__,
)
def test_tokens_are_switched_off(request_: ApiMessage, protocol: str, principal: str, code: ErrorCode) -> None:
    assert {answer.error_code for answer in answers(request_, protocol=protocol, principal=principal)} == {code}
