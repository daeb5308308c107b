"""Clients that reset their connection behind a request that changes rights: what was changed is in the audit log with its
address, and holds at once."""

from __future__ import annotations

import re
import socket
import sqlite3
import struct
from pathlib import Path

from support.daemon import Daemon
from support.wire_client import WireClient, request_frame
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

CLIENTS = 40
RESET = struct.pack("ii", 1, 0)


def set_and_leave(address: tuple[str, int], user: str, between: WireClient, rounds: int) -> None:
    """Sends the request, and resets the connection when the daemon has answered somebody else so often."""
    credential = ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"p" * 32
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential])
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.sendall(request_frame(request, 0))
        for _ in range(rounds):
            between.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)


def test_a_user_that_was_set_is_known_and_in_the_audit_log_though_nobody_waited_for_the_answer(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data") as daemon:
        host, _, port = daemon.bootstrap.rpartition(":")
        address = host, int(port)
        with WireClient(address) as between:
            for number in range(CLIENTS):
                set_and_leave(address, f"left-{number}", between, number % 4)
        with WireClient(address) as client:  # behind all that are in work: users are changed one after the other
            last = ScramCredentialUpsertion(
                name="left-last", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32
            )
            client.send(request_frame(AlterUserScramCredentialsRequest(deletions=[], upsertions=[last]), 0))
            client.receive()
            asked = DescribeUserScramCredentialsRequest(users=None)
            known = {one.user for one in client.ask(asked, 0, DescribeUserScramCredentialsResponse).results}
    with sqlite3.connect(next((tmp_path / "data").rglob("metadata.db"))) as store:
        tables = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        values = [value for name in tables for row in store.execute(f"select * from {name}") for value in row]
    stored = {value for value in values if isinstance(value, str) and value.startswith("left-")}
    told = re.findall(r"done: User:ANONYMOUS from (\S*): set the \S+ credential of user '([^']*)'", daemon.stderr())
    assert len(stored) > 1, "some came in time"
    assert {name for _, name in told} == stored == known
    assert {address for address, _ in told} == {"127.0.0.1"}
