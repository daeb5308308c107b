"""`tidelog users list|create|delete`: users with passwords, for listeners that ask by SCRAM or PLAIN.

`create` and `delete` ask the daemon; with --config or --set log.dirs=DIR they write to the data of a stopped one instead,
which is how the first user comes to be. Passwords are read from the terminal, or the first line of standard input or of
--password-file: on a command line everybody could see them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .serve import add_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..broker.security.credentials import Credential
    from ..protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_actions

    action = add_actions(commands, "users", "users and their passwords, for SASL listeners", __doc__)
    action("list", run_list, "users, their mechanisms and iterations")
    create = action("create", run_create, "make a user, or give one another password")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--password-file", metavar="FILE", help="its first line is the password; - is standard input")
    create.add_argument(
        "--iterations", metavar="N", type=int, default=8192, help="how slow guessing is made: 4096 … 16384"
    )
    delete = action("delete", run_delete, "take a user's passwords away")
    delete.add_argument("name", metavar="NAME")
    for parser in (create, delete):
        parser.add_argument(
            "--mechanism",
            choices=_MECHANISMS,
            action="append",
            help="only this one; may be given again (default: both)",
        )
        add_configuration(parser)


def run_list(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from ..broker.security.credentials import NUMBERS
    from ..protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )
    from .support.kafka_client import check, client_of
    from .support.output import say_empty, table

    with client_of(options) as client:
        answer = client.ask(DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse)
    check("users", answer.error_code, answer.error_message)
    users = {
        result.user: {
            NUMBERS.get(info.mechanism, str(info.mechanism)): info.iterations for info in result.credential_infos
        }
        for result in sorted(answer.results, key=lambda result: result.user)
    }
    if options.json:
        import json

        print(json.dumps(users, indent=2))
    elif users:
        rows = [(name, mechanism, str(count)) for name, own in users.items() for mechanism, count in own.items()]
        print("\n".join(table(("USER", "MECHANISM", "ITERATIONS"), rows)))
    else:
        say_empty("there are no users")
    return 0


def run_create(options: Any) -> int:
    """Stores; returns 0. KafkaFailure, ConfigError, DataDirectoryError."""
    import secrets

    from ..broker.security import credentials as kept
    from ..protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )
    from .support.kafka_client import KafkaFailure
    from .support.offline import is_offline

    if not kept.MIN_ITERATIONS <= options.iterations <= kept.MAX_ITERATIONS:
        raise KafkaFailure(f"--iterations is {kept.MIN_ITERATIONS} … {kept.MAX_ITERATIONS}, not {options.iterations}")
    password = _password(options)
    numbers = {name: number for number, name in kept.NUMBERS.items()}
    stored: dict[str, Credential | None] = {}
    upsertions = []
    for mechanism in dict.fromkeys(options.mechanism or _MECHANISMS):
        salt = secrets.token_bytes(kept.SALT_BYTES)
        salted = kept.salted_password(mechanism, password, salt, options.iterations)
        stored[mechanism] = kept.credential_of(mechanism, salted, salt, options.iterations)
        upsertions.append(
            ScramCredentialUpsertion(
                name=options.name, mechanism=numbers[mechanism], iterations=options.iterations, salt=salt,
                salted_password=salted,
            )
        )  # fmt: skip
    if is_offline(options):
        _store(options, stored)
    else:
        # One at a time: Apache Kafka takes no two changes of a user at once.
        _ask(options, [AlterUserScramCredentialsRequest(upsertions=[upsertion]) for upsertion in upsertions])
    return 0


def run_delete(options: Any) -> int:
    """Deletes; returns 0. KafkaFailure when the user has none of these passwords."""
    from ..broker.security.credentials import NUMBERS
    from ..protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )
    from .support.offline import is_offline

    wanted = options.mechanism
    if is_offline(options):
        _store(options, dict.fromkeys(wanted or _MECHANISMS))
        return 0
    if not wanted:
        wanted = _mechanisms_of(options)
    deletions = [
        ScramCredentialDeletion(name=options.name, mechanism=number)
        for number, name in NUMBERS.items()
        if name in wanted
    ]
    _ask(options, [AlterUserScramCredentialsRequest(deletions=[deletion]) for deletion in deletions])
    return 0


def _mechanisms_of(options: Any) -> list[str]:
    from ..broker.security.credentials import NUMBERS
    from ..protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        UserName,
    )
    from .support.kafka_client import check, client_of

    with client_of(options) as client:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=options.name)])
        answer = client.ask(request, DescribeUserScramCredentialsResponse)
    for result in answer.results:
        check(f"user {options.name}", result.error_code, result.error_message)
    return [
        NUMBERS[info.mechanism]
        for result in answer.results
        for info in result.credential_infos
        if info.mechanism in NUMBERS
    ]


def _ask(options: Any, requests: Sequence[AlterUserScramCredentialsRequest]) -> None:
    from ..protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse
    from .support.kafka_client import check, client_of

    with client_of(options) as client:
        for request in requests:
            for result in client.ask(request, AlterUserScramCredentialsResponse).results:
                check(f"user {result.user}", result.error_code, result.error_message)


def _password(options: Any) -> str:
    """KafkaFailure when there is none."""
    import sys

    from .support.kafka_client import KafkaFailure

    if options.password_file not in (None, "-"):
        with open(options.password_file, encoding="utf-8") as file:
            password = file.readline()
    elif sys.stdin.isatty() and options.password_file is None:
        import getpass

        password = getpass.getpass(f"password of {options.name}: ")
        if getpass.getpass("once more: ") != password:
            raise KafkaFailure("the two passwords differ")
    else:
        password = sys.stdin.readline()
    password = password.rstrip("\r\n")
    if not password:
        raise KafkaFailure("the password is empty: give one on standard input, or by --password-file")
    return password


def _store(options: Any, changes: Mapping[str, Credential | None]) -> None:
    """Writes to the metadata of a stopped daemon."""
    import asyncio

    from ..broker.metadata.store import SCRAM
    from ..broker.security.credentials import Users
    from .support.kafka_client import KafkaFailure
    from .support.offline import stopped_daemon

    with stopped_daemon(options) as daemon:
        users = Users(daemon.stored.resources.get(SCRAM, {}), daemon.store)
        known = users.of(options.name)
        if not any(changes.values()) and not any(name in known for name in changes):
            there = ", ".join(users.names()) or "none"
            raise KafkaFailure(f"user {options.name} has no password of that kind; there are users {there}")
        asyncio.run(users.change(options.name, changes))
