from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.cleaning import CleaningWorld, put
from support.groups import run_callbacks
from support.logs import append
from support.nodes import fake_node, made
from support.scrubs import damage, scrubber, status
from support.transactions import Node
from tidelog.broker.cleaning.service import LogCleaner
from tidelog.broker.http import api as http_api
from tidelog.broker.http.server import HttpServer
from tidelog.config.loader import load_config
from tidelog.storage.exceptions import KafkaStorageError


@pytest.fixture
def broker() -> Iterator[Any]:
    world = CleaningWorld()
    world.start(segment_bytes=500, min_cleanable_dirty_ratio=0.9)
    for topic in ("orders", "orders-1"):
        for number in range(50):
            put(world.log(topic), f"k{number % 3}", "v")
    config = load_config(None, {}, ["log.cleaner.dedupe.buffer.size=24000"])
    cleaner = LogCleaner(config, world.manager, world.file_system, world.time)
    yield fake_node(ready=True, logs=world.manager, cleaner=cleaner, config=config)
    cleaner.stop()


@pytest.fixture
def server(broker: Any) -> Iterator[HttpServer]:
    made = HttpServer(broker, "127.0.0.1", 0)
    yield made
    made.stop()


def ask(server: HttpServer, path: str, method: str = "GET", body: bytes = b"", **environ: str) -> tuple[str, Any]:
    """One request to the application, without a socket."""
    said: list[Any] = []
    path, _, query = path.partition("?")
    given: dict[str, Any] = {
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": method,
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
    }
    if method == "POST":
        given["CONTENT_TYPE"] = "application/json"
    content = b"".join(server.application(given | environ, lambda status, headers: said.extend([status, headers])))
    assert ("Content-Type", "application/json") in said[1]
    return said[0], json.loads(content)


def test_why(server: HttpServer) -> None:
    status, found = ask(server, "/why/orders")
    assert status == "200 OK"
    assert [one["partition"] for one in found["partitions"]] == [0]
    assert found["partitions"][0]["segments"][-1]["reason"] == "active"
    assert (found["cleanerBackoffMs"], found["retentionCheckIntervalMs"]) == (15_000, 300_000)
    assert ask(server, "/why/orders/0")[1]["partitions"] == found["partitions"]
    assert ask(server, "/why/orders-1")[1]["topic"] == "orders-1"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/why/nothing", "there is no topic 'nothing'"),
        ("/why/", "there is no topic ''"),
        ("/why/orders/7", "topic 'orders' has no partition 7"),
        ("/why/orders/00", "topic 'orders' has no partition 00"),
        ("/why/orders/0/1", "topic 'orders' has no partition 0/1"),
        ("/clean/orders/99", "no request 99 to clean 'orders' is known"),
        ("/clean/orders", "GET /clean/<topic>/<request> tells how far a request is"),
        ("/clean/orders/x", "GET /clean/<topic>/<request> tells how far a request is"),
    ],
)
def test_what_is_not_there(server: HttpServer, path: str, error: str) -> None:
    assert ask(server, path) == ("404 Not Found", {"error": error})


def test_clean_and_its_progress(server: HttpServer) -> None:
    status, found = ask(server, "/clean/orders?wait=5", "POST", b"{}")
    assert (status, found["state"]) == ("200 OK", "done")
    assert found["removed"]["superseded"] == 47
    assert ask(server, f"/clean/orders/{found['request']}") == ("200 OK", found)
    assert ask(server, f"/clean/orders-1/{found['request']}")[0] == "404 Not Found"
    assert ask(server, "/clean/nothing", "POST")[0] == "404 Not Found"
    assert ask(server, "/clean/orders/0", "POST")[0] == "404 Not Found"


