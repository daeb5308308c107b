"""Message sets by TLS and by AUTHENTICATE, with both clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.certificates import authority_in, write_identity
from support.inside import add_scram_user, in_loop, principals, services_of
from support.message_sets import message_set_address
from support.patience import PATIENCE_S
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.clients.async_message_set_client import AsyncMessageSetClient
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.message_set import LATEST, MessageSetError, NewRecord
from tidelog.protocol.message_set.wire import authenticate_request, fetch_request, offsets_request
from tidelog.testing import Broker


class Secured(NamedTuple):
    broker: Broker
    folder: Path

    def context(self, certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if certificate:
            context.load_cert_chain(self.folder / "carol.pem")
        return context

    def principals(self) -> set[str]:
        return principals(self.broker)


def made(tmp_path_factory: pytest.TempPathFactory, **more: str) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = authority_in(folder)
    write_identity(authority, folder / "carol.pem", "c@example.org", common_name="carol")
    settings = {
        "message.set.listeners": "tcp://127.0.0.1:0,tls://127.0.0.1:0",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "connection.failed.authentication.delay.ms": "1",
        **more,
    }
    with Broker(settings) as broker:
        broker.create_topic("t")
        add_scram_user(broker, "alice", "alice's secret", ("SCRAM-SHA-512",))
        yield Secured(broker, folder)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from made(tmp_path_factory, **{"message.set.authentication": "plain"})


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from made(
        tmp_path_factory,
        **{
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.tls.ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+).*$/$1/",
        },
    )


def use(kind: str, address: tuple[str, int], secured: Secured, **options: Any) -> list[bytes]:
    """Writes a record and reads the log, by one client of that kind; notes who the daemon takes it for."""
    if kind == "sync":
        with MessageSetClient(*address, **options) as client:
            client.produce("t", 0, [NewRecord(b"v" * 100_000)])
            return [record.value or b"" for record in client.read("t", 0)]

    async def run() -> list[bytes]:
        async with AsyncMessageSetClient(*address, **options) as client:
            await client.produce("t", 0, [NewRecord(b"v" * 100_000)])
            return [record.value or b"" async for record in client.read("t", 0)]

    return asyncio.run(run())


ALICE: dict[str, Any] = {"user": "alice", "password": "alice's secret"}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_a_user_gets_in(asking: Secured, kind: str, scheme: str) -> None:
    tls = asking.context() if scheme == "tls" else None
    address = message_set_address(asking.broker, scheme)
    assert set(use(kind, address, asking, tls=tls, **ALICE)) == {b"v" * 100_000}


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_others_are_told_why_not(asking: Secured, kind: str) -> None:
    address = message_set_address(asking.broker)
    for options, code in (
        ({"user": "alice", "password": "wrong"}, ErrorCode.SASL_AUTHENTICATION_FAILED),
        ({"user": "nobody"}, ErrorCode.SASL_AUTHENTICATION_FAILED),
        ({}, ErrorCode.ILLEGAL_SASL_STATE),
    ):
        with pytest.raises(MessageSetError) as caught:
            use(kind, address, asking, **options)
        assert caught.value.code == code
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        use(kind, message_set_address(asking.broker, "tls"), asking, tls=ssl.create_default_context(), **ALICE)


def test_who_is_not_known_learns_nothing_and_is_gone(asking: Secured) -> None:
    for frame in (fetch_request("t", 0, 0, 1000), offsets_request("t", 0, -1, 1), offsets_request("nothing", 0, -1, 1)):
        with socket.create_connection(message_set_address(asking.broker), timeout=PATIENCE_S) as connection:
            connection.sendall(frame * 3)
            said = b""
            while chunk := connection.recv(4096):
                said += chunk
            assert struct.unpack_from(">h", said, 4)[0] == ErrorCode.ILLEGAL_SASL_STATE
            assert len(said) in (6, 10), "one answer, with nothing behind the error"


def test_requests_in_one_piece_with_the_password_are_answered_after_it(asking: Secured) -> None:
    with socket.create_connection(message_set_address(asking.broker), timeout=PATIENCE_S) as connection:
        connection.sendall(authenticate_request(**ALICE) + offsets_request("t", 0, LATEST, 1))
        answers = connection.makefile("rb")
        assert struct.unpack(">ihhq", answers.read(16)) == (12, 0, 0, 0)
        assert struct.unpack(">ihi", answers.read(10)) == (14, 0, 1)
        answers.read(8)
        connection.sendall(authenticate_request(**ALICE))
        assert struct.unpack(">ihhq", answers.read(16)) == (12, ErrorCode.ILLEGAL_SASL_STATE, 0, 0)
        connection.sendall(offsets_request("t", 0, LATEST, 1))
        assert struct.unpack(">ihi", answers.read(10)) == (14, 0, 1)
        assert "User:alice" in asking.principals()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_certificate_says_who_it_is(certified: Secured, kind: str) -> None:
    address = message_set_address(certified.broker, "tls")
    assert use(kind, address, certified, tls=certified.context(certificate=True))
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        use(kind, address, certified, tls=certified.context())
    with MessageSetClient(*address, tls=certified.context(certificate=True)) as client:
        client.offsets("t", 0)
        assert "User:carol" in certified.principals()
    with pytest.raises(MessageSetError, match="ILLEGAL_SASL_STATE"):
        use(kind, message_set_address(certified.broker), certified, **ALICE)


def test_clients_begin_anew_before_their_session_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"message.set.authentication": "plain", "listener.name.tcp.plain.connections.max.reauth.ms": "600000"}
    for secured in made(tmp_path_factory, **settings):
        address = message_set_address(secured.broker)
        server = services_of(secured.broker).socket_server
        with MessageSetClient(*address, **ALICE) as client:
            client.offsets("t", 0)
            assert client._until_s is not None
            client._until_s = time.monotonic()  # as if its time had passed
            before = server.accepted_connections
            client.offsets("t", 0)
            assert server.accepted_connections == before + 1

        async def run(address: tuple[str, int] = address, server: Any = server) -> None:
            async with AsyncMessageSetClient(*address, **ALICE) as client:
                await client.offsets("t", 0)
                client._until_s = asyncio.get_running_loop().time()
                before = server.accepted_connections
                await client.offsets("t", 0)
                assert server.accepted_connections == before + 1

        asyncio.run(run())


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """alice may write and read "t", only read "read", only write "written"; "hidden" is not hers."""
    settings = {
        "message.set.authentication": "plain",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    for secured in made(tmp_path_factory, **settings):
        for topic in ("read", "written", "hidden"):
            secured.broker.create_topic(topic)
        authorizer = services_of(secured.broker).authorizer
        assert authorizer is not None
        rules = [
            Acl(ResourceType.TOPIC, topic, PatternType.LITERAL, "User:alice", "*", operation, Permission.ALLOW)
            for topic, operation in (
                ("t", AclOperation.WRITE), ("t", AclOperation.READ), ("read", AclOperation.READ), ("written", AclOperation.WRITE),
            )
        ]  # fmt: skip
        assert in_loop(secured.broker, lambda create=authorizer.create, rules=rules: create(rules)) == [None] * len(
            rules
        )
        yield secured


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def codes(found: Sequence[object]) -> list[int]:
    """0 for what went well."""
    return [one.code if isinstance(one, MessageSetError) else 0 for one in found]


def test_rules_hold_for_each_part_of_a_request_and_tell_nothing(ruled: Secured) -> None:
    """A topic that is not there is answered as one that may not be seen, and is not made."""
    topics = ("t", "read", "written", "hidden", "no-such")
    with MessageSetClient(*message_set_address(ruled.broker), **ALICE) as client:
        sent = client.message_set([NewRecord(b"v")])
        assert codes(client.multi_produce([(topic, 0, sent) for topic in topics])) == [0, DENIED, 0, DENIED, DENIED]
        assert codes(client.multi_fetch([(topic, 0, 0, 1000) for topic in topics])) == [0, 0, DENIED, DENIED, DENIED]
        for topic, code in zip(topics, (0, 0, 0, DENIED, DENIED), strict=True):
            try:
                client.offsets(topic, 0, LATEST)
                found = 0
            except MessageSetError as error:
                found = error.code
            assert found == code, topic
    ends = {name: services_of(ruled.broker).partitions.get(name, 0) for name in topics}
    assert ends.pop("no-such") is None
    assert {name: one.log.log_end_offset for name, one in ends.items() if one} == {
        "t": 1, "read": 0, "written": 1, "hidden": 0,
    }  # fmt: skip
