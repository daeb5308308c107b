"""From a wheel to the first record in a bare root: every command and what it prints, with its time.

    sudo .venv/bin/python release/first_record.py FOLDER [--report docs/reports/first-record.md]

FOLDER has the wheel of this machine's processor for Debian 12's Python, 3.11. Nothing is left to compile: the root has no
compiler, and while the commands run it has no network but its own loopback. The daemon's defaults are what is tried, its
ports too, since nobody else is there. More than MOST_S of CPU time fail; seconds that have passed are told and hold for
nothing, as this runs beside other things.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bare_root import BareRoot
from debian_root import debian
from try_wheel import with_dependencies
from wheels import ROOT, ReleaseError, Target, run

SUITE, PYTHON = "bookworm", "3.11"
MOST_S = 60.0
MARK = "@@ "
#: A line of a shell each, as somebody would type it. Where a daemon was begun, the next one waits for its ready line.
COMMANDS = (
    f"python{PYTHON} -m venv tidelog",
    "tidelog/bin/pip install --quiet --no-index --find-links /wheels tidelog",
    "tidelog/bin/tidelog serve --set log.dirs=data &",
    "echo 'hello, log' | tidelog/bin/tidelog produce greetings",
    "tidelog/bin/tidelog consume greetings --from-beginning --max-messages 1",
)
LAST_LINE = "hello, log"
PREPARE = "set -e; cd /root; export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore; exec 2>&1"
AWAIT = "until grep -q ^ready ready; do kill -0 $daemon || { cat log; exit 1; }; sleep 0.05; done; cat ready"


class Step(NamedTuple):
    """One command, the lines that it printed, and the seconds that passed until it was done."""

    command: str
    lines: tuple[str, ...]
    seconds: float


class Told(NamedTuple):
    """All of them, and the CPU seconds of everything that ran, the daemon included."""

    steps: tuple[Step, ...]
    cpu_s: float

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


def script_of(commands: Sequence[str]) -> str:
    """A shell's script that runs them and marks the begin of each, and the end, with the time."""
    lines = [PREPARE]
    for command in commands:
        lines.append(f'echo "{MARK}$(date +%s.%N)"')
        if command.endswith("&"):
            lines += [f"{command.removesuffix('&').strip()} >ready 2>log & daemon=$!", AWAIT]
        else:
            lines.append(command)
    return "\n".join([*lines, f'echo "{MARK}$(date +%s.%N)"', "kill -TERM $daemon", "wait $daemon"])


def steps_of(commands: Sequence[str], output: str) -> tuple[Step, ...]:
    """What the script printed, by command. ReleaseError where a command is missing: it failed."""
    parts = re.split(rf"^{re.escape(MARK)}([\d.]+)\n", output, flags=re.MULTILINE)[1:]
    times, texts = [float(text) for text in parts[::2]], parts[1::2]
    if len(times) != len(commands) + 1:
        raise ReleaseError(f"{commands[max(0, len(times) - 1)]} failed:\n{output[-2000:]}")
    return tuple(
        Step(command, tuple(texts[at].splitlines()), times[at + 1] - times[at]) for at, command in enumerate(commands)
    )


def page_of(told: Told, *, commit: str, load: float) -> str:
    """docs/reports/first-record.md: no path, host or name of the machine is in it."""
    shown = "\n".join(line for step in told.steps for line in (f"$ {step.command}", *step.lines))
    rows = "\n".join(f"| `{step.command.replace('|', chr(92) + '|')}` | {step.seconds:.1f} |" for step in told.steps)
    return f"""# From the wheel to the first record

Written by `make first-record`. In a Debian 12 that has Python {PYTHON} and no compiler, and no network but its loopback;
`/wheels` has the wheel of `make wheels` and those of its dependencies.

```console
{shown}
```

| command | seconds |
| --- | ---: |
{rows}
| all | {told.seconds:.1f} |

CPU time of all of it, the daemon's included: {told.cpu_s:.1f} s. Wanted: less than {MOST_S:g} s. {os.cpu_count()} processors,
load average {load:.1f} when it began, {platform.machine()}, commit {commit}.
"""


def tried(folder: Path) -> Told:
    """Runs the commands in a copy of the root. Raises ReleaseError where one fails, or the record did not come back."""
    target = Target(PYTHON, platform.machine())
    found = sorted(folder.glob(f"tidelog-*-{target.tag}.whl"))
    if not found:
        raise ReleaseError(f"no wheel of {target.name} in {folder}")
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work, "root")
        run("cp", "--archive", str(debian(SUITE)), str(tree))
        with_dependencies(found[-1], target, tree / "wheels")
        root = BareRoot(tree, f"/usr/bin/python{PYTHON}", "")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = root.run(script=script_of(COMMANDS), alone=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told = Told(steps_of(COMMANDS, output), cpu_s)
    if told.steps[-1].lines[-1:] != (LAST_LINE,):
        raise ReleaseError(f"the record did not come back:\n{output[-2000:]}")
    if told.cpu_s > MOST_S:
        raise ReleaseError(f"{told.cpu_s:.1f} s of CPU time, more than {MOST_S:g}")
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the transcript there")
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    begin = time.monotonic()
    try:
        told = tried(options.folder)
        if options.report is not None:
            # The checkout may be another user's than root.
            commit = run("git", "-c", f"safe.directory={ROOT}", "describe", "--always", "--dirty", cwd=ROOT).strip()
            options.report.write_text(page_of(told, commit=commit, load=load), encoding="utf-8")
            owner = ROOT.stat()
            shutil.chown(options.report, owner.st_uid, owner.st_gid)
    except ReleaseError as error:
        print(f"first record: FAILED: {error}", file=sys.stderr)
        return 1
    for step in told.steps:
        print(f"first record: {step.seconds:5.1f} s  {step.command}")
    print(
        f"first record: {told.seconds:5.1f} s, {told.cpu_s:.1f} of CPU time; {time.monotonic() - begin:.0f} with the root"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
