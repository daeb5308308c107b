"""Runs the suites of tests/compat that need nothing but an address, case by case, against the daemon and against Apache
Kafka, and writes the table of docs/COMPATIBILITY.md and the report of the run:

    python tests/support/client_suites.py [--only NAME[,NAME]] [--write]        or all of them: make compat-report

Exit status 1 when a case that passes against Apache Kafka does not pass here and `EXPLAINED` does not say why, or when a suite
has no cases. Both brokers run on this machine with default settings, but for `SETTINGS`, one after the other for each suite.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.compatibility import table, write_table  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.kafka_broker import kafka  # noqa: E402
from support.kafka_versions import NEWEST, PREVIOUS, TOOLS  # noqa: E402

REPORT = ROOT / "docs" / "reports" / "clients.md"
STORE = ROOT / "docs" / "reports" / "clients.json"
TABLE = "client suites"
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""Three seconds of waiting for more members would be most of each group's case."""
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Suite(NamedTuple):
    """Every case of tests/compat/test_MODULE.py, each of which takes `--bootstrap`; `options` are more words for pytest.

    `name` is the module too, unless the module has several suites.
    """

    name: str
    what: str
    module_of_several: str = ""
    options: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return self.module_of_several or self.name


SUITES = (
    Suite("librdkafka", "confluent-kafka, on librdkafka: C, C++, Python, Go, .NET, Rust"),
    Suite("java", f"Kafka's Java clients {NEWEST}"),
    Suite("java_previous", f"Kafka's Java clients {PREVIOUS}", "java", ("--java-clients", PREVIOUS)),
    Suite("kafka_tools", f"Kafka's own programs {TOOLS}"),
    Suite("kafka_python", "kafka-python 3"),
    Suite("aiokafka", "aiokafka"),
    Suite("franz_go", "franz-go (kgo, kadm)"),
    Suite("sarama", "sarama's own functional tests"),
    Suite("node", "kafkajs and @platformatic/kafka"),
    Suite("connect", f"Kafka Connect {TOOLS}, distributed, and MirrorMaker 2"),
    Suite("kcat", "kcat, as a person uses it"),
    Suite("cross", "each of them reads what each of them wrote"),
    Suite("classic_groups", "the classic group protocol, request by request in each state"),
)

EXPLAINED: Mapping[tuple[str, str], str] = {}
"""(suite, case) → why it does not pass here though it does against Apache Kafka, and what it would take."""


class Outcome(NamedTuple):
    """One suite against one broker: what became of each case, and how long all took."""

    cases: Mapping[str, str]
    seconds: float

    def count(self, result: str) -> int:
        return sum(found == result for found in self.cases.values())


def parsed(report: str) -> dict[str, str]:
    """Results by case of a report in JUnit's format."""
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        children = {child.tag for child in case}
        result = FAILED if children & {"failure", "error"} else SKIPPED if "skipped" in children else PASSED
        found[case.get("name", "?").removeprefix("test_")] = result
    return found


def run(suite: Suite, bootstrap: str, directory: Path) -> Outcome:
    report = directory / f"{suite.name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", f"tests/compat/test_{suite.module}.py"]
    started = time.monotonic()
    arguments = ["--whole-suites", "--bootstrap", bootstrap, f"--junit-xml={report}", *suite.options]
    subprocess.run([*command, *arguments], cwd=ROOT, check=False)
    cases = parsed(report.read_text()) if report.exists() else {}
    return Outcome(cases, time.monotonic() - started)


def score(outcome: Outcome) -> str:
    """`12`, `11 of 12`, `11 of 12, 1 skipped`."""
    passed, skipped, cases = outcome.count(PASSED), outcome.count(SKIPPED), len(outcome.cases)
    text = str(passed) if passed == cases else f"{passed} of {cases}"
    return f"{text}, {skipped} skipped" if skipped else text


def differences(suite: Suite, ours: Outcome, kafkas: Outcome) -> dict[str, str]:
    """Cases whose result is another one against Apache Kafka, each with its explanation; an empty one: there is none."""
    return {
        case: EXPLAINED.get((suite.name, case), "")
        for case in sorted({*ours.cases, *kafkas.cases})
        if ours.cases.get(case) != kafkas.cases.get(case)
    }


