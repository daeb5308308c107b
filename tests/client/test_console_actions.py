"""The console's actions over a real daemon: they ask first, do what they said, and refuse whom and what they should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from support.console_client import Browser
from tidelog.broker.http.console.routes import ROUTES
from tidelog.testing import Broker

ACTIONS = [route for route in ROUTES if route.acts]


async def produce(servers: str, topic: str, values: Mapping[bytes, bytes] | list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, key=b"k", partition=0)


async def commit(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.commit({TopicPartition(topic, 0): offset})
    await consumer.stop()


async def committed(servers: str, group: str, topic: str) -> int | None:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        return await consumer.committed(TopicPartition(topic, 0))
    finally:
        await consumer.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "http.listener": "127.0.0.1:0", "http.admin.enable": "true", "offsets.topic.num.partitions": 1,
        "log.cleaner.backoff.ms": 3_600_000, "log.retention.check.interval.ms": 3_600_000, "http.allowed.hosts": "console.test",
    }  # fmt: skip
    with Broker(settings) as made:
        yield made


@pytest.fixture
def browser(broker: Broker) -> Browser:
    return Browser(broker.http_url)


def topic(broker: Broker, name: str, records: int, **config: object) -> str:
    """A topic of one partition with that many records, each in a segment of its own."""
    broker.create_topic(
        name, 1, {"segment.bytes": 80, **{key.replace("_", "."): value for key, value in config.items()}}
    )
    asyncio.run(produce(broker.bootstrap_servers, name, [b"%d" % number for number in range(records)]))
    return name


def test_delete_records(broker: Broker, browser: Browser) -> None:
    name = topic(broker, "delete", 10)
    path = f"/actions/delete-records?topic={name}&partition=0"
    assert "Show what would go" in browser.get(path).words
    asked = browser.get(f"{path}&offset=4")
    assert "4 records in 4 offsets" in asked.words
    assert "4 segments" in asked.words
    done = browser.confirm(f"{path}&offset=4")
    assert "Done: the first record that can be read is at offset 4" in done.words
    assert "Offsets 4 to 9 of 4 to 10" in browser.get(f"/topics/{name}/0/records").words
    for offset in (4, 11):
        assert f"Offset {offset} is not within 5 and 10" in browser.get(f"{path}&offset={offset}").words
    compacted = topic(broker, "keeps", 2, cleanup_policy="compact")
    refused = browser.get(f"/actions/delete-records?topic={compacted}&partition=0&offset=1")
    assert "only compacted" in refused.words
    assert refused.page.forms == []
    fields = {**browser.get(f"{path}&offset=5").page.inputs, "topic": compacted, "offset": "1"}
    assert "Refused: POLICY_VIOLATION" in browser.post("/actions/delete-records", fields).words


def test_what_was_confirmed_is_done_whatever_came_since(broker: Broker, browser: Browser) -> None:
    name = topic(broker, "since", 3)
    asked = browser.get(f"/actions/delete-records?topic={name}&partition=0&offset=3").page
    asyncio.run(produce(broker.bootstrap_servers, name, [b"later"]))
    browser.post("/actions/delete-records", asked.inputs)
    assert "Offsets 3 to 3 of 3 to 4" in browser.get(f"/topics/{name}/0/records").words


def test_retention(broker: Broker, browser: Browser) -> None:
    name = topic(broker, "aged", 5, retention_ms=3_600_000)
    path = f"/actions/retention?topic={name}"
    assert "Nothing is due" in browser.get(path).words
    broker.clock.advance(hours=3)
    asyncio.run(produce(broker.bootstrap_servers, name, [b"new"]))
    name = topic(broker, "sized", 6, retention_bytes=160)
    path = f"/actions/retention?topic={name}"
    asked = browser.get(path).words
    assert "These segments go for good" in asked
    assert "size" in asked
    done = browser.confirm(path).words
    assert "segments deleted." in done
    assert "retention" in done
    assert "Nothing is due" in browser.get(path).words


def test_clean(broker: Broker, browser: Browser) -> None:
    name = topic(broker, "cleaned", 8, cleanup_policy="compact", min_cleanable_dirty_ratio=0.99)
    assert "go for good" in browser.get(f"/actions/clean?topic={name}").words
    answer = browser.confirm(f"/actions/clean?topic={name}")
    for _ in range(600):
        if "Done in" in answer.words:
            break
        answer = browser.get(f"/cleaner/requests/1?topic={name}")
    assert "7 superseded" in answer.words
    assert browser.get("/cleaner/requests/99?topic=x").status == 404
    assert browser.get("/actions/clean?topic=none").status == 404


@pytest.mark.parametrize("kind", ["topic", "broker"])
def test_settings(broker: Broker, browser: Browser, kind: str) -> None:
    name, setting = (topic(broker, "set", 1), "retention.ms") if kind == "topic" else ("1", "log.retention.ms")
    page = f"/topics/{name}/settings" if kind == "topic" else "/settings"
    path = f"/actions/config?kind={kind}&name={name}&setting={setting}"
    assert "Show what would change" in browser.get(path).words
    asked = browser.get(f"{path}&do=set&value=7200000").words
    assert "to 7200000 (2 hours)" in asked
    assert "Done: " in browser.confirm(f"{path}&do=set&value=7200000").words
    assert "7200000 (2 hours)" in browser.get(f"{page}?q={setting}&which=set").words
    refused = browser.get(f"{path}&do=set&value=-7")
    assert "Refused: " in refused.words
    assert not [form for form in refused.page.forms if form["method"] == "post"], "nothing to confirm"
    browser.confirm(f"{path}&do=reset")
    assert "7200000" not in browser.get(f"{page}?q={setting}").words
    fields = {**browser.get(f"{path}&do=set&value=1").page.inputs, "value": "<b>"}
    answer = browser.post("/actions/config", fields)
    assert "Refused: " in answer.words
    assert "<b>" not in answer.text


def test_settings_that_there_are_not(browser: Browser) -> None:
    assert browser.get("/actions/config?kind=broker&name=1&setting=nothing").status == 404
    assert browser.get("/actions/config?kind=group&name=1&setting=x").status == 400
    assert browser.get("/actions/config?kind=broker&name=1&setting=retention.ms&do=drop").status in (400, 404)
    assert (
        "changes with the next start" in browser.get("/actions/config?kind=broker&name=1&setting=http.listener").words
    )


def test_groups(broker: Broker, browser: Browser) -> None:
    servers, name = broker.bootstrap_servers, topic(broker, "grouped", 9)
    group = "team <b> & co/x"
    asyncio.run(commit(servers, group, name, 5))
    path = f"/actions/reset-offsets?group={quote(group)}"
    assert "Show what would change" in browser.get(path).words
    for to, more, wanted in (
        ("earliest", "", 0), ("latest", "", 9), ("offset", "&offset=4", 4), ("time", "&time=2001-01-01T00:00", 0),
        ("offset", "&offset=999", 9),
    ):  # fmt: skip
        browser.confirm(f"{path}&topic={name}&to={to}{more}")
        assert asyncio.run(committed(servers, group, name)) == wanted, to
    assert "Nothing would change." in browser.get(f"{path}&topic={name}&to=latest").words
    browser.confirm(f"{path}&topic={name}&to=forget")
    assert asyncio.run(committed(servers, group, name)) is None
    assert browser.get(f"{path}&topic={name}&to=nowhere").status == 400
    asyncio.run(commit(servers, group, name, 5))
    done = browser.confirm(f"/actions/delete-group?group={quote(group)}")
    assert "the group and its offsets are gone" in done.words
    assert group not in browser.get("/groups").words


def test_a_group_with_members_is_left_alone(broker: Broker, browser: Browser) -> None:
    servers, name = broker.bootstrap_servers, topic(broker, "busy", 3)

    async def act() -> tuple[str, str]:
        consumer = AIOKafkaConsumer(name, bootstrap_servers=servers, group_id="busy", enable_auto_commit=False)
        await consumer.start()
        await consumer.getmany(timeout_ms=1000)
        await consumer.commit({TopicPartition(name, 0): 1})
        reset = await asyncio.to_thread(browser.confirm, f"/actions/reset-offsets?group=busy&topic={name}&to=latest")
        delete = await asyncio.to_thread(browser.get, "/actions/delete-group?group=busy")
        await consumer.stop()
        return reset.words, delete.words

    reset, delete = asyncio.run(act())
    assert "Refused in 1 partition of 1" in reset
    assert "only a group without members can be deleted" in delete


@pytest.mark.parametrize("route", ACTIONS, ids=lambda route: route.path)
def test_nothing_is_done_for_who_may_not(broker: Broker, browser: Browser, route: object) -> None:
    """Whoever asks: another site's page, a name that was pointed here, a form of an earlier run, a proxy's client."""
    path = route.path  # type: ignore[attr-defined]
    name = topic(broker, f"safe{path.rpartition('/')[2]}", 3)
    asked = browser.get(f"/actions/clean?topic={name}").page.inputs
    fields = {"topic": name, "partition": "0", "offset": "2", "kind": "topic", "name": name, "setting": "retention.ms",
              "do": "set", "value": "1", "group": "none", "to": "latest", "at.0": "1", "token": asked["token"]}  # fmt: skip
    for wrong in (
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"}, {"X_Forwarded_For": "10.0.0.1"}, {"Cookie": "tidelog-console=" + "x" * 32},
        {"Cookie": " "},
        {"Host": "console.test", "Origin": "http://console.test"}, {"Host": "192.168.1.1", "Origin": "http://192.168.1.1"},
    ):  # fmt: skip
        assert browser.post(path, fields, **wrong).status == 403, wrong
    evil = browser.post(path, fields, Host="evil.example", Origin="http://evil.example")
    assert evil.status == 421
    assert browser.post(path, {**fields, "token": "0" * 64}).status == 403
    assert browser.post(path, fields, Content_Type="application/json").status == 415
    assert browser.post(path, fields, Content_Type="text/plain").status == 415
    assert browser.ask("GET", f"{path}?topic={name}", headers={"Host": "console.test"}).status == 403
    assert browser.ask("PUT", path).status == 405
    assert "Offsets 0 to 2 of 0 to 3" in browser.get(f"/topics/{name}/0/records").words
    assert (
        browser.get(
            "/topics",
        ).status
        == 200
    )


def test_off_unless_switched_on() -> None:
    with Broker({"http.listener": "127.0.0.1:0"}) as plain:
        plain.create_topic("t")
        browser = Browser(plain.http_url)
        for route in ACTIONS:
            answer = browser.get(route.example)
            assert answer.status == 403
            assert "http.admin.enable is false" in answer.words
        assert "/actions/" not in browser.get("/topics/t").text + browser.get("/topics/t/0").text
        assert "shows only" in browser.get("/").words


def test_the_level_of_a_logger(broker: Broker, browser: Browser) -> None:
    logger = logging.getLogger("tidelog.broker.network.connection")
    before = logger.level
    path = "/actions/log-level?logger=tidelog.broker.network.connection"
    try:
        assert "tidelog.broker.network.connection" in browser.get("/settings/loggers?q=connection").words
        assert "No logger has all these words" in browser.get("/settings/loggers?q=no+such").words
        assert "Show what would change" in browser.get(path).words
        assert "changes from" in browser.get(f"{path}&level=DEBUG").words
        assert logger.level == before, "asking changes nothing"
        assert "Done: tidelog.broker.network.connection is DEBUG" in browser.confirm(f"{path}&level=DEBUG").words
        assert logger.level == logging.DEBUG
        assert "Done: tidelog.broker.network.connection is" in browser.confirm(f"{path}&level=inherited").words
        assert logger.level == logging.NOTSET
        assert "can't be taken away" in browser.get("/actions/log-level?logger=tidelog&level=inherited").words
        assert browser.get("/actions/log-level?logger=no.such").status == 404
        assert browser.get(f"{path}&level=LOUD").status == 400
    finally:
        logger.setLevel(before)


def test_a_listeners_own_limit(broker: Broker, browser: Browser) -> None:
    """A setting that the table has no row of its own for."""
    name = "listener.name.plaintext.max.connections"
    path = f"/actions/config?kind=broker&name=1&setting={name}"
    assert "Done: " in browser.confirm(f"{path}&do=set&value=500").words
    assert name in browser.get(f"/settings?q={name}").words
    assert "Done: " in browser.confirm(f"{path}&do=reset").words
