"""The recipes of CONTRIBUTING.md, each followed to the letter in a copy of the checkout, and what has come of it.

A recipe that leaves a step out fails here: the tests that it names are run in the copy. A file that is edited here, and that
the recipe does not lead to, fails too. `make prometheus` runs this with the other tests of operation; about 15 seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from support.daemon import Daemon

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing")
RECIPES = (
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## How to add …\n")[2].partition("\n## ")[0]
)


def recipe(name: str) -> str:
    """The text below **An API …** up to the next such line."""
    found = re.search(rf"^\*\*An? {name}\b.*?(?=^\*\*A|\Z)", RECIPES, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return found[0]


class Copy:
    """A checkout in which somebody follows a recipe."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.recipe = recipe(name)
        for folder in (*PACKAGES, "docs", "tests/unit", "tests/support"):
            shutil.copytree(ROOT / folder, path / folder, symlinks=True)
        for file in (
            "pyproject.toml",
            "tests/conftest.py",
            "tests/golden/kafka-settings.tsv",
            "tests/client/test_permissions.py",
        ):
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, path / file)
        packages = path / "packages" / "tidelog"
        packages.mkdir(parents=True)
        for package in PACKAGES:
            (packages / package).symlink_to(path / package)
        self.environment = {**os.environ, "PYTHONPATH": f"{path / 'packages'}{os.pathsep}{path / 'docs'}"}

    def _is_led_to(self, file: str) -> bool:
        """Whether the recipe names the file, by its path, by its folder, or as NAME.py."""
        folder, _, name = file.rpartition("/")
        ways = (f"`{file}`", f"`{folder}/`", f"`{folder}/NAME.py`", f"{folder}/{name}")
        return any(way in self.recipe for way in ways)

    def write(self, file: str, text: str) -> None:
        """A file that was not there."""
        assert self._is_led_to(file), f"the recipe does not say {file}"
        assert not (self.path / file).exists()
        (self.path / file).write_text(text, encoding="utf-8")

    def insert(self, file: str, after: str, text: str) -> None:
        """`text` behind the first place where `after`, a regular expression, matches."""
        assert self._is_led_to(file), f"the recipe does not say {file}"
        source = (self.path / file).read_text(encoding="utf-8")
        place = re.search(after, source, flags=re.MULTILINE)
        assert place is not None, f"{file}: there is no {after}"
        changed = source[: place.end()] + text + source[place.end() :]
        (self.path / file).unlink()
        (self.path / file).write_text(changed, encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """What Python prints in the copy, with nothing of the checkout in its way."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def make_docs(self) -> None:
        """As `make docs`, without the pictures."""
        assert "`make docs`" in self.recipe
        self.run("-m", "tidelog.config.render")
        for page in ("metrics_page", "permissions_page"):
            self.run("-m", f"generate.{page}")

    def test(self, *files: str, only: str = "") -> None:
        """Tests that the recipe names, in the copy; `only` those with these words in their names."""
        for file in files:
            assert Path(file).name in self.recipe, f"the recipe does not name {file}"
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *files, "-k", only)

    def daemon(self, directory: Path, **settings: str) -> Daemon:
        """The copy's daemon, not started."""
        paths = f"PYTHONPATH={self.environment['PYTHONPATH']}"
        command = ("env", paths, sys.executable, "-m", "tidelog.broker", "serve")
        return Daemon(directory, {name.replace("_", "."): value for name, value in settings.items()}, command=command)

    def page(self, path: Path) -> str:
        """What stands in a generated page."""
        return (self.path / path).read_text(encoding="utf-8")


def get(daemon: Daemon, path: str) -> str:
    with urllib.request.urlopen(f"http://{daemon.http}{path}", timeout=60) as answer:
        return str(answer.read().decode())


LOAD = """
import sys
from tidelog.config import loader
try:
    print(loader.load_config(None, {"TIDELOG_TIDE_HEIGHT_MAX": sys.argv[1]}).tide_height_max, loader.__file__)
except loader.ConfigError as error:
    print(error)
"""


@pytest.mark.timeout(120)
def test_a_setting(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy", "setting")
    copy.insert(
        "config/table/limits.py",
        r"^LIMIT_ROWS: .*\n",
        '    Setting("tide.height.max", type=INT, default=7, allowed=between(0, 12), group=Group.NETWORK, own=True,\n'
        '            doc="How high the tide may be."),\n',
    )
    copy.insert("config/broker_config.py", r"^    max_connections: int\n", "    tide_height_max: int\n")
    copy.insert("config/when_to_change.py", r"^WHEN: .*\n", '    ("tide.height.max", "The moon is near."),\n')
    copy.make_docs()
    assert "#### tide.height.max" in copy.page(Path("docs/SETTINGS.md"))
    assert "#tide.height.max=7" in copy.page(Path("docs/server.properties.sample"))
    copy.test(
        *(f"tests/unit/config/test_{name}.py" for name in ("definitions", "broker_config", "log_config", "render"))
    )
    assert copy.run("-c", LOAD, "9").split() == ["9", str(copy.path / "packages/tidelog/config/loader.py")]
    assert "tide.height.max" in copy.run("-c", LOAD, "13")
    assert "tide.height.max" in copy.run("-m", "tidelog.broker", "settings")


MESSAGES = '''"""AllocateProducerIds (67): producer ids in blocks."""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, int16, int32, int64


class AllocateProducerIdsRequest(ApiMessage):
    """Who asks."""

    API_KEY = ApiKey.ALLOCATE_PRODUCER_IDS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(ApiMessage):
    """A block."""

    API_KEY = ApiKey.ALLOCATE_PRODUCER_IDS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
'''
HANDLER = '''"""AllocateProducerIds, API key 67, version 0: a block of ids, always the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    (0, 0),
    AllocateProducerIdsRequest,
    requires=(requires_cluster(AclOperation.CLUSTER_ACTION),),
)
def allocate_producer_ids(request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=1000 * request.broker_id, producer_id_len=1000)
'''
ASK = """
import sys
from tidelog.clients.kafka.connection import Connection, ConnectionSettings
from tidelog.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
host, _, port = sys.argv[1].rpartition(":")
connection = Connection((host, int(port)), ConnectionSettings(), explain=lambda failure: failure.fact)
answer = connection.request(AllocateProducerIdsRequest(broker_id=7), AllocateProducerIdsResponse)
print(connection.versions[67], answer.error_code, answer.producer_id_start)
"""


@pytest.mark.timeout(120)
def test_an_api(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy", "API")
    copy.write("protocol/messages/allocate_producer_ids.py", MESSAGES)
    copy.write("broker/apis/allocate_producer_ids.py", HANDLER)
    copy.insert("broker/requests/registry.py", r"^ON_DEMAND: .*\n", "    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),\n")
    copy.insert(
        "tests/support/permission_cases.py",
        r"^CASES: .*\n",
        "    Case(ApiKey.ALLOCATE_PRODUCER_IDS, plain(broker_id=7)),\n",
    )
    copy.make_docs()
    assert "| AllocateProducerIds | `CLUSTER_ACTION` cluster |" in copy.page(Path("docs/ACCESS_CONTROL.md"))
    requests = "tests/unit/broker/requests"
    tests = (f"{requests}/test_registry.py", f"{requests}/test_audit_text.py", f"{requests}/test_mirrored_errors.py")
    # test_start_up.py looks at the installed packages only, wherever it stands
    copy.test(*tests, "tests/unit/generate/test_permissions_page.py")
    copy.test("tests/client/test_permissions.py", only="without_a_case or AllocateProducerIds")
    with copy.daemon(tmp_path / "data") as daemon:
        assert copy.run("-c", ASK, daemon.bootstrap).strip() == "(0, 0) 0 7000"


@pytest.mark.timeout(120)
def test_a_metric(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy", "metric")
    copy.insert(
        "broker/monitoring/daemon.py",
        r"^def build_metrics\(\)(?:.*\n)+?    return \(\n",
        '        Metric("tidelog_build_tide_bytes", GAUGE, "How high the tide is.", lambda _: 7),\n',
    )
    copy.make_docs()
    assert "| `tidelog_build_tide_bytes` | gauge |  | How high the tide is. |" in copy.page(Path("docs/METRICS.md"))
    copy.test("tests/unit/generate/test_metrics_page.py")
    with copy.daemon(tmp_path / "data") as daemon:
        scraped = get(daemon, "/metrics")
    assert "\n# HELP tidelog_build_tide_bytes How high the tide is.\n" in scraped
    assert "\ntidelog_build_tide_bytes 7.0\n" in scraped


PAGE = '''"""The tide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..layout import document, quiet

if TYPE_CHECKING:
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState


def tide(state: ConsoleState, request: PageRequest) -> Page:
    """How high it is."""
    return document(state, request, "Tide", quiet("High water is at noon."))
'''


@pytest.mark.timeout(120)
def test_a_page_of_the_console(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy", "page of the console")
    copy.write("broker/http/console/pages/tide.py", PAGE)
    copy.insert(
        "broker/http/console/routes.py", r"^ROUTES = \(\n", '    Route("tide.tide", "/tide", "/tide", "/tide"),\n'
    )
    copy.insert("broker/http/console/routes.py", r"^SECTIONS = \(\n", '    ("/tide", "Tide"),\n')
    copy.insert("docs/CONSOLE.md", r"^\| page \| what \|\n\| --- \| --- \|\n", "| `/tide` | how high it is |\n")
    copy.test("tests/unit/broker/http/console/test_routes.py", "tests/unit/broker/http/console/test_front.py")
    with copy.daemon(tmp_path / "data") as daemon:
        assert "High water is at noon." in get(daemon, "/tide")
        assert 'href="/tide"' in get(daemon, "/")


def test_each_recipe_is_followed_here() -> None:
    names = re.findall(r"^\*\*An? ([\w ]+)", RECIPES, flags=re.MULTILINE)
    assert names == ["setting", "API", "metric", "page of the console"]
