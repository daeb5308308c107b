"""Looks for each planted defect: `make simulate-planted`, one seed after the other until a run fails.

    python -m simulation.hunt                            all of them, and docs/reports/planted.md
    python -m simulation.hunt cleaner/ was/job-ends      those whose names begin so; the page has what is known of the others
    python -m simulation.hunt --report                   the page alone

What is found out is kept in a file (`--state`), so that a hunt that was stopped, or whose time for a defect was over, goes on
where it was. It holds for the simulation that it was found out with: where a file of that, or the defect, has changed since,
the seeds begin anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path

from simulation.planted import ALL, PLANTED, PUT_BACK, REACHED, Defect

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
STATE = ROOT / ".cache" / "planted.json"
PAGE = ROOT / "docs" / "reports" / "planted.md"
#: Modules that look for defects, and change no run.
_NOT_THE_ENGINE = {"hunt.py", "planted.py", "sane.py"}

#: Promise → what its breach says. The first one that fits; `history.py`, `groups.py`, `share.py`, `world.py` and others
#: have the sentences.
_ORACLES = (
    ("one name for each offset", r"offset \d+ was .*, and is |stands at \d+ and at "),
    ("order", r"stands behind|comes behind"),
    ("nothing acknowledged is lost", r"was acknowledged at .* is gone"),
    ("offsets without gaps", r"offsets \d+ to \d+ are missing"),
    ("all of a committed transaction, nothing of another", r"of the (committed|aborted) |read as committed|to be aborted"),
    ("watermarks", r"were told, and now|start -?\d+, stable -?\d+|is read, beyond"),
    ("nothing that nobody wrote, nothing refused", r"was not written there|was refused, and is read"),
    ("commits do not go back", r"was committed, .* is read"),
    ("what is deleted stays deleted", r"were deleted, and the log starts"),
    ("log verify after a clean stop", r"^log verify"),
    ("no error in the daemon's log", r"^the daemon logs an error"),
    ("watermarks at each step", r"^step \d+, in .*(high watermark|recovery point)"),
    ("one owner of a partition", r"belongs to .*, and still to|belongs to .* and to|is in generation|of generation"
     r"|no leader handed in"),
    ("one member has a share record", r"is with .*, and is given|was accepted, and is given|is given to .* time"),
    ("fenced is fenced", r"a fenced producer"),
    ("offsets by time", r"is told for"),
    ("retention takes what is old", r"went when .* ms old|and it has no retention"),
    ("nothing stays open after a clean stop", r"^after a clean stop these are open"),
    ("an answer within 90 s", r"is not answered within"),
    ("somebody can run", r"^Deadlock|^TooManySteps|no thread can run|steps were not enough"),
    ("the run ends", r"the run hung"),
    ("what is asked for is not refused", r"is refused|is not made|gets no producer id|is not ended|is not added|no coordinator"),
    ("what is there is read", r"nothing is read at|is out of range|no offset"),
    ("clients understand what they are told", r"^[A-Za-z_.]*(Error|Exception)\b"),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What is known of one defect. `upto`: seeds 1 to this one were run; `seed`: the one that failed, 0 for none.

    `reached`: times that a run came to a changed line, of all runs together.
    """

    fingerprint: str
    commit: str
    upto: int = 0
    seed: int = 0
    seconds: float = 0.0
    reached: int = 0
    oracle: str = ""
    why: str = ""


class NoRunsError(Exception):
    """The simulation could not be run at all."""


def fingerprint_of(defect: Defect) -> str:
    """What a finding hangs on: the simulation's files, and the defect's edits."""
    digest = blake2b(digest_size=8)
    for path in sorted((TESTS / "simulation").glob("*.py")):
        if path.name not in _NOT_THE_ENGINE and not path.name.startswith(("test_", "conftest")):
            digest.update(path.read_bytes())
    digest.update((TESTS / "support" / "fake_filesystem.py").read_bytes())
    digest.update(repr(defect.edits).encode())
    return digest.hexdigest()


def oracle_of(why: str) -> str:
    """The promise that a failure's first line says was broken."""
    return next((name for name, pattern in _ORACLES if re.search(pattern, why)), "another")


