"""Debian's Prometheus scrapes three live daemons: one that is well, one whose disk has only the reserve left, and one that speaks
https and asks who scrapes it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from ruamel.yaml import YAML
from support.daemon import Daemon
from support.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
BINARIES = ROOT / ".cache/prometheus/usr/bin"
PROMTOOL = str(BINARIES / "promtool")

#: Series that a daemon has only when something is, or was, wrong or under way: a query on them alone is empty here.
NOT_HERE = {
    "tidelog_oldest_transaction_age_seconds",  # no transaction is open
    "tidelog_cleaner_last_pass_tombstones_kept",
    "tidelog_future_dated_bytes",  # no record is dated in the future
    "tidelog_log_scrub_pass_start_timestamp_seconds",  # nothing was read yet to look for damage
    "tidelog_log_scrub_last_complete_timestamp_seconds",
}


class Prometheus(NamedTuple):
    """A running server."""

    address: str
    log: Path
    well: str
    full: str
    secured: str

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting: not an answer yet
                raise
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float:
        (one,) = self.query(expression)
        return float(one["value"][1])


TOKEN = "8c6f3d1e9b7a45208c6f3d1e9b7a4520"


def secured_daemon(directory: Path) -> Daemon:
    """One that is scraped as docker/prometheus-secured.yml says; the files that it names are made as well."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "tidelog-ca.pem")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    (directory / "tidelog.token").write_text(TOKEN)
    (directory / "tokens").write_text(f"prometheus {TOKEN}\n")
    settings = {
        "http.listener": "https://127.0.0.1:0", "ssl.keystore.location": str(directory / "server.pem"),
        "http.authentication": "bearer", "http.tokens.file": str(directory / "tokens"), "http.users.read": "prometheus",
    }  # fmt: skip
    return Daemon(directory / "secured", settings)


def work(daemon: Daemon) -> None:
    """A bit of everything that has a metric: both kinds of topics, errors, a group that is behind, a pass of the cleaner."""
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    compacted = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}
    topics = [
        NewTopic("compacted", 1, 1, config=compacted),
        NewTopic("expiring", 2, 1, config={"retention.bytes": "20000", "segment.bytes": "20000"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "linger.ms": 5})
    for number in range(3000):
        producer.produce("compacted", key=f"k{number % 10}", value=b"v" * 50)
        producer.produce("expiring", key=str(number), value=b"v" * 50)
        if number % 100 == 99:  # small batches, so that segments are closed
            producer.flush(30)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": daemon.bootstrap, "group.id": "behind", "enable.auto.commit": False,
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe(["compacted"])
    until(lambda: consumer.poll(1), "a record comes")
    consumer.commit(offsets=[TopicPartition("compacted", 0, 5)], asynchronous=False)
    consumer.close()
    with pytest.raises(KafkaException):
        next(iter(admin.create_topics(topics[:1]).values())).result(PATIENCE_S)
    for topic in ("compacted", "expiring"):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{daemon.http}/clean/{topic}?wait=5", b"{}", headers, method="POST")
        with urllib.request.urlopen(request, timeout=60):
            pass


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    reserve = shutil.disk_usage(directory).total + (1 << 30)
    (directory / "backup").mkdir()
    settings = {
        "log.cleaner.backoff.ms": 200, "log.retention.check.interval.ms": 1000,
        "backup.url": (directory / "backup").as_uri(), "backup.verify.interval.ms": 86_400_000,
    }  # fmt: skip
    well = Daemon(directory / "well", settings)
    full = Daemon(directory / "full", {"log.dir.reserve.bytes": reserve})
    with well, full, secured_daemon(directory) as secured:
        work(well)
        yaml = YAML(typ="safe", pure=True)
        config = yaml.load((DOCKER / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [well.http, full.http]}]
        more = yaml.load((DOCKER / "prometheus-secured.yml").read_text())["scrape_configs"][0]
        config["scrape_configs"].append(
            {**more, "job_name": "secured", "static_configs": [{"targets": [secured.http]}]}
        )
        config["rule_files"] = [str(DOCKER / "rules.yml")]
        path = directory / "prometheus.yml"
        path.write_text(json.dumps(config))  # which is YAML
        log = directory / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(BINARIES / "prometheus"), f"--config.file={path}", f"--storage.tsdb.path={directory / 'tsdb'}",
                 f"--web.listen-address={address}"],
                stdout=output, stderr=output,
            )  # fmt: skip
        try:
            server = Prometheus(address, log, well.http, full.http, secured.http)

            def scraped() -> bool:
                try:
                    return (
                        server.value("min(count_over_time(tidelog_ready[1m]))") >= 4 and server.value("count(up)") == 3
                    )
                except (OSError, ValueError):
                    return False

            until(scraped, "both daemons are scraped a few times")
            yield server
        finally:
            process.terminate()
            process.wait(60)


