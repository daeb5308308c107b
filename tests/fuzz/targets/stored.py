"""What is stored as text in `metadata.db`, or comes as text in requests and options: access rules, entities of quotas,
expressions, durations, addresses, and how clients are told to get in."""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

from fuzz.target import target
from support.fake_filesystem import FakeFileSystem
from tidelog.broker.metadata.resource_config import MATCHED, parse_match
from tidelog.broker.quotas.manager import entity_name, parse_entity
from tidelog.broker.security.acl.authorizer import acl_text, parse_acl, read_rules
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.share.settings import parse_offset_reset
from tidelog.cleaner import cleaner_state
from tidelog.cli import acls
from tidelog.cli.groups import parse_time
from tidelog.cli.support.kafka_client import KafkaFailure, read_security
from tidelog.cli.support.offsets import parse_partition
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.wire.settings import parse_addresses
from tidelog.protocol.client_security import ClientSecurity, ClientSecurityError, security_of
from tidelog.protocol.errors import ProtocolError

DIRECTORY = tempfile.TemporaryDirectory(prefix="fuzz-stored-")
FILE = Path(DIRECTORY.name) / "client.properties"
RULES = tuple(
    Acl(ResourceType.TOPIC, name, pattern, principal, "*", AclOperation.READ, permission)
    for name, pattern, principal, permission in (
        ("orders", PatternType.LITERAL, "User:alice", Permission.ALLOW),
        ("ä\0\u2028", PatternType.PREFIXED, "User:*", Permission.DENY),
    )
)


def access_rules() -> Iterator[bytes]:
    yield from (acl_text(rule).encode() for rule in RULES)
    yield b'["TOPIC", 1, "LITERAL", "User:a", "*", "READ", "ALLOW"]'
    yield b'[["TOPIC"], "", {}, "", "", "", ""]'
    yield b"[" * 1800
    yield b'"1234567"'


@target(ValueError, seeds=access_rules, extra=1 << 20)
def access_rule(data: bytes) -> None:
    """A rule of `metadata.db`: one that can't be read stops the start with ValueError, as a rule left out may let somebody in."""
    text = data.decode("utf-8", "replace")
    rule = parse_acl(text)
    assert parse_acl(acl_text(rule)) == rule
    rules = read_rules({"7e0e4a0e-3c0d-4a3e-9f5a-111111111111": {"rule": text}})
    assert len(rules) == 1


def entities() -> Iterator[bytes]:
    yield entity_name((("client-id", "c"), ("user", None))).encode()
    yield b'{"ip":"127.0.0.1"}'
    yield b"[" * 1800


@target(ValueError, seeds=entities, extra=1 << 20)
def quota_entity(data: bytes) -> None:
    found = parse_entity(data.decode("utf-8", "replace"))
    assert parse_entity(entity_name(found)) == found
    assert all(isinstance(kind, str) and (name is None or isinstance(name, str)) for kind, name in found)


def matches() -> Iterator[bytes]:
    yield b"client_id=app-.*, client_software_name=(a|b)+"
    yield b"client_source_port=[0-9]{1,5}"
    yield b"client_id=(((((a{9}){9}){9}){9}){9}){9}"
    yield b"x=y,,"


@target(ProtocolError, seeds=matches, max_input=400, extra=32 << 20)
def telemetry_match(data: bytes) -> None:
    """`match` of a subscription to clients' metrics, and what it is asked of."""
    found = parse_match(data.decode("utf-8", "replace"))
    assert set(found) <= set(MATCHED)
    for expression in found.values():
        expression.fullmatch("app-1" * 50)


def resets() -> Iterator[bytes]:
    yield from (b"earliest", b"latest", b"by_duration:P1DT2H3M4.5S", b"by_duration:PT0.000001S", b"by_duration:-P1D")


@target(ValueError, seeds=resets, max_input=600)
def offset_resets(data: bytes) -> None:
    """`share.auto.offset.reset`: a duration is a number of milliseconds that times can be reckoned with."""
    found = parse_offset_reset(data.decode("utf-8", "replace"))
    assert 0 <= found.back_ms < 2**63


def addresses() -> Iterator[bytes]:
    yield from (b"localhost:9092, [::1]:1,a", b"[::1]", b":1", b"h:" + b"9" * 5000, "h:\u0663".encode())


@target(OptionError, seeds=addresses, max_input=6000)
def bootstrap_servers(data: bytes) -> None:
    found = parse_addresses(data.decode("utf-8", "replace"))
    assert found
    assert all(host and 0 < port < 65536 for host, port in found)


def pairs_of(data: bytes) -> dict[str, str]:
    """A line for each: its name, =, its value."""
    lines = data.decode("utf-8", "replace").split("\n")
    return {name.strip(): value for name, _, value in (line.partition("=") for line in lines) if name.strip()}


