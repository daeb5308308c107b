"""`tidelog service print|install`: the daemon as a systemd service, confined to its own directories.

`print` writes the unit to stdout. `install` makes the user, writes the unit to /etc/systemd/system and has systemd read it;
it starts nothing. Both take the settings of `tidelog serve`; more of them may stand in /etc/default/NAME, as TIDELOG_* variables.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .serve import add_configuration

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

UNITS = Path("etc/systemd/system")
WATCHDOG_S = 60
"""As long as /health/live has patience."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}")

_UNIT = """\
# Written by `tidelog service`. Changes belong into a drop-in: systemctl edit {name}
[Unit]
Description=tidelog: Kafka's log as a small daemon
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}EnvironmentFile=-/etc/default/{name}
User={user}
Group={user}
StateDirectory={name}
StateDirectoryMode=0750
WorkingDirectory=/var/lib/{name}
UMask=0027

# SIGTERM stops it cleanly. Recovery and a clean stop ask for more time while they go on; a loop that hangs ends by the watchdog.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStartSec=90
TimeoutStopSec=90
WatchdogSec={watchdog_s}
Restart=on-failure
RestartSec=2

# Each connection and each open segment is a descriptor.
LimitNOFILE=1048576
OOMScoreAdjust=-500

# What it may touch: its own directories. No capability, no device, no other process, no sockets but of IP and local ones.
ProtectSystem=strict
{paths}ProtectHome={home}
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


class Service(NamedTuple):
    """What the unit is made of."""

    name: str
    user: str
    command: Sequence[str]
    #: Where logs are kept; relative ones are below `home`.
    directories: Sequence[str]
    #: False if no setting says where: then it is `home`, unless /etc/default says something else.
    names_directories: bool
    #: Where its Python is.
    prefix: str
    #: Directory that it backs itself up to; None if there is none.
    backup: Path | None = None

    @property
    def home(self) -> Path:
        """Its own directory, which systemd makes for its user."""
        return Path("/var/lib") / self.name

    @property
    def elsewhere(self) -> list[Path]:
        """The directories of logs that are not in `home`."""
        return [path for directory in self.directories if not (path := self.home / directory).is_relative_to(self.home)]

    @property
    def writable(self) -> list[str]:
        """What it writes to outside of `home`, as ReadWritePaths= has it. Of a backup, a share that is not mounted is no
        reason not to start: "-".
        """
        paths = [str(path) for path in self.elsewhere]
        if self.backup is not None and not self.backup.is_relative_to(self.home):
            paths.append(f"-{self.backup}")
        return paths

    @property
    def in_homes(self) -> list[str]:
        """What it needs that lies in the home directory of somebody."""
        backup = [] if self.backup is None else [self.backup]
        needed = [self.command[0], self.prefix, *self.command[2:], *map(str, (*self.elsewhere, *backup))]
        return [path for path in needed if path.startswith(("/home/", "/root/"))]


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("service", help="the daemon as a systemd service", description=__doc__)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, run, summary in (
        ("print", run_print, "write the unit to stdout"),
        ("install", run_install, "make the user and write the unit; needs root"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.set_defaults(run=run)
        add_configuration(action)
        action.add_argument(
            "--name", default="tidelog", type=_name, help="of unit and data directory (default: tidelog)"
        )
        action.add_argument("--user", type=_name, help="who it runs as (default: the service's name)")
        if name == "install":
            action.add_argument(
                "--root", metavar="DIR", type=Path, default=Path("/"),
                help="write below DIR alone, for an image or a package: no user is made, no systemd is told",
            )  # fmt: skip


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: lower-case letters, digits, - and _, at most 31")
    return text


def run_print(options: Any) -> int:
    print(unit_text(service_of(options)), end="")
    return 0


def run_install(options: Any) -> int:
    service = service_of(options)
    path = options.root / UNITS / f"{service.name}.service"
    is_here = options.root.resolve() == Path("/")
    if is_here and os.geteuid() != 0:
        raise PermissionError(
            errno.EPERM, "only root makes users and units (sudo); `--root DIR` writes the unit elsewhere"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_here:
        _make_user(service)
    path.write_text(unit_text(service), encoding="utf-8")
    print(f"wrote {path}")
    if is_here and Path("/run/systemd/system").is_dir():
        _run("systemctl", "daemon-reload")
    if service.in_homes:
        print(f"the user {service.user} has to be able to read {service.in_homes[0]}", file=sys.stderr)
    print(f"start it now and with the machine: systemctl enable --now {service.name}")
    print(f"its log lines: journalctl -u {service.name}")
    return 0


def service_of(options: Any) -> Service:
    """The service that the options ask for. Raises ConfigError, or StoreError, as `tidelog serve` would with these settings."""
    from ..config.loader import load_config

    file = None if options.config is None else options.config.resolve()
    config = load_config(file, {}, options.assignments)
    names = "log.dirs" in config.given or "log.dir" in config.given
    command = [
        *_program(),
        "serve",
        *([] if file is None else ["--config", str(file)]),
        *(word for assignment in options.assignments for word in ("--set", assignment)),
    ]
    backup = None
    if config.backup_url.startswith("file://"):
        from ..backup.store.opening import path_of

        backup = Path(os.path.normpath(path_of(config.backup_url)))
    directories = config.log_dirs if names else ()
    return Service(options.name, options.user or options.name, command, directories, names, sys.base_prefix, backup)


def _program() -> list[str]:
    """This installation's `tidelog`, absolute; links are kept, so that an upgrade behind one is followed."""
    script = Path(sys.prefix) / "bin" / "tidelog"
    return [str(script)] if script.exists() else [sys.executable, "-m", "tidelog.broker"]


def unit_text(service: Service) -> str:
    """The unit."""
    return _UNIT.format(
        name=service.name,
        user=service.user,
        command=" ".join(_quoted(word) for word in service.command),
        environment="" if service.names_directories else f"Environment=TIDELOG_LOG_DIRS={service.home}\n",
        watchdog_s=WATCHDOG_S,
        paths="".join(f"ReadWritePaths={_quoted(path, dollar='$')}\n" for path in service.writable),
        home="read-only" if service.in_homes else "yes",
    )


def _quoted(word: str, *, dollar: str = "$$") -> str:
    """A word of ExecStart=: systemd's specifiers, variables, quotes, blanks and ends of lines mean themselves. `dollar`: how
    to write one; only commands have variables.
    """
    word = word.replace("%", "%%").replace("$", dollar)
    if re.fullmatch(r"[\w%$./:=,@+-]+", word):
        return word
    return f'"{word.translate(_ESCAPES)}"'


def _make_user(service: Service) -> None:
    """A system user of that name, unless there is one."""
    import pwd

    try:
        pwd.getpwnam(service.user)
    except KeyError:
        _run(
            "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", f"/var/lib/{service.name}",
            "--shell", "/usr/sbin/nologin", service.user,
        )  # fmt: skip
        print(f"made the system user {service.user}")


def _run(*command: str) -> None:
    """Raises OSError with the command's own words when it fails."""
    import subprocess

    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603  # ours
    if done.returncode:
        raise OSError(done.returncode, done.stderr.strip() or f"{command[0]} failed", command[0])