def test_the_targets_are_up_and_no_scrape_is_warned_about(prometheus: Prometheus) -> None:
    targets = prometheus.ask("targets", state="active")["activeTargets"]
    assert {target["labels"]["instance"]: target["health"] for target in targets} == {
        prometheus.well: "up",
        prometheus.full: "up",
        prometheus.secured: "up",
    }
    assert all(target["lastError"] == "" for target in targets)
    lines = prometheus.log.read_text().splitlines()
    assert [line for line in lines if re.search(r"level=(warn|error)", line)] == []


def test_without_its_token_the_secured_one_is_not_scraped(prometheus: Prometheus) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for token in ("", TOKEN[::-1]):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"https://{prometheus.secured}/metrics", headers=headers)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=60, context=context)


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-secured.yml"])
def test_promtool_finds_no_fault_with_the_configuration(name: str, tmp_path: Path) -> None:
    for file in (DOCKER / name, DOCKER / "rules.yml"):
        shutil.copy(file, tmp_path)
    trustme.CA().cert_pem.write_to_path(tmp_path / "tidelog-ca.pem")
    (tmp_path / "tidelog.token").write_text(TOKEN)
    done = subprocess.run(
        [PROMTOOL, "check", "config", name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_no_fault_with_the_metrics(prometheus: Prometheus) -> None:
    with urllib.request.urlopen(f"http://{prometheus.well}/metrics", timeout=60) as answer:
        text = answer.read()
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("command", [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]])
def test_promtool_finds_no_fault_with_the_rules(command: list[str]) -> None:
    done = subprocess.run([PROMTOOL, *command], cwd=DOCKER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_fires_live(prometheus: Prometheus) -> None:
    """The daemon whose disk is "full", and nothing about the other one."""

    def firing() -> Any:
        found = [one for one in prometheus.ask("alerts")["alerts"] if one["state"] == "firing"]
        return [(one["labels"]["alertname"], one["labels"]["instance"]) for one in found]

    assert until(firing, "an alert") == [("TidelogDiskReserveReached", prometheus.full)]
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 15
    assert {rule["health"] for rule in rules} == {"ok"}
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


def test_health_says_what_the_alert_says(prometheus: Prometheus) -> None:
    def health(address: str, path: str) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    assert health(prometheus.well, "/health")[0] == 200
    status, content = health(prometheus.full, "/health")
    assert status == 503
    assert [reason["reason"] for reason in content["reasons"]] == ["disk_reserve_reached"]
    assert health(prometheus.full, "/health/ready") == (200, {"status": "ready", "degraded": ["disk_reserve_reached"]})
    assert health(prometheus.full, "/health/live")[0] == 200


def dashboard_queries() -> list[tuple[str, str]]:
    return [
        (f"{path.stem}: {panel['title']} {target['refId']}", target["expr"])
        for path in sorted((DOCKER / "grafana/dashboards").glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    ]


@pytest.mark.parametrize(("where", "expression"), dashboard_queries(), ids=lambda text: text[:60])
def test_a_panels_query_has_an_answer(prometheus: Prometheus, where: str, expression: str) -> None:
    for name, value in (("$__rate_interval", "1m"), ("$instance", ".*"), ("$topic", ".*")):
        expression = expression.replace(name, value)
    if any(name in expression for name in NOT_HERE):
        prometheus.query(expression)
        return
    until(lambda: prometheus.query(expression), f"{where}: {expression}")


def test_every_series_that_a_rule_is_about_is_there(prometheus: Prometheus) -> None:
    (group,) = YAML(typ="safe", pure=True).load((DOCKER / "rules.yml").read_text())["groups"]
    for rule in group["rules"]:
        for name in set(re.findall(r"\b(?:tidelog|process)_[a-z_]+", rule["expr"])) - NOT_HERE:
            assert prometheus.query(f"count({name})"), f"{rule['alert']} is about {name}, which has no series"


def test_what_it_stores_is_what_was_done(prometheus: Prometheus) -> None:
    well = f'instance="{prometheus.well}"'
    assert prometheus.value(f"tidelog_produced_records_total{{{well}}}") == 6000
    assert (
        prometheus.value(f'tidelog_request_errors_total{{{well},api="CreateTopics",error="TOPIC_ALREADY_EXISTS"}}') == 1
    )
    offsets = prometheus.value(f'tidelog_group_lag_offsets{{{well},group="behind"}}')
    assert offsets == 2995
    records = prometheus.value(f'tidelog_group_lag_records{{{well},group="behind"}}')
    assert 10 <= records < 2995, "compaction left few of them"
    assert prometheus.value(f'sum(tidelog_retention_segments_total{{{well},policy="size"}})') > 0
    answered = prometheus.value(f'tidelog_request_seconds_count{{{well},api="Produce"}}')
    assert answered == prometheus.value(f'tidelog_requests_total{{{well},api="Produce"}}') > 0
