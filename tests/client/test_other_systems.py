"""Without anything that Linux alone has, the daemon serves, cleans and starts again (support/other_system.py).

macOS itself is not tested: what it does in its own way beyond this is not known here.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from support import other_system
from support.certificates import authority_in
from support.daemon import Daemon
from support.patience import PATIENCE_S

PROGRAM = (sys.executable, other_system.__file__)
RECORDS = 3000


def command(*words: str, stdin: bytes = b"") -> bytes:
    """Output of a command without Linux's calls, which has to end well."""
    done = subprocess.run([*PROGRAM, *words], input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("pem")
    authority_in(folder)
    text = (folder / "server.pem").read_text()
    begin = text.index("-----BEGIN CERTIFICATE")
    settings = {
        "event.loop": request.param,
        "log.segment.bytes": 16384,
        "log.cleaner.backoff.ms": 50,
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.key": text[:begin],
        "ssl.keystore.certificate.chain": text[begin:],
    }
    with Daemon(tmp_path_factory.mktemp("other") / "data", settings, command=(*PROGRAM, "serve")) as running:
        yield running


def test_records_come_back_over_restart_kill_and_cleaning(daemon: Daemon) -> None:
    at = ("--bootstrap-server", daemon.bootstrap)
    command(
        "topics", "create", "t", "--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0", *at
    )
    lines = [f"k{number % 7}:{number:06} {'x' * 60}" for number in range(RECORDS)]
    command("produce", "t", "--key-separator", ":", *at, stdin="\n".join(lines).encode())

    def whole() -> list[str]:
        return (
            command("consume", "t", "--from-beginning", "--until-end", "--key-separator", ":", *at)
            .decode()
            .splitlines()
        )

    assert whole()[-7:] == lines[-7:], "large answers, by sendfile and from the page cache"
    command("clean", "t", "--wait", "--http", daemon.http)  # rolls the active segment first
    assert sorted(whole()) == sorted(lines[-7:]), "the cleaner's files replaced the others"
    daemon.restart()
    at = ("--bootstrap-server", daemon.bootstrap)
    command("produce", "t", "--key-separator", ":", *at, stdin=b"last:one")
    daemon.kill()
    daemon.start()
    at = ("--bootstrap-server", daemon.bootstrap)
    assert whole()[-1] == "last:one"
    assert "Traceback" not in daemon.stderr()


def test_the_directory_is_locked(daemon: Daemon) -> None:
    refused = subprocess.run(
        [*PROGRAM, "serve", "--set", f"log.dirs={daemon.directory}", "--set", "listeners=PLAINTEXT://127.0.0.1:0",
         "--set", "http.listener=127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "another process has this data directory open" in refused.stderr


def test_pages_metrics_and_the_doctor_have_what_the_system_tells(daemon: Daemon) -> None:
    for path in ("/", "/metrics", "/health"):
        with urllib.request.urlopen(f"http://{daemon.http}{path}", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
            assert answer.read()
    doctor = [*PROGRAM, "doctor", "--set", f"log.dirs={daemon.directory}"]
    said = subprocess.run(doctor, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "Traceback" not in said.stderr
    assert " ok, " in said.stdout
