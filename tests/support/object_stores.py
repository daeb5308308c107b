"""Real servers of objects for tests: moto's S3 in a process of its own, versitygw over a directory, s3rver of Node's.

    with MotoServer() as server:
        store = open_store(server.url, server.options)

Run as a program it is moto's server, one request at a time; with `ignore` as its argument, one that ignores If-None-Match.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.patience import until
from tidelog.backup.store import StoreOptions

ROOT = Path(__file__).resolve().parents[2]
VERSITYGW = ROOT / ".cache" / "backup" / "versitygw"
S3RVER = ROOT / ".cache" / "backup" / "s3rver" / "node_modules" / "s3rver" / "bin" / "s3rver.js"
S3RVER_KEYS = {"access_key_id": "S3RVER", "secret_access_key": "S3RVER"}
BUCKET = "tidelog-test"
KEYS = {"access_key_id": "test-key", "secret_access_key": "test-secret"}
PART_BYTES = 5 << 20


class Server:
    """A process that serves S3 on 127.0.0.1 with a bucket. `kill` and `start` may be called in turn; the port stays."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/backups/one"

    @property
    def options(self) -> StoreOptions:
        """Patient with a busy machine; parts as small as S3 allows."""
        return StoreOptions(
            endpoint=self.endpoint,
            region="us-east-1",
            allow_http=True,
            part_bytes=PART_BYTES,
            timeout_s=120,
            retries=3,
            **KEYS,
        )

    def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        """As by kill -9; a second call does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class MotoServer(Server):
    """moto's S3, in memory: a new one has no objects."""

    def __init__(self, *, ignores_conditions: bool = False) -> None:
        super().__init__()
        self._arguments = ["ignore"] if ignores_conditions else []

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "moto's server does not start: run this module as a program"
        self.port = int(line)
        request = urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=120).close()


class Versitygw(Server):
    """versitygw over `root`, which stays from one start to the next. A directory in it is a bucket."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root / "gateway"
        self._sidecar = root / "sidecar"
        (self.root / BUCKET).mkdir(parents=True, exist_ok=True)
        self._sidecar.mkdir(exist_ok=True)

    def start(self) -> None:
        def answers() -> bool:
            if not self.is_running():
                # Somebody else took the port in between.
                self._launch()
            try:
                urllib.request.urlopen(f"{self.endpoint}/health", timeout=5).close()
            except urllib.error.HTTPError:
                return False
            except OSError:
                return False
            return True

        until(answers, "versitygw answers")

    def _launch(self) -> None:
        self.kill()
        if not self.port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [
                str(VERSITYGW),
                *("--port", f"127.0.0.1:{self.port}", "--health", "/health", "--quiet", "--region", "us-east-1"),
                *("--access", KEYS["access_key_id"], "--secret", KEYS["secret_access_key"]),
                *("posix", "--sidecar", str(self._sidecar), str(self.root)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


class S3rver(Server):
    """npm's s3rver over `root`. It takes every object as told, whatever If-None-Match says."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    @property
    def options(self) -> StoreOptions:
        return replace(super().options, **S3RVER_KEYS)

    def start(self) -> None:
        def answers() -> bool:
            if not self.is_running():
                # Somebody else took the port in between.
                self._launch()
            try:
                urllib.request.urlopen(self.endpoint, timeout=5).close()
            except urllib.error.HTTPError:
                return True
            except OSError:
                return False
            return True

        until(answers, "s3rver answers")

    def _launch(self) -> None:
        self.kill()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [
                *("node", str(S3RVER), "--directory", str(self.root), "--address", "127.0.0.1"),
                *("--port", str(self.port), "--silent", "--configure-bucket", BUCKET),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def main(arguments: list[str]) -> None:
    """Serves until killed. Its port is the first line that it prints."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application: Any = DomainDispatcherApplication(create_backend_app)
    if "ignore" in arguments:
        inner = application

        def forgetful(environ: dict[str, Any], start_response: Any) -> Any:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            return inner(environ, start_response)

        application = forgetful
    server = make_server("127.0.0.1", 0, application, threaded=False)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
