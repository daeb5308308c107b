"""The console over a real daemon: what each page tells, against what clients did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from support.console_client import Browser
from support.patience import until
from tidelog.broker.http.console.routes import EXAMPLE_COMPACTED_TOPIC, EXAMPLE_GROUP, EXAMPLE_TOPIC, ROUTES, SECTIONS
from tidelog.testing import Broker

HOSTILE = "<img src=x onerror=alert(1)>\"'&"
RECORDS = 60


async def fill(servers: str) -> None:
    """A topic with committed, aborted and open transactions and headers, a compacted one, two groups."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    compact = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.99"}
    await admin.create_topics(
        [
            NewTopic(EXAMPLE_TOPIC, 2, 1, topic_configs={"retention.ms": "360000000"}),
            NewTopic(EXAMPLE_COMPACTED_TOPIC, 1, 1, topic_configs=compact),
        ]
    )
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(RECORDS):
            value = json.dumps({"id": number, "text": HOSTILE}).encode()
            await producer.send_and_wait(
                EXAMPLE_TOPIC, value, key=b"k%d" % (number % 7), partition=0, headers=[("h<b>", b"\x00\xff")]
            )
        for number in range(200):
            await producer.send_and_wait(EXAMPLE_COMPACTED_TOPIC, b"v" * 50, key=b"c%d" % (number % 5), partition=0)
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id=f"tx {HOSTILE}", transaction_timeout_ms=600_000
    )
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(EXAMPLE_TOPIC, b"committed", partition=1)
    await producer.commit_transaction()
    await producer.begin_transaction()
    await producer.send_and_wait(EXAMPLE_TOPIC, b"aborted", partition=1)
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send_and_wait(EXAMPLE_TOPIC, b"open", partition=1)
    await producer.stop()  # which leaves the transaction open
    for group, offset in ((EXAMPLE_GROUP, 20), (f"{HOSTILE}/x?y", 60)):
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(EXAMPLE_TOPIC, 0)])
        await consumer.commit({TopicPartition(EXAMPLE_TOPIC, 0): offset})
        await consumer.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "http.listener": "127.0.0.1:0", "http.admin.enable": "true", "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1, "log.cleaner.backoff.ms": 3_600_000, "http.allowed.hosts": "console.test",
    }  # fmt: skip
    with Broker(settings) as made:
        asyncio.run(fill(made.bootstrap_servers))
        yield made


@pytest.fixture(scope="module")
def browser(broker: Broker) -> Browser:
    return Browser(broker.http_url)


def test_every_page_is_whole_and_hides_nothing(broker: Broker, browser: Browser) -> None:
    """And none of its links leads to nowhere."""
    asked = Browser(broker.http_url)
    asked.confirm(f"/actions/clean?topic={EXAMPLE_COMPACTED_TOPIC}")
    seen: set[str] = set()
    ahead = [route.example for route in ROUTES]
    while ahead and len(seen) < 200:
        path = ahead.pop(0)
        if path in seen:
            continue
        seen.add(path)
        answer = asked.get(path)
        assert answer.status == 200, (path, answer.text[:3000])
        if answer.headers["content-type"].startswith("text/html"):
            assert HOSTILE not in answer.text, path
            assert "<img" not in answer.text, path
            links = {link.partition("#")[0] for link in answer.page.links}  # a fragment is the browser's
            ahead += [link for link in sorted(links) if link.startswith("/") and link != "/metrics"]
    assert {path for path, _ in SECTIONS} <= seen
    assert len(seen) > 30


def test_a_head_has_no_body(browser: Browser) -> None:
    answer = browser.ask("HEAD", "/topics")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 1000


def test_groups_and_their_lag(browser: Browser) -> None:
    listed = browser.get("/groups").words
    assert f"{EXAMPLE_GROUP} classic Empty 1 1 40 40" in listed
    assert f"{HOSTILE}/x?y classic Empty 1 1 0 0" in listed
    (link,) = [one for one in browser.get("/groups").page.links if one.startswith("/groups/group?id=%3Cimg")]
    assert f"{HOSTILE}/x?y" in browser.get(link).words
    one = browser.get(f"/groups/group?id={EXAMPLE_GROUP}").words
    assert f"{EXAMPLE_TOPIC} 0 20 60 40 40" in one
    assert "It has no members." in one
    assert browser.get("/groups/group?id=nobody").status == 404
    assert "No group is like this." in browser.get("/groups?type=share").words


def test_a_group_with_members(broker: Broker, browser: Browser) -> None:
    async def look() -> str:
        consumer = AIOKafkaConsumer(
            EXAMPLE_TOPIC, bootstrap_servers=broker.bootstrap_servers, group_id="joined", client_id=f"me {HOSTILE}"
        )
        await consumer.start()
        await consumer.getmany(timeout_ms=1000)
        words = await asyncio.to_thread(lambda: browser.get("/groups/group?id=joined").words)
        await consumer.stop()
        return words

    words = asyncio.run(look())
    assert f"me {HOSTILE}" in words
    assert f"{EXAMPLE_TOPIC} [0, 1]" in words
    assert "Stable" in words


