"""kcat as a person uses it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.clients.base import CODECS, random_name
from support.clients.programs import KcatDriver

MakeTopic = Callable[..., str]


@pytest.fixture
def kcat(bootstrap: str, kcat_program: str) -> KcatDriver:
    return KcatDriver(bootstrap)


def numbers(start: int, stop: int) -> str:
    return "".join(f"{i}\n" for i in range(start, stop))


def test_lists_the_cluster(kcat: KcatDriver, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("kcat-list", 3)
    listed = json.loads(kcat.run("-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    assert [len(t["partitions"]) for t in listed["topics"] if t["topic"] == topic] == [3]


@pytest.mark.parametrize("codec", CODECS)
def test_roundtrip(kcat: KcatDriver, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic("kcat-roundtrip")
    kcat.run("-P", "-t", topic, "-p", "0", "-z", codec, text=numbers(0, 5000))
    assert kcat.run("-C", "-t", topic, "-o", "beginning", "-e", "-q") == numbers(0, 5000)
    assert kcat.run("-C", "-t", topic, "-o", "-5", "-e", "-q") == numbers(4995, 5000)


def test_headers_keys_and_nulls(kcat: KcatDriver, make_topic: MakeTopic) -> None:
    topic = make_topic("kcat-headers")
    kcat.run("-P", "-t", topic, "-K:", "-Z", "-H", "a=b", "-H", "c=d", text="k1:v1\nk2:\n:v3\n")
    read = kcat.run("-C", "-t", topic, "-e", "-q", "-f", "%K=%k %S=%s %h %o\n")
    assert read.splitlines() == ["2=k1 2=v1 a=b,c=d 0", "2=k2 -1= a=b,c=d 1", "-1= 2=v3 a=b,c=d 2"]


def test_idempotence(kcat: KcatDriver, make_topic: MakeTopic) -> None:
    topic = make_topic("kcat-idempotence")
    kcat.run("-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "batch.num.messages=50", text=numbers(0, 2000))
    assert kcat.run("-C", "-t", topic, "-e", "-q") == numbers(0, 2000)


def test_group(kcat: KcatDriver, make_topic: MakeTopic) -> None:
    topic, group = make_topic("kcat-group", 3), random_name("kcat-group")
    for p in range(3):
        kcat.run("-P", "-t", topic, "-p", str(p), text=numbers(100 * p, 100 * p + 100))
    options = ("-G", group, "-X", "auto.offset.reset=earliest", "-q", topic)
    assert sorted(kcat.run("-c", "300", *options).splitlines(), key=int) == numbers(0, 300).splitlines()
    kcat.run("-P", "-t", topic, "-p", "1", text=numbers(300, 310))
    assert kcat.run("-c", "10", *options) == numbers(300, 310)


def test_offsets_and_time(kcat: KcatDriver, make_topic: MakeTopic) -> None:
    topic = make_topic("kcat-query")
    kcat.run("-P", "-t", topic, text=numbers(0, 100))
    first, middle = (int(kcat.run("-C", "-t", topic, "-o", o, "-c", "1", "-q", "-f", "%T")) for o in ("0", "50"))
    assert kcat.run("-Q", "-t", f"{topic}:0:-2").split()[-1] == "0"
    assert kcat.run("-Q", "-t", f"{topic}:0:-1").split()[-1] == "100"
    assert int(kcat.run("-Q", "-t", f"{topic}:0:{middle}").split()[-1]) <= 50
    assert kcat.run("-C", "-t", topic, "-o", f"s@{first}", "-c", "1", "-q") == "0\n"


def test_large_message(kcat: KcatDriver, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic, value, file = make_topic("kcat-large"), random.Random(4).randbytes(900_000), tmp_path / "large"
    file.write_bytes(value)
    kcat.run("-P", "-t", topic, str(file))
    assert kcat.run_bytes("-C", "-t", topic, "-e", "-q", "-D", "").stdout == value


def test_too_large_message_is_refused(kcat: KcatDriver, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic, file = make_topic("kcat-too-large"), tmp_path / "large"
    file.write_bytes(bytes(1_200_000))
    done = kcat.run_bytes("-P", "-t", topic, "-X", "message.max.bytes=5000000", str(file))
    assert done.returncode != 0
    assert b"Message size too large" in done.stderr


def test_many_partitions(kcat: KcatDriver, make_topic: MakeTopic) -> None:
    topic = make_topic("kcat-many", 200)
    lines = "".join(f"key{i}\tvalue{i}\n" for i in range(3000))
    kcat.run("-P", "-t", topic, "-K\t", text=lines)
    read = kcat.run("-C", "-t", topic, "-e", "-q", "-K\t")
    assert sorted(read.splitlines()) == sorted(lines.splitlines())