def look_for(defect: Defect, known: Finding, seeds: int, seconds: float, jobs: int) -> Finding:
    """Goes on with the seeds behind those that are known, until one fails, or `seconds` of real time are over."""
    began = time.monotonic()
    command = [
        sys.executable, "-m", "simulation.run", "--planted", defect.name, "--jobs", str(jobs),
        "--first", str(known.upto + 1), "--count", str(seeds - known.upto), "--seconds", str(seconds),
    ]  # fmt: skip
    ran = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, env={**os.environ}, check=False)
    lines = ran.stdout.splitlines()
    total = re.search(r"^(\d+) runs, (\d+) failed", ran.stdout, re.MULTILINE)
    if total is None:
        raise NoRunsError(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    reached = next((int(line.split()[0]) for line in lines if line.endswith(f" {REACHED}")), 0)
    found = replace(
        known,
        upto=known.upto + int(total[1]),
        seconds=known.seconds + time.monotonic() - began,
        reached=known.reached + reached,
    )
    failed = re.search(r"^seed (\d+): FAILED (.*)$", ran.stdout, re.MULTILINE)
    if failed is None:
        return found
    why = failed[2]
    if why == "the daemon logs an error":
        why += ": " + lines[lines.index(why) + 1]
    return replace(found, seed=int(failed[1]), oracle=oracle_of(failed[2]), why=why[:300])


def page_of(findings: dict[str, Finding], seeds: int) -> str:
    """docs/reports/planted.md."""
    runs = [found.upto for found in findings.values() if found.upto]
    seconds = sum(found.seconds for found in findings.values())
    lines = [
        "# Planted defects",
        "",
        "Each row is a defect of order that is put into the daemon on purpose; the simulation ([ADR "
        "88](../adr/0088-simulation.md)) "
        "is run with it, seed after seed, until a run breaks a promise. `make simulate-planted` writes this "
        "page; the defects, with an "
        "interleaving for each, are in `tests/simulation/defects/`. They are written from what can go wrong, "
        "whether the "
        "simulation can see it or not; no part of its workload and no oracle is made for one of them.",
        "",
        f"- {time.strftime('%Y-%m-%d', time.gmtime())}, each row of the commit that it names, Python "
        f"{sys.version.split()[0]}",
        f"- command: `make simulate-planted`, in parts; {seconds / 60:.0f} minutes together, on one process or two at "
        f"idle priority beside "
        "other work: the seconds tell little",
        f"- **{_score(PLANTED, findings)} planted**, **{_score(PUT_BACK, findings)} that the daemon has "
        f"had**; up to {seeds} "
        "seeds each. Those that were not found are so for the number of seeds that the row has",
        f"- looked for so far: {len(runs)} of {len(ALL)}, in {sum(runs)} runs together, none in more than "
        f"{max(runs, default=0)} seeds. A row "
        "without a seed says that so few did not find it, and no more than that",
        "- *reached*: how often the runs came to a changed line. A defect that is never reached is in a part "
        "of the daemon that the "
        "workload does not use; such a row says nothing of the oracles",
        "",
    ]
    for title, defects in (("Planted", PLANTED), ("That the daemon has had, put back", PUT_BACK)):
        lines += [
            f"## {title}",
            "",
            "| defect | what is wrong | needs | found at seed | by | seeds run | s | reached | commit |",
            "|---|---|---:|---:|---|---:|---:|---:|---|",
        ]
        lines += [_row(defect, findings.get(defect.name)) for defect in defects]
        lines.append("")
    lines += ["## What the runs said", ""]
    for defect in ALL:
        found = findings.get(defect.name)
        if found is not None and found.seed:
            lines.append(f"- {defect.name}, seed {found.seed}: `{_plain(found.why)}`")
    return "\n".join(lines) + "\n"


def _score(defects: Sequence[Defect], findings: dict[str, Finding]) -> str:
    found = sum(bool(findings[defect.name].seed) for defect in defects if defect.name in findings)
    return f"{found} of {len(defects)}"


def _row(defect: Defect, found: Finding | None) -> str:
    if found is None or not found.upto:
        return f"| {defect.name} | {defect.wrong} | {len(defect.needs)} | not looked for | | | | | |"
    at = str(found.seed) if found.seed else "no"
    return (
        f"| {defect.name} | {defect.wrong} | {len(defect.needs)} | {at} | {found.oracle} | {found.upto} | "
        f"{found.seconds:.0f} | {found.reached} | {found.commit} |"
    )


def _plain(text: str) -> str:
    """Without what names the machine, or would end the code's quotation."""
    return re.sub(r"/(dev/shm|tmp)/tidelog-simulation-\w+", "DIR", text).replace("`", "'")


def load(path: Path) -> dict[str, Finding]:
    """Findings that are kept, of any simulation."""
    if not path.exists():
        return {}
    return {name: Finding(**fields) for name, fields in json.loads(path.read_text()).items()}


def save(path: Path, findings: dict[str, Finding]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".new")
    written.write_text(json.dumps({name: asdict(found) for name, found in findings.items()}, indent=1) + "\n")
    written.replace(path)


def _commit() -> str:
    ran = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return ran.stdout.strip() or "unknown"


def hunt(defects: Iterable[Defect], options: argparse.Namespace) -> dict[str, Finding]:
    """Looks for each, one after the other; what was found out by then is kept when it is stopped."""
    findings = load(options.state)
    for defect in defects:
        fingerprint = fingerprint_of(defect)
        known = findings.get(defect.name)
        if known is None or known.fingerprint != fingerprint:
            known = Finding(fingerprint, _commit())
        if not known.seed and known.upto < options.seeds:
            try:
                known = look_for(defect, known, options.seeds, options.seconds, options.jobs)
            except NoRunsError as error:
                print(f"{defect.name}: {error}", file=sys.stderr, flush=True)
                continue
        findings[defect.name] = known
        save(options.state, findings)
        told = f"seed {known.seed}: {known.oracle}: {known.why}" if known.seed else f"not found in {known.upto} seeds"
        print(f"{defect.name:44} {known.seconds:6.0f} s  reached {known.reached:7}  {told}", flush=True)
    return findings


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make simulate-planted")
    parser.add_argument("names", nargs="*", help="beginnings of names; all without one")
    parser.add_argument("--seeds", type=int, default=2000, help="look no further than this seed")
    parser.add_argument(
        "--seconds", type=float, default=900.0, help="of real time for each defect; the next hunt goes on"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--report", action="store_true", help="write the page from what is known, and look for nothing")
    options = parser.parse_args(arguments)
    chosen = [one for one in ALL if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error("no defect's name begins so")
    try:
        findings = load(options.state) if options.report else hunt(chosen, options)
    except KeyboardInterrupt:
        print("stopped; the next hunt goes on")
        return 1
    options.page.write_text(page_of(findings, options.seeds), encoding="utf-8")
    print(f"planted: {_score(PLANTED, findings)}; put back: {_score(PUT_BACK, findings)}; see {options.page.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
