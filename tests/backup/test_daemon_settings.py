"""A daemon whose store is named by settings: on a real S3 server, with right and wrong credentials, without its bucket, and with
a clock that is off. It serves in any case, and says in one sentence what is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.object_stores import BUCKET, KEYS, Versitygw
from support.patience import PATIENCE_S
from tidelog.backup.store import Denied, StoreOptions, open_store

SETTINGS = {
    "backup.region": "us-east-1",
    "backup.access.key.id": KEYS["access_key_id"],
    "backup.secret.access.key": KEYS["secret_access_key"],
    "backup.interval.ms": 200,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    with Versitygw(tmp_path_factory.mktemp("versitygw")) as made:
        yield made


@pytest.fixture(autouse=True)
def no_credentials_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


def answer(daemon: Daemon, path: str, word: str) -> str:
    text = ""
    deadline = time.monotonic() + PATIENCE_S
    while word not in text and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{daemon.http}{path}", timeout=PATIENCE_S) as got:
                text = got.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        time.sleep(0.05)
    assert word in text, text
    return text


def test_settings_are_all_it_takes(server: Versitygw, tmp_path: Path) -> None:
    settings = SETTINGS | {"backup.url": f"s3://{BUCKET}/by-settings", "backup.endpoint": server.endpoint}
    with Daemon(tmp_path / "data", settings) as daemon:
        answer(daemon, "/metrics", "tidelog_backup_cuts_total 1.0")
        arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "tidelog.broker", "backup", "status", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"s3://{BUCKET}/by-settings: ")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"backup.secret.access.key": "not-the-secret"},
            "look at the credentials, the region and the rights on this bucket and prefix",
        ),
        ({"backup.access.key.id": "nobody"}, "look at the credentials"),
        ({"backup.url": f"s3://{BUCKET}-missing/x"}, "the bucket is not there: make it, or correct the URL"),
    ],
    ids=["secret", "key", "bucket"],
)
def test_a_store_that_refuses_is_told_in_a_sentence_while_the_daemon_serves(
    server: Versitygw, tmp_path: Path, wrong: dict[str, str], sentence: str
) -> None:
    settings = SETTINGS | {"backup.url": f"s3://{BUCKET}/refused", "backup.endpoint": server.endpoint} | wrong
    with Daemon(tmp_path / "data", settings) as daemon:
        text = answer(daemon, "/health", "backup_behind")
        assert sentence in text
        assert f'"subject": "{settings["backup.url"]}"' in text
        lines = [line for line in (tmp_path / "data.stderr").read_text().splitlines() if "backup waits" in line]
        assert len(lines) == 1
        assert sentence in lines[0]
        assert "not-the-secret" not in (tmp_path / "data.stderr").read_text()


class Skewed(BaseHTTPRequestHandler):
    """Answers as Amazon does to a request whose time is off."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = (
            b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>RequestTimeTooSkewed</Code><Message>The difference '
            b"between the request time and the current time is too large.</Message><RequestTime>20260101T000000Z"
            b"</RequestTime><ServerTime>2026-01-01T00:20:00Z</ServerTime></Error>"
        )
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        pass


def test_a_clock_that_is_off_is_told_with_the_stores_time() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Skewed) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_address[1]}"
            options = StoreOptions(
                endpoint=endpoint, allow_http=True, access_key_id="k", secret_access_key="s", retries=0
            )
            with pytest.raises(Denied) as caught:
                open_store("s3://bucket/x", options).create("a", b"")
        finally:
            server.shutdown()
            thread.join()
    assert str(caught.value) == (
        "create s3://bucket/x/a: 403 RequestTimeTooSkewed; set this machine's clock, which is off: the store's says "
        "2026-01-01T00:20:00Z"
    )


def test_a_daemon_with_a_backup_stays_within_64_mib_of_one_without(server: Versitygw, tmp_path: Path) -> None:
    """Segments of 64 MiB go whole, three at a time, while others are packed: the peak of memory beside that of the same load
    without a backup.
    """
    program = (
        "import sys, threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from pathlib import Path\n"
        "from tidelog.backup.store.opening import open_store, options_of\n"
        "from tidelog.config.loader import load_config\n"
        "from tidelog.backup.cut.writer import UPLOADERS\n"
        "def peak(): return int(next(l for l in Path('/proc/self/status').read_text().splitlines() if 'VmHWM' in l).split()[1])\n"
        "config = load_config(None, {}, sys.argv[1:])\n"
        "store = open_store(config.backup_url, options_of(config))\n"
        "store.upload('warm', 1 << 20, [bytes(1 << 20)])\n"
        "before = peak()\n"
        "def send(name):\n"
        "    store.upload(name, 96 << 20, (bytes(1 << 20) for _ in range(96)))\n"
        "with ThreadPoolExecutor(UPLOADERS + 2) as pool:\n"
        "    list(pool.map(send, [f'large/{n}' for n in range(UPLOADERS + 2)]))\n"
        "print(peak() - before)\n"
    )
    settings = SETTINGS | {"backup.url": f"s3://{BUCKET}/memory", "backup.endpoint": server.endpoint}
    arguments = [f"{name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    print(f"peak of {int(done.stdout) >> 10} MiB")
    assert int(done.stdout) < 64 << 10  # KiB
