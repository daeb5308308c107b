"""The table of APIs, and all fields of requests and answers, against the definitions in kafka-clients jars: of the release that
the golden files are of, and of the newest one that there is.

A release that comes out and adds an API or a version is no fault of whatever change is tested on that day: what is missing is
named in a warning, and fails only with `--newest-kafka fail` (`make slow`). What the named release has fails always.
"""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from support.kafka_messages import (
    KafkaMessage,
    differences,
    golden,
    golden_release,
    jar_release,
    newest_jar,
    read_jar,
    read_text,
    table_differences,
)
from support.messages import message_classes

CACHE = Path(__file__).parents[2] / ".cache" / "compat"


@pytest.fixture(scope="module")
def clients() -> Path:
    """The jar of the newest release that the ring's own programs run with."""
    return newest_jar(CACHE.glob("java/*/lib"))


class HeldTo(NamedTuple):
    """A jar's name and messages, and what to call with a sentence and with what differs."""

    jar: str
    messages: list[KafkaMessage]
    tell: Callable[[str, Sequence[str]], None]


@pytest.fixture(params=["named", "newest"])
def held_to(request: pytest.FixtureRequest, clients: Path) -> HeldTo:
    """That jar, and the newest one on Maven, which may be the same."""
    if request.param == "named":
        return HeldTo(clients.name, read_jar(clients), partial(tell_differences, fails=True))
    tell = partial(tell_differences, fails=request.config.getoption("--newest-kafka") == "fail")
    try:
        jar = newest_jar([CACHE / "newest"])
        return HeldTo(jar.name, read_jar(jar), tell)
    except Exception as error:  # no jar, or messages that are written in a way that is not known
        tell("it can't be read:", [repr(error)])
        pytest.skip("Kafka's newest release can't be read")


def tell_differences(what: str, found: Sequence[str], *, fails: bool) -> None:
    """Fail, or warn, if anything differs."""
    text = "\n".join((what, *found))
    assert not (found and fails), text
    if found:
        warnings.warn(f"Kafka's newest release: {text}", stacklevel=2)  # let through in conftest.py


def test_the_golden_files_are_of_this_release(clients: Path) -> None:
    release = ".".join(map(str, jar_release(clients)))
    assert golden_release(golden()) == golden_release(golden("errors")) == jar_release(clients), (
        f"kafka-clients is {release} and {golden().name} is another's: in tests/, "
        f"python support/kafka_messages.py {clients} > golden/kafka-{release}-messages.txt, and ErrorTable.java for the errors"
    )
    assert read_text(golden().read_text()) == read_jar(clients)


def test_error_codes_are_those_of_this_release(clients: Path) -> None:
    program = Path(__file__).parent / "java" / "ErrorTable.java"
    ran = subprocess.run(
        ["java", "-cp", f"{clients.parent}/*", str(program)], capture_output=True, text=True, check=True, timeout=300
    )
    assert golden("errors").read_text() == ran.stdout, f"{clients.name} prints others: put them into tests/golden"


def test_every_api_that_brokers_answer_is_answered_in_its_newest_version(held_to: HeldTo) -> None:
    held_to.tell(f"{held_to.jar} has what is not here:", table_differences(held_to.messages))


def test_every_field_is_kafkas(held_to: HeldTo) -> None:
    by_name = {message.name: message for message in held_to.messages}
    ours = {cls.__name__: cls for cls in message_classes() if cls.__name__ in by_name}
    assert len(ours) > 150
    found = [line for name, cls in ours.items() for line in differences(cls, by_name[name])]
    held_to.tell(f"{held_to.jar} has it otherwise:", found)


def test_a_newer_release_is_a_warning_unless_it_is_to_fail() -> None:
    tell_differences("kafka-clients-9.0.0.jar has what is not here:", [], fails=True)
    with pytest.warns(UserWarning, match=r"Kafka's newest release: .*9\.0\.0.*\n95 Fly: not answered"):
        tell_differences("kafka-clients-9.0.0.jar has what is not here:", ["95 Fly: not answered"], fails=False)
    with pytest.raises(AssertionError, match="95 Fly"):
        tell_differences("kafka-clients-9.0.0.jar has what is not here:", ["95 Fly: not answered"], fails=True)
