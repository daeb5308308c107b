"""The manifests of deploy/kubernetes against Kubernetes' own schemas, the image, and the settings that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from support.daemon import Daemon
from tidelog.config.loader import load_config

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
VERSIONS = ("1.27", "1.30", "1.33")


def documents() -> list[dict[str, Any]]:
    return [one for path in MANIFESTS for one in YAML(typ="safe", pure=True).load_all(path.read_text())]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (one for one in documents() if one["kind"] == kind)
    return found


POD = of_kind("StatefulSet")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", documents(), ids=lambda document: document["kind"])
def test_kubernetes_takes_each_document(document: dict[str, Any], version: str) -> None:
    """Strictly: a name that Kubernetes does not know is refused, and not overlooked."""
    kubernetes_validate.validate(document, version, strict=True)


def test_a_name_that_kubernetes_does_not_know_is_noticed() -> None:
    document = of_kind("StatefulSet")
    document["spec"]["template"]["spec"]["terminationGraceSeconds"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)


def test_names_lead_to_each_other() -> None:
    stateful, service = of_kind("StatefulSet")["spec"], of_kind("Service")
    labels = POD["metadata"]["labels"]
    assert stateful["serviceName"] == service["metadata"]["name"]
    assert stateful["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports
    assert {CONTAINER[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} <= set(ports)
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == claims


def test_it_runs_the_image_as_it_is_made() -> None:
    exposed = re.search(r"^EXPOSE (.*)$", DOCKERFILE, flags=re.MULTILINE)
    user = re.search(r"^USER (\d+):", DOCKERFILE, flags=re.MULTILINE)
    directory = re.search(r"TIDELOG_LOG_DIRS=(\S+)", DOCKERFILE)
    assert exposed is not None
    assert user is not None
    assert directory is not None
    assert {str(port["containerPort"]) for port in CONTAINER["ports"]} <= set(exposed[1].split())
    assert POD["spec"]["securityContext"]["runAsUser"] == int(user[1])
    assert [mount["mountPath"] for mount in CONTAINER["volumeMounts"]] == [directory[1]]


def environment() -> dict[str, str]:
    """The container's, with what Kubernetes puts in: variables that stand before, in $(…)."""
    found: dict[str, str] = {}
    for one in CONTAINER["env"]:
        value = one.get("value", "shop")  # a field of the pod: its namespace
        found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
    return found


def test_its_settings_are_settings() -> None:
    config = load_config(None, environment(), [])
    assert [str(listener) for listener in config.advertised_listeners] == [
        "PLAINTEXT://tidelog-0.tidelog.shop.svc:9092"
    ]
    assert "tidelog.shop.svc" in config.http_allowed_hosts


def test_variables_of_a_service_of_its_name_change_nothing() -> None:
    """Kubernetes sets them for services that have an address, unless enableServiceLinks is off."""
    links = {"TIDELOG_SERVICE_HOST": "10.0.0.1", "TIDELOG_SERVICE_PORT": "9092", "TIDELOG_PORT": "tcp://10.0.0.1:9092"}
    assert load_config(None, environment() | links, []) == load_config(None, environment(), [])


def test_there_is_one_pod_confined_with_time_to_stop() -> None:
    assert of_kind("StatefulSet")["spec"]["replicas"] == 1
    assert POD["spec"]["terminationGracePeriodSeconds"] >= 60
    assert POD["spec"]["securityContext"]["runAsNonRoot"] is True
    confined = CONTAINER["securityContext"]
    assert confined["readOnlyRootFilesystem"] is True
    assert confined["allowPrivilegeEscalation"] is False
    assert confined["capabilities"]["drop"] == ["ALL"]


def test_probes_ask_for_what_the_daemon_answers(tmp_path: Path) -> None:
    """By a name that a probe uses: the pod's address."""
    import urllib.request

    with Daemon(tmp_path / "data") as daemon:
        for probe in ("readinessProbe", "livenessProbe"):
            with urllib.request.urlopen(f"http://{daemon.http}{CONTAINER[probe]['httpGet']['path']}") as answer:
                assert answer.status == 200
