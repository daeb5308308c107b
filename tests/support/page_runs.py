"""Runs a page's blocks in their order, as a reader would who pastes them: files, daemons, commands; and compares what is printed.

A page that starts a daemon of its own (`<!-- serves -->`) has that one, else there is one with the defaults. Ports are free ones,
in place of the page's in addresses of this machine, and folders of the run's in place of the page's that are elsewhere on a
machine (`_ELSEWHERE`); what is printed has the page's again.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from support.documentation import Block, blocks, printed_as
from support.patience import PATIENCE_S

LANGUAGES = ("sh", "python")
#: An address of this machine with a port, in a page.
_ADDRESS = re.compile(r"\b(127\.0\.0\.1|localhost|0\.0\.0\.0):(\d{4,5})\b")
#: Folders that a page takes for given, each with what has to be in it: a place that is mounted, and one for services' data.
_ELSEWHERE = {"/mnt/nas": "tidelog", "/var/lib": ""}
_PLACE = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, _ELSEWHERE))})(?=/)")
#: What a page means that names no port.
_DEFAULTS = {"TIDELOG_LISTENERS": "PLAINTEXT://127.0.0.1:9092", "TIDELOG_HTTP_LISTENER": "127.0.0.1:9404"}


def has_commands(block: Block) -> bool:
    """True for a block that a reader would paste: Python, a shell's, or indented with a prompt's or a program's line in it."""
    if block.language == "":
        return bool(
            re.search(r"^(\$ |tidelog |make |pip |curl |kcat |docker |kafka-[\\w-]+)", block.text, re.MULTILINE)
        )
    return block.language in (*LANGUAGES, "console")


def needs_run(page: Path) -> list[Block]:
    """The blocks of a page with commands that are neither run nor say why not."""
    if re.search(r"^<!-- none run: \S.* -->$", page.read_text(encoding="utf-8"), re.MULTILINE):
        return []
    return [block for block in blocks(page) if has_commands(block) and not block.marks & {"run", "serves", "not run"}]


class PageRun:
    """One run of a page, in a directory of its own. A context manager: leaving it stops the page's daemon, by its process."""

    def __init__(self, page: Path, directory: Path) -> None:
        self.page = page
        self.directory = directory
        self._blocks = list(blocks(page))
        self._ports: dict[str, str] = {}
        self._daemon: subprocess.Popen[str] | None = None
        self._stderr = directory / "daemon.stderr"
        text = "\n".join(block.text for block in self._blocks if block.marks & {"file", "serves"})
        own = {name for name in _DEFAULTS if f"{name.removeprefix('TIDELOG_').lower().replace('_', '.')}=" in text}
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        # The daemon goes by the page's own listeners where it has any; commands, which have their defaults, by these ports.
        self._commands = os.environ | path | {name: self._here(value) for name, value in _DEFAULTS.items()}
        self._environment = {name: value for name, value in self._commands.items() if name not in own}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self) -> int:
        """Runs all blocks that say so; the number of them. AssertionError with the block's place where one fails."""
        count = 0
        printed = None
        if not any("serves" in block.marks for block in self._blocks):
            self.serve("tidelog serve")
        for block in self._blocks:
            if "file" in block.marks:
                (self.directory / block.note).write_text(self._here(block.text), encoding="utf-8")
            elif "prints" in block.marks:
                assert printed is not None, f"{block.place}: nothing was run before it"
                assert printed_as(block.text, printed), f"{block.place}: printed was\n{printed}"
                printed = None
            elif "serves" in block.marks:
                printed = self.serve(block.text.strip())
                count += 1
            elif "run" in block.marks:
                if "stopped" in block.marks:
                    self.stop()
                printed = self._command(block)
                count += 1
        return count

    def serve(self, command: str) -> str:
        """Starts the daemon by a command line, after the one that ran; its ready line."""
        assert command.startswith("tidelog serve"), command
        self.stop()
        with self._stderr.open("ab") as stderr:
            self._daemon = subprocess.Popen(
                ["bash", "-c", f"exec {self._here(command)}"],
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        assert self._daemon.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._daemon.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + PATIENCE_S
            while not selector.select(1):
                assert time.monotonic() < deadline, f"{self.page.name}: '{command}' is not ready:\n{self._said()}"
        line = self._daemon.stdout.readline()
        assert line.startswith("ready "), f"{self.page.name}: '{command}' did not start:\n{self._said()}"
        return self._as_the_page_says(line)

    def stop(self) -> None:
        """Stops the daemon as Ctrl-C does, and waits for it."""
        if self._daemon is None:
            return
        daemon, self._daemon = self._daemon, None
        daemon.send_signal(signal.SIGINT)
        try:
            code = daemon.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
            raise
        finally:
            if daemon.stdout is not None:
                daemon.stdout.close()
        assert code == 0, f"{self.page.name}: the daemon ended with {code}:\n{self._said()}"

    def _command(self, block: Block) -> str:
        text = self._here(block.text)
        command = {"sh": ["bash", "-eo", "pipefail", "-c", text], "python": [sys.executable, "-c", text]}[
            block.language
        ]
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment if self._daemon is None else self._commands,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{block.place}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return self._as_the_page_says(done.stdout)

    def _said(self) -> str:
        return self._stderr.read_text(encoding="utf-8", errors="replace")[-4000:]

    def _here(self, text: str) -> str:
        """A page's text with addresses and folders of this run."""
        text = _PLACE.sub(lambda found: self._folder(found[1]), text)
        return _ADDRESS.sub(lambda found: f"{found[1]}:{self._port(found[2])}", text)

    def _folder(self, said: str) -> str:
        folder = self.directory / "elsewhere" / said.strip("/")
        (folder / _ELSEWHERE[said]).mkdir(parents=True, exist_ok=True)
        return str(folder)

    def _as_the_page_says(self, text: str) -> str:
        for said, real in self._ports.items():
            text = text.replace(f":{real}", f":{said}")
        return text.replace(str(self.directory / "elsewhere"), "")

    def _port(self, said: str) -> str:
        """A port that nothing listens on, below those that the system gives to outgoing connections."""
        while said not in self._ports:
            port = random.randrange(10_000, 32_000)
            with socket.socket() as free, contextlib.suppress(OSError):
                free.bind(("127.0.0.1", port))
                self._ports[said] = str(port)
        return self._ports[said]