def row(ours: Outcome, kafkas: Outcome, found: Mapping[str, str]) -> list[str]:
    """Cases, ours, Apache Kafka's, differences."""
    said = [
        f"`{case}`: {ours.cases.get(case, 'missing')} here, {kafkas.cases.get(case, 'missing')} there"
        + (f": {why}" if why else "")
        for case, why in found.items()
    ]
    return [str(len({*ours.cases, *kafkas.cases})), score(ours), score(kafkas), "; ".join(said) or "none"]


def is_worse(ours: Outcome, kafkas: Outcome, found: Mapping[str, str]) -> bool:
    """Something does not pass here that passes there, without a reason; or nothing was run."""
    unexplained = [case for case, why in found.items() if not why]
    return not ours.cases or any(kafkas.cases.get(case) == PASSED for case in unexplained)


def remembered(store: Path = STORE) -> dict[str, dict[str, Any]]:
    """What the last run of each suite came to, by its name."""
    found: dict[str, dict[str, Any]] = json.loads(store.read_text()) if store.exists() else {}
    return found


def _told(result: Mapping[str, Any]) -> list[str]:
    """A row, whose third cell names the release of Apache Kafka where that is not the one in the head."""
    cases, ours, kafkas, found = result["row"]
    return [cases, ours, kafkas if result["kafka"] == NEWEST else f"{kafkas} ({result['kafka']})", found]


def write(results: Mapping[str, Mapping[str, Any]]) -> None:
    """The store, the report and the table of docs/COMPATIBILITY.md."""
    STORE.parent.mkdir(exist_ok=True)
    STORE.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    known = [suite for suite in SUITES if suite.name in results]
    head = ("cases", "here", f"Apache Kafka {NEWEST}", "differences")
    rows = {f"{suite.what} (`test_{suite.module}.py`)": _told(results[suite.name]) for suite in known}
    write_table(TABLE, table("suite", head, rows))
    figures = {
        suite.name: (
            *_told(results[suite.name])[:3],
            f"{results[suite.name]['seconds'][0]:.0f}",
            f"{results[suite.name]['seconds'][1]:.0f}",
            results[suite.name]["when"],
            results[suite.name]["commit"],
        )
        for suite in known
    }
    head = (*head[:3], "seconds here", "seconds there", "when (UTC)", "commit")
    REPORT.write_text(
        "# Client suites\n\nThe last run of each suite by `make compat-report`, which writes this page and the table in "
        "[COMPATIBILITY.md](../COMPATIBILITY.md).\nThe machine is shared: seconds tell how long one waits, not how fast "
        "a broker is.\n\n" + table("suite", head, figures)
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", help="suites, with commas between; what is known of the others stays")
    parser.add_argument("--write", action="store_true", help="into docs/COMPATIBILITY.md and docs/reports/clients.*")
    options = parser.parse_args(arguments)
    chosen = [suite for suite in SUITES if options.only is None or suite.name in options.only.split(",")]
    results = remembered()
    commit = _commit()  # before what is written below changes the tree
    worse = []
    with tempfile.TemporaryDirectory(prefix="client-suites-") as name:
        directory = Path(name)
        underscored = {setting.replace(".", "_"): value for setting, value in SETTINGS.items()}
        with (
            Daemon(directory / "ours", SETTINGS) as daemon,
            kafka(directory / "kafka", is_new=True, **underscored) as peer,
        ):
            for suite in chosen:
                print(f"=== {suite.name}", flush=True)
                ours, kafkas = (run(suite, address, directory) for address in (daemon.bootstrap, peer))
                found = differences(suite, ours, kafkas)
                results[suite.name] = {
                    "kafka": NEWEST,
                    "row": row(ours, kafkas, found),
                    "seconds": [round(ours.seconds, 1), round(kafkas.seconds, 1)],
                    "when": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M}",
                    "commit": commit,
                }
                print(*results[suite.name]["row"], sep=" | ", flush=True)
                if is_worse(ours, kafkas, found):
                    worse.append(suite.name)
                if options.write:
                    write(results)
    for name in worse:
        print(f"{name}: not what Apache Kafka scores", file=sys.stderr)
    return 1 if worse else 0


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