def test_what_could_not_be_cleaned_is_not_called_done(
    server: HttpServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KafkaStorageError("orders-0: Input/output error")

    monkeypatch.setattr(broker.cleaner.manager, "take", fail)
    status, found = ask(server, "/clean/orders?wait=5", "POST")
    assert (status, found["state"], found["errors"]) == ("200 OK", "failed", {"0": "orders-0: Input/output error"})
    assert ask(server, f"/clean/orders/{found['request']}") == (status, found)


def test_one_that_takes_longer_is_asked_for_again(server: HttpServer, broker: Any) -> None:
    (log,) = (one for one in broker.logs.logs() if one.topic == "orders")
    work = broker.cleaner.manager.take(log, roll=False)
    assert work is not None
    status, found = ask(server, "/clean/orders", "POST")
    assert (status, found["state"] in ("waiting", "running")) == ("202 Accepted", True)
    broker.cleaner.manager.give_back(work)
    assert ask(server, f"/clean/orders/{found['request']}?wait=5")[1]["state"] == "done"


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({"HTTP_ORIGIN": "http://127.0.0.1:9404"}, "403 Forbidden"),
        ({"HTTP_ORIGIN": "null"}, "403 Forbidden"),
        ({"HTTP_SEC_FETCH_SITE": "cross-site"}, "403 Forbidden"),
        ({"CONTENT_TYPE": "text/plain"}, "415 Unsupported Media Type"),
        ({"CONTENT_TYPE": "application/x-www-form-urlencoded"}, "415 Unsupported Media Type"),
        ({"CONTENT_TYPE": ""}, "415 Unsupported Media Type"),
        ({"CONTENT_LENGTH": "70000"}, "413 Content Too Large"),
        ({"CONTENT_LENGTH": "-1"}, "413 Content Too Large"),
        ({"CONTENT_LENGTH": "9" * 5000}, "413 Content Too Large"),
        ({"CONTENT_LENGTH": "\u0663"}, "413 Content Too Large"),
    ],
)
def test_a_web_page_can_not_clean(server: HttpServer, broker: Any, environ: dict[str, str], status: str) -> None:
    assert ask(server, "/clean/orders", "POST", **environ)[0] == status
    assert broker.cleaner.requests.get("orders", 1) is None


def test_methods_waits_and_a_daemon_that_loads(server: HttpServer, broker: Any) -> None:
    assert ask(server, "/why/orders", "POST")[0] == "405 Method Not Allowed"
    assert ask(server, "/clean/orders", "DELETE")[0] == "405 Method Not Allowed"
    for wait in ("x", "nan", "-1", "inf"):
        assert ask(server, f"/clean/orders?wait={wait}", "POST")[0] == "400 Bad Request"
    broker.ready = False
    assert ask(server, "/why/orders")[0] == "503 Service Unavailable"


def test_waits_leave_threads_for_scrapes(server: HttpServer, broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as may wait are waiting: the next one is answered at once."""
    for _ in range(http_api.MAX_WAITING):
        assert server.api.waiting_places.acquire(blocking=False)
    (log,) = (one for one in broker.logs.logs() if one.topic == "orders")
    work = broker.cleaner.manager.take(log, roll=False)
    assert work is not None
    monkeypatch.setattr(http_api, "MAX_WAIT_S", 60.0)
    assert ask(server, "/clean/orders?wait=60", "POST")[0] == "202 Accepted"
    broker.cleaner.manager.give_back(work)


def test_whose_transaction_holds_a_segment_and_when_its_coordinator_aborts_it() -> None:
    """The time is in the answer, and comes true: the coordinator's look before it leaves the transaction, the next ends it."""
    node = Node(cleanup_policy=frozenset({"compact"}), segment_bytes=300, min_cleanable_dirty_ratio=0.0)
    node.produce("payments-1", node.init("payments-1", timeout_ms=30_000), "t", 0, "a")
    for _ in range(10):
        append(node.log("t"), "x" * 50)
    world = node.world
    config = load_config(None, {}, ["log.cleaner.dedupe.buffer.size=24000"])
    cleaner = LogCleaner(config, world.manager, world.file_system, world.time)
    asked_node = fake_node(
        ready=True,
        logs=world.manager,
        cleaner=cleaner,
        config=config,
        loop=node.loop,
        transactions=made(node.transactions),
    )
    api = http_api.HttpApi(asked_node)

    def first_reason() -> Any:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(api.answer, {"PATH_INFO": "/why/t/0"})
            while not asked.done():
                run_callbacks(node.loop)
            return asked.result().content["partitions"][0]["segments"][0]["reasons"][0]

    held = first_reason()
    assert (held["reason"], held["facts"]["transactionalId"]) == ("open transaction", "payments-1")
    assert "(transactional.id payments-1)" in held["event"]
    until_ms = held["untilMs"]
    assert until_ms == world.time.milliseconds() + 30_001
    world.time.advance(30_000)
    list(node.transactions.abort_overdue())
    node.settle()
    assert first_reason() == held
    world.time.advance(1)
    assert world.time.milliseconds() == until_ms
    list(node.transactions.abort_overdue())
    node.settle()
    assert first_reason()["reason"] == "due"
    node.close()


def test_why_tells_what_the_scrubber_found(server: HttpServer, broker: Any) -> None:
    directory = next(iter(broker.logs.logs())).directory.rpartition("/")[0]
    broker.scrubber = scrubber(status([damage("orders"), damage("orders-1")], directory=directory))
    (told,) = ask(server, "/why/orders/0")[1]["partitions"]
    assert told["scrub"]["state"] == "reading"
    assert [found["file"] for found in told["damage"]] == ["00000000000000000000.log"]
    assert told["damageOmitted"] == 0
