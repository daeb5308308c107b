"""The files of docker/ against what they are about: the Compose schema, the metrics that there are, the runbook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from generate.metrics_page import exposed_names
from ruamel.yaml import YAML
from tidelog.broker.monitoring.collector import every_metric
from tidelog.config.loader import load_config

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
DASHBOARDS = sorted((DOCKER / "grafana/dashboards").glob("*.json"))
METRIC = re.compile(r"\b(?:tidelog|process)_[a-z_]+")
#: prometheus-client's own.
PROCESS = {
    "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
    "process_start_time_seconds",
}  # fmt: skip


def yaml(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text())


@pytest.fixture(scope="module")
def known() -> set[str]:
    return {name for metric in every_metric() for name in exposed_names(metric)} | PROCESS


@pytest.mark.parametrize("name", ["compose.yaml", "spark/compose.yaml"])
def test_compose_is_what_the_specification_allows(name: str) -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(DOCKER / name),
    ]
    subprocess.run(command, check=True, capture_output=True)


def test_every_file_that_compose_mounts_is_there() -> None:
    services = yaml(DOCKER / "compose.yaml")["services"]
    mounted = [mount.split(":") for service in services.values() for mount in service["volumes"]]
    files = [parts for parts in mounted if parts[0].startswith("./")]
    assert len(files) >= 5
    for source, _, mode in files:
        assert (DOCKER / source).exists(), source
        assert mode == "ro"


def test_what_watches_is_not_open_to_other_machines() -> None:
    services = yaml(DOCKER / "compose.yaml")["services"]
    published = [port for service in services.values() for port in service["ports"]]
    assert [port for port in published if not port.startswith("127.0.0.1:")] == ["9092:9092"]


@pytest.mark.parametrize("name", ["compose.yaml", "spark/compose.yaml"])
def test_every_container_gives_up_what_it_does_not_need(name: str) -> None:
    services = yaml(DOCKER / name)["services"]
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service.get("privileged")
        assert "cap_add" not in service
    assert services["tidelog"]["read_only"] is True


def test_the_spark_cluster_is_built_from_files_that_are_there_and_stays_on_this_machine() -> None:
    services = yaml(DOCKER / "spark/compose.yaml")["services"]
    for service in services.values():
        context = DOCKER / "spark" / service["build"]["context"]
        assert (context / service["build"].get("dockerfile", "Dockerfile")).is_file()
        assert service["profiles"] == ["spark"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_settings_for_production_are_settings() -> None:
    config = load_config(DOCKER / "server.properties", {}, [])
    assert config.auto_create_topics_enable is False
    assert config.logging_format == "json"


def test_prometheus_scrapes_the_port_that_the_image_serves() -> None:
    (job,) = yaml(DOCKER / "prometheus.yml")["scrape_configs"]
    assert job == {"job_name": "tidelog", "static_configs": [{"targets": ["tidelog:9404"]}]}
    assert "TIDELOG_HTTP_LISTENER=0.0.0.0:9404" in (ROOT / "Dockerfile").read_text()


def test_the_image_is_built_from_every_package() -> None:
    (line,) = [line for line in (ROOT / "setup.py").read_text().splitlines() if line.startswith("FOLDERS")]
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert [folder for folder in re.findall(r'"(\w+)"', line) if f"!{folder}" not in kept] == []


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml(DOCKER / "rules.yml")["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_rules_are_about_metrics_that_there_are(known: set[str]) -> None:
    for rule in alerts():
        names = set(METRIC.findall(rule["expr"])) or {"up"}
        assert names <= known | {"up"}, rule["alert"]


def test_each_alert_has_its_line_in_the_runbook_and_its_test() -> None:
    headings = re.findall(r"^### (\w+)$", (ROOT / "docs/RUNBOOK.md").read_text(), re.MULTILINE)
    names = [rule["alert"] for rule in alerts()]
    assert sorted(headings) == sorted(names)
    assert sorted(test["name"] for test in yaml(DOCKER / "rules_test.yml")["tests"]) == sorted(names)
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"docs/RUNBOOK.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_has_grafanas_structure(path: Path, known: set[str]) -> None:
    dashboard = json.loads(path.read_text())
    assert dashboard["uid"]
    assert dashboard["schemaVersion"] >= 36
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"datasource", "instance", "topic"}
    ids, taken = set(), set()
    for panel in dashboard["panels"]:
        assert panel["id"] not in ids
        ids.add(panel["id"])
        assert panel["title"]
        assert panel["type"] in ("row", "stat", "table", "timeseries")
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            assert set(METRIC.findall(target["expr"])) <= known, panel["title"]
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}


def test_there_are_two_dashboards() -> None:
    assert [path.stem for path in DASHBOARDS] == ["broker", "cleaner"]
