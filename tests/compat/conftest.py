"""The compat ring: real clients against one daemon for the whole run, every test bounded in time."""

from __future__ import annotations

import random
import shlex
import shutil
import signal
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.base import random_name
from support.daemon import DEFAULT_COMMAND, Daemon
from support.kafka_versions import NEWEST
from support.patience import PATIENCE_S, until

TEST_TIMEOUT_S = 900
SETTINGS: dict[str, str | int] = {
    # Three seconds of waiting for more members would be most of each group test.
    "group.initial.rebalance.delay.ms": 0,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat")
    group.addoption("--bootstrap", metavar="HOST:PORT", help="a running broker to test instead of a daemon of our own")
    group.addoption(
        "--server-command",
        metavar="COMMAND",
        help="another server to start in the daemon's place; takes --set name=value, prints the same ready line",
    )
    group.addoption("--kill-rounds", type=int, default=3, help="rounds of kill -9 in test_kill.py")
    group.addoption(
        "--kill-seed", default="1", metavar="N|random", help="seed of the moments of kills and of what is written"
    )
    group.addoption(
        "--old-clients", choices=["slice", "all"], default="slice", help="which of the clients of before 2019 to run"
    )
    group.addoption(
        "--java-clients",
        default=NEWEST,
        metavar="RELEASE",
        help="release of Apache Kafka's clients that test_java.py runs",
    )
    group.addoption("--whole-suites", action="store_true", help="all of the suites of which a few cases are run else")
    group.addoption(
        "--rights-users",
        type=int,
        default=8,
        help="users with rules by chance, beside those of every kind, against Kafka",
    )
    group.addoption("--write-compatibility", action="store_true", help="put what was found into docs/COMPATIBILITY.md")
    group.addoption(
        "--newest-kafka",
        choices=["warn", "fail"],
        default="warn",
        help="what to do if Kafka's newest release on Maven has what is not here",
    )
    group.addoption(
        "--compaction-kill-s", type=float, default=0, help="seconds of kill -9 under Kafka's compaction tester"
    )


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python leaves sockets to the garbage collector when a connection ends while it closes.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    config.addinivalue_line("filterwarnings", "default:Kafka's newest release:UserWarning")


@pytest.fixture(autouse=True)
def time_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that hangs; `@pytest.mark.usefixtures` cannot say more, so a module may set TEST_TIMEOUT_S."""
    limit_s: int = getattr(request.module, "TEST_TIMEOUT_S", TEST_TIMEOUT_S)

    def expired(_signal: int, _frame: types.FrameType | None) -> None:
        pytest.fail(f"not finished within {limit_s} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(limit_s)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """The same on every machine unless --kill-seed says otherwise: a failure is a seed plus a commit."""
    given: str = pytestconfig.getoption("--kill-seed")
    chosen = random.SystemRandom().randrange(1 << 32) if given == "random" else int(given)
    print(f"--kill-seed {chosen}")
    return chosen


@pytest.fixture(scope="session")
def server_command(pytestconfig: pytest.Config) -> Sequence[str]:
    command: str | None = pytestconfig.getoption("--server-command")
    return shlex.split(command) if command else DEFAULT_COMMAND


@pytest.fixture(scope="session")
def daemon(
    pytestconfig: pytest.Config, server_command: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon | None]:
    """The one daemon of the run; None when --bootstrap names a broker that is none of ours."""
    if pytestconfig.getoption("--bootstrap"):
        yield None
        return
    with Daemon(tmp_path_factory.mktemp("compat") / "data", SETTINGS, command=server_command) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config, daemon: Daemon | None) -> str:
    return daemon.bootstrap if daemon is not None else str(pytestconfig.getoption("--bootstrap"))


@pytest.fixture(scope="session")
def make_topic(bootstrap: str) -> Callable[..., str]:
    """make_topic(stem, partitions=1, **settings) -> the name of a new topic; settings with _ for the dots.

    Without a time limit: the tests write records that are years old, which retention would rightly delete.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(stem: str, partitions: int = 1, **settings: object) -> str:
        name = random_name(stem)
        config = {setting.replace("_", "."): str(value) for setting, value in {"retention_ms": -1, **settings}.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(PATIENCE_S)
        # Apache Kafka answers before every part of it knows the topic.
        until(lambda: _partitions(admin, name) == partitions, f"{name} is in the metadata")
        return name

    return make


def _partitions(admin: AdminClient, name: str) -> int:
    topic = admin.list_topics(name, 10).topics[name]
    return 0 if topic.error else sum(p.leader >= 0 for p in topic.partitions.values())


@pytest.fixture(scope="session")
def kcat_program() -> str:
    program = shutil.which("kcat")
    if program is None:
        pytest.fail("kcat is not installed: run `make compat-tools`")
    return program


@pytest.fixture
def data_directory(tmp_path: Path) -> Path:
    """For a daemon of a test's own."""
    return tmp_path / "data"