def option_lists() -> Iterator[bytes]:
    servers = b"bootstrap.servers=localhost:9092\n"
    yield b'path=/a,/b\nassign={"orders":[0,1]}\nstartingOffsets={"orders":{"0":5,"1":-2}}\nincludeHeaders=true'
    yield (
        servers
        + b"subscribePattern=o.*\nkafka.security.protocol=SASL_SSL\nkafka.sasl.mechanism=PLAIN\nmaxTriggerDelay=15m"
    )
    yield servers + b'subscribe=a,b\nendingOffsetsByTimestamp={"a":{"0":1}}\nstartingTimestamp=1e3\nminPartitions=3'
    yield servers + b"subscribe=a\nkafka.fetch.max.wait.ms=" + b"9" * 5000
    yield servers + b"topic=t\nkafka.compression.type=zstd\nkafka.acks=all\nrunId=x"
    yield servers + b"subscribe=a\nstartingOffsets=" + b'{"a":' * 300


@target(OptionError, seeds=option_lists, max_input=6000, extra=2 << 20)
def pipeline_options(data: bytes) -> None:
    """Options of the Spark source, and of its sink: all of them, or one clear error."""
    given = pairs_of(data)
    options = parse_options(given)
    assert options.topics or options.pattern is not None or options.assigned is not None


@target(OptionError, seeds=option_lists, max_input=6000, extra=2 << 20)
def sink_options(data: bytes) -> None:
    for streaming in (False, True):
        assert parse_sink_options(pairs_of(data), streaming=streaming)


def client_files() -> Iterator[bytes]:
    yield b"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=a\nsasl.password=hunter22secret"
    module = b"org.apache.kafka.common.security.plain.PlainLoginModule"
    yield (
        b"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        + module
        + b' required username="a" password="b";'
    )
    yield b"security.protocol=SSL\nssl.truststore.location=/none"
    yield b"security.protocol=X"


def others_of(given: dict[str, str]) -> str:
    return " ".join(part for name, value in given.items() for part in (name, value if name != "sasl.password" else ""))


@target(ClientSecurityError, seeds=client_files)
def command_config(data: bytes) -> None:
    """`--command-config`: how to get in, or what is wrong, which never shows the password."""
    given = pairs_of(data)
    secret = given.get("sasl.password", "").strip()
    try:
        found = security_of(given)
    except ClientSecurityError as error:
        assert len(secret) < 8 or secret in others_of(given) or secret not in str(error)
        raise
    assert isinstance(found, ClientSecurity)
    assert len(secret) < 8 or secret in others_of(given) or secret not in repr(found)


def arguments() -> Iterator[bytes]:
    for kind, texts in enumerate(
        ((b"2026-01-31T12:00:00", b"0001-01-01T00:00:00+23:59"), (b"t:0,3", b"t:" + b"9" * 5000), (b"read", b"ALL"))
    ):
        yield from (bytes([kind]) + text for text in texts)
    yield b"\3" + next(iter(client_files()))


@target(KafkaFailure, ValueError, ArgumentTypeError, seeds=arguments, max_input=6000)
def command_lines(data: bytes) -> None:
    """Arguments of commands: the first byte says which. Commands and argparse say what is wrong in a line."""
    text = data[1:].decode("utf-8", "replace")
    if data[:1] == b"\0":
        assert -(2**63) <= parse_time(text) < 2**63
    elif data[:1] == b"\1":
        name, numbers = parse_partition(text)
        assert text.startswith(name)
        assert numbers is None or numbers
    elif data[:1] == b"\2":
        assert acls._word("operation")(text) in AclOperation
    else:
        FILE.write_bytes(data[1:])
        assert read_security(str(FILE))


def notes() -> Iterator[bytes]:
    yield b'{"version":1,"checkpoint":4711,"interrupted":false,"horizons":{"0":1763735000000,"99":5}}'
    yield b'{"version":1,"checkpoint":1e9,"horizons":{"\xd9\xa3":1}}'
    yield b"[" * 1800
    yield json.dumps({"version": 1, "checkpoint": 0, "horizons": {"9" * 19: 2**63}}).encode()


@target(seeds=notes, extra=1 << 20)
def cleaner_notes(data: bytes) -> None:
    """`tidelog-cleaner.json`: whatever it holds, the cleaner goes on; what it says is written and read the same."""
    files = FakeFileSystem()
    files.put(f"/d/t-0/{cleaner_state.CLEANER_STATE_FILE}", data)
    state = cleaner_state.read_state(files, "/d/t-0")
    if state is not None:
        cleaner_state.write_state(files, "/d/t-0", state)
        assert cleaner_state.read_state(files, "/d/t-0") == state