def test_transactions(browser: Browser) -> None:
    words = browser.get("/transactions").words
    assert f"tx {HOSTILE}" in words
    assert "Ongoing" in words
    assert f"{EXAMPLE_TOPIC}-1 4 1" in words, "its first offset, and how many it holds back"
    assert "hanging" not in words


def test_connections(broker: Broker, browser: Browser) -> None:
    async def look() -> str:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.client.fetch_all_metadata()  # its first connection, which it closed, is not to be relied on
            return await asyncio.to_thread(lambda: browser.get("/connections").words)

    assert "PLAINTEXT" in asyncio.run(look())


def test_settings_and_where_they_come_from(browser: Browser) -> None:
    words = browser.get("/settings?q=log.cleaner.backoff.ms").words
    assert "log.cleaner.backoff.ms --set 3600000 (60 minutes)" in words
    assert "default 15000" in words
    assert "No setting has all these words." in browser.get("/settings?q=nothing+like+it").words
    given = browser.get("/settings?which=set").words
    assert "http.admin.enable" in given
    assert "log.cleaner.threads" not in given
    of_topic = browser.get(f"/topics/{EXAMPLE_COMPACTED_TOPIC}/settings?which=set").words
    assert "segment.bytes topic 2000" in of_topic


def words_with(browser: Browser, path: str, is_there: Callable[[str], bool]) -> str:
    """The page's words once what happens in the background shows there."""
    return until(lambda: next(filter(is_there, [browser.get(path).words]), ""), f"{path} shows it")


def test_the_cleaner_and_what_it_did(browser: Browser) -> None:
    asked = browser.confirm(f"/actions/clean?topic={EXAMPLE_COMPACTED_TOPIC}")
    assert f"Cleaning {EXAMPLE_COMPACTED_TOPIC}" in asked.words
    words = words_with(browser, "/cleaner", lambda text: "superseded" in text.partition("Last passes")[2])
    assert f"{EXAMPLE_TOPIC}-0 in 4 days" in words, "retention's next"


def test_records_by_offset_time_and_key(browser: Browser) -> None:
    first = browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records?offset=0&count=10")
    assert "Offsets 0 to 9 of 0 to 60" in first.words
    assert f'{{"id": 9, "text": "{HOSTILE[:10]}' in first.words
    assert "1 header" in first.words
    links = {link for link in first.page.links if "records?" in link}
    (newer,) = [link for link in links if "offset=10" in link]
    assert "Offsets 10 to 19" in browser.get(newer).words
    assert "Offsets 50 to 59" in browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records?count=10").words, "the newest first"
    assert "Offsets 5 to 9" in browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records?before=10&count=5").words
    assert "Offsets 0 to 49" in browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records?time=2001-01-01T00:00:00").words
    assert "No record is from" in browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records?time=2200-01-01T00:00").words
    newest = browser.get(f"/topics/{EXAMPLE_TOPIC}/0/latest?key=k3").words
    assert f'{{"id": {max(n for n in range(RECORDS) if n % 7 == 3)},' in newest
    each = browser.get(f"/topics/{EXAMPLE_TOPIC}/0/latest").words
    assert all(f" k{n} " in each for n in range(7))
    assert "No record has this key" in browser.get(f"/topics/{EXAMPLE_TOPIC}/0/latest?key=0xffff").words
    for wrong in ("offset=x", "offset=-1", "time=yesterday", "count=0", "count=100000", "isolation=none"):
        assert browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records?{wrong}").status == 400, wrong
    assert browser.get(f"/topics/{EXAMPLE_TOPIC}/0/latest?key=0xf").status == 400


def test_one_record(browser: Browser) -> None:
    words = browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records/8").words
    assert '{ "id": 8, "text": "' in words, "JSON by lines"
    assert "h<b> 00 ff" in words
    assert "in the file" in words
    saved = browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records/8/value")
    assert json.loads(saved.body) == {"id": 8, "text": HOSTILE}
    assert saved.headers["content-disposition"] == f'attachment; filename="{EXAMPLE_TOPIC}-0-8.value"'
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records/8/key").body == b"k1"
    assert browser.get(f"/topics/{EXAMPLE_TOPIC}/0/records/60").status == 404
    assert browser.get(f"/topics/{EXAMPLE_TOPIC}/1/records/0/key").status == 404, "null is no key"


def test_transactions_in_the_browser(browser: Browser) -> None:
    every = browser.get(f"/topics/{EXAMPLE_TOPIC}/1/records").words
    assert "aborted aborted" in every, "value and state"
    assert "open open" in every
    assert "commit marker" in every
    committed = browser.get(f"/topics/{EXAMPLE_TOPIC}/1/records?isolation=read_committed").words
    assert "aborted" not in committed.partition("Offsets")[2]
    assert "Offsets 0 to 0 of 0 to 4" in committed


def test_what_the_brokers_own_records_mean(browser: Browser) -> None:
    words = browser.get("/topics/__consumer_offsets/0/records").words
    assert '"offset":20' in words
    assert EXAMPLE_GROUP in words


def test_throughput_comes_by_itself(browser: Browser) -> None:
    words = words_with(browser, "/throughput", lambda text: "Requests by API" in text)
    assert "Record bytes" in words
    assert "99 % within" in words or "No requests." in words
