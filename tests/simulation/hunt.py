"""Looks for planted defects: `make simulate-planted`, seed after seed, until each was found or has had all seeds.

    python -m simulation.hunt                            all of them, and docs/reports/planted.md
    python -m simulation.hunt cleaner/ was/job-ends      those whose names begin so; the page has what is known of the others
    python -m simulation.hunt --best                     in the seeds first whose plans have most of what these need
    python -m simulation.hunt --alone                    each by itself, in the seeds whose plans have most of what it needs
    python -m simulation.hunt --measure                  which of them change runs in which they show nothing
    python -m simulation.hunt --report                   the page alone

A seed is run with all defects at once that were not found yet, since most of them show nothing in most runs. (Those that
`--measure` has seen to change the order of threads of a run in which they show nothing are left out, and looked for alone: what
others do in such a run they don't do without them.) Where it fails,
parts of those that it came to are run with that seed, down to one: a defect counts as found where a run with it alone fails,
and the same run of the daemon as it is does not. One defect may hide another: so the page tells seeds in company from seeds
alone. One that is looked for alone is looked for in any of the first seeds, those first whose plans have most of what it needs
(`_FITS`: its `needs`, word by word, and places in what it changes): which seeds are run for it hangs on that, and what a run
with one of them says does not.

What is found out is kept in docs/reports/planted.json (`--state`), so that a hunt that was stopped, or whose time was over,
goes on where it was.
Where a file of the simulation, or the defect, has changed since, those that were not found begin anew; a seed that was found
stays, with the commit that it was found with, unless it is to be tried `--again`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from simulation.defects.obstacles import OBSTACLES
from simulation.places import Place
from simulation.plan import SPARSE, Plan
from simulation.planted import ALL, PLANTED, PUT_BACK, Defect, changed_functions, named, reached
from simulation.primitives import installed
from simulation.run import Result, fix_hashes, make_ready, run_all

_real_time = time.monotonic  # before it is simulated
TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
STATE = ROOT / "docs" / "reports" / "planted.json"
PAGE = ROOT / "docs" / "reports" / "planted.md"
#: Modules that look for defects, and change no run.
_NOT_THE_ENGINE = {"hunt.py", "planted.py", "sane.py", "report.py", "smaller.py", "regressions.py"}
#: Real seconds after which a run is given up as hung.
LIMIT_S = 150.0
MOST_ALONE = 400
"""Seeds in which one defect is looked for alone."""
MEASURED = (12, 60, 96)
"""Seeds that have much of everything."""
MOST_TOGETHER = 3
"""Defects that fail together alone, and are each tried by themselves, in so many orders of threads:"""
SCHEDULES = 4
APART = ("scheduler/leader-never-resigns",)
"""Without being named these are not looked for: threads run in another order with them from the first second on, so that what
others are found by is rarely found without them."""

#: A word of `Defect.needs`, and whether a plan has that.
_FITS: tuple[tuple[str, Callable[[Plan], object]], ...] = (
    ("flush.messages=1", lambda plan: plan.durable),
    ("no sync with each append", lambda plan: not plan.durable),
    (r"power", lambda plan: plan.last == "power cut" or _has(plan, "power cut")),
    (r"\bkill|crash", lambda plan: plan.last == "kill" or _has(plan, "kill")),
    (r"restart|clean stop|a stop", lambda plan: plan.last == "restart" and _has(plan, "restart")),
    (r"a start\b|loading", lambda plan: _has(plan, "restart", "kill", "power cut")),
    (r"slow|sync|hang|takes? long", lambda plan: plan.disk["sync_most"] > 30_000_000 or plan.disk["slow_chance"] > 0.1),
    (r"transaction|marker|EndTxn|Txn|two Produces", lambda plan: _has(plan, "transactional")),
    (r"idempotent", lambda plan: _has(plan, "idempotent")),
    (r"deleted and made|same name|delet\w+ of|deletion|DeleteTopics|a deletion", lambda plan: _has(plan, "remaker")),
    (r"DeleteRecords", lambda plan: _has(plan, "delete records")),
    (r"AlterConfigs|a change", lambda plan: _has(plan, "alter settings", "administrator")),
    (r"reset|connection", lambda plan: _has(plan, "resets")),
    (r"retention|silent", lambda plan: any("retention.ms" in topic for topic in plan.topics.values())),
    (r"compact,delete", lambda plan: plan.topics["keyed"]["cleanup.policy"] == "compact,delete"),
    (r"by time", lambda plan: _has(plan, "looker")),
    (r"sent ahead|two partitions|two producers|at once", lambda plan: _has(plan, "ahead-writer")),
    (r"member|share", lambda plan: sum(part.kind.endswith("-member") for part in plan.parts) > 1),
    (r"silence|little happens|never", lambda plan: plan.pace == SPARSE),
    (r"full", lambda plan: _has(plan, "full disk")),
    (r"oldest segment|open\b|cold", lambda plan: plan.open_files < 10 or plan.disk["cold_chance"] > 0.1),
    (r"slowly", lambda plan: plan.network["window"] < 1000 and _has(plan, "ahead-writer")),
)  # fmt: skip


def _has(plan: Plan, *kinds: str) -> bool:
    return any(part.kind.startswith(kinds) for part in plan.parts)


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
    ("what is deleted stays deleted", r"were deleted, and the log starts|was deleted, and is there"),
    ("no transaction stays open", r"nobody has a transaction, and"),
    ("what is old goes", r"retention has left it"),
    ("what is superseded goes", r"is superseded at .* stays"),
    ("who is alone in a group has all of it", r"alone for .* s, and owns"),
    ("what is owed by a share group is given", r"are owed, and who is alone"),
    ("log verify after a clean stop", r"^log verify"),
    ("no member is left", r"nobody has said anything for long"),
    ("nothing of a deleted log is kept", r"are open, whose names are gone|are still in memory"),
    ("directories are partitions", r"partitions are told of without a directory"),
    ("an epoch's end", r"is of epoch \d+, and who asks"),
    ("no error in the daemon's log", r"^the daemon logs an error"),
    ("watermarks at each step", r"^step \d+, in .*(high watermark|recovery point)"),
    ("one owner of a partition", r"belongs to .*, and still to|belongs to .* and to|is in generation|of generation"
     r"|no leader handed in"),
    ("one member has a share record", r"is with .*, and is given|was accepted, and is given|is given to .* time"
     r"|whose acknowledgement is refused"),
    ("fenced is fenced", r"a fenced producer"),
    ("offsets by time", r"is told for"),
    ("limits hold", r"bytes are taken for|bytes are too large for"),
    ("retention takes what is old", r"went when .* ms old|and it has no retention"),
    ("nothing stays open after a clean stop", r"^after a clean stop these are open"),
    ("no timer outlives a clean stop", r"^after a clean stop these timers"),
    ("an answer within 90 s", r"is not answered within|nobody answers"),
    ("somebody can run", r"^Deadlock|^TooManySteps|no thread can run|steps were not enough"),
    ("the run ends", r"the run hung"),
    ("what is asked for is not refused", r"is refused|is not made|gets no producer id|is not ended|is not added|no coordinator"),
    ("the disk is blamed for what it did", r"the disk is to blame, and it has not failed"),
    ("what is there is read", r"nothing is read at|is out of range|no offset"),
    ("clients understand what they are told", r"^[A-Za-z_.]*(Error|Exception)\b"),
)  # fmt: skip


@dataclass
class Finding:
    """What is known of one defect.

    Attributes:
        fingerprint, commit: of the simulation, and the defect, that it was found out with.
        seed, schedule: a run that fails with it alone, and not without it; 0 for none.
        oracle, why: which promise that broke, and the first line of what was said.
        upto: it was in company in seeds 1 to this one.
        chosen: others in which it was in company.
        came: how often those came to its lines, of those that did; as text, since JSON has no other keys.
        alone: seeds that were run with it alone.
        came_alone: how many of those came to its lines.
        changes: it makes another order of threads though it shows nothing.
    """

    fingerprint: str
    commit: str
    seed: int = 0
    schedule: int = 0
    oracle: str = ""
    why: str = ""
    upto: int = 0
    chosen: list[int] = field(default_factory=list)
    came: dict[str, int] = field(default_factory=dict)
    alone: list[int] = field(default_factory=list)
    came_alone: int = 0
    changes: bool = False


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


Run = Callable[[Iterable[Plan]], Iterator[tuple[Plan, Result]]]


class Blamed(NamedTuple):
    """What a run with one defect said, in which order of threads."""

    said: str
    schedule: int


def to_blame(names: Sequence[str], failure: Callable[[Sequence[str], int], str]) -> dict[str, Blamed]:
    """Which of these fail alone, and what is said then; `failure`: of a run with some of them and a schedule, \"\" for none.

    Halves of those whose run fails are looked at, as long as one of them fails; where none does, what is left when quarters and
    then single ones are taken away. Few that fail together alone are mostly one, and another that makes a difference to the order
    of threads: each of them is tried in some orders.
    """
    if not names:
        return {}
    if len(names) == 1:
        said = failure(names, 0)
        return {names[0]: Blamed(said, 0)} if said else {}
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    failing = [half for half in halves if failure(half, 0)]
    found: dict[str, Blamed] = {}
    for half in failing:
        found |= to_blame(half, failure)
    if failing:
        return found
    names = fewer(names, lambda some: bool(failure(some, 0)))
    print(f"  only together: {', '.join(names)}", flush=True)
    if len(names) <= MOST_TOGETHER:
        for schedule in range(len(names) == 2, SCHEDULES):  # of two, each was tried by itself
            found |= {
                name: Blamed(said, schedule) for name in names if not found and (said := failure([name], schedule))
            }
    return found


def fewer(names: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> Sequence[str]:
    """Some of these that fail together, after one attempt to leave out each quarter of them, and each eighth, and so on."""
    size = max(len(names) // 4, 1)
    while True:
        at = 0
        while at < len(names) > 1:
            rest = [*names[:at], *names[at + size :]]
            if rest and fails(rest):
                names = rest
            else:
                at += size
        if size == 1:
            return names
        size = max(size // 2, 1)


class Hunt:
    """One hunt. `run`: what runs plans; `until`: whether there is time for more."""

    def __init__(self, defects: Sequence[Defect], options: argparse.Namespace, run: Run) -> None:
        self._options = options
        self._run = run
        self._over = _real_time() + options.seconds
        self.findings = load(options.state)
        commit = _commit()
        self._names = [defect.name for defect in defects]
        self._old: list[tuple[str, int, int]] = []
        for defect in defects:
            fingerprint, known = fingerprint_of(defect), self.findings.get(defect.name)
            if known is None or known.fingerprint != fingerprint:
                if known is None or not known.seed:
                    self.findings[defect.name] = Finding(fingerprint, commit)
                elif options.again:
                    self.findings[defect.name] = Finding(fingerprint, commit)
                    self._old.append((defect.name, known.seed, known.schedule))

    def _save(self) -> None:
        """Keeps what is known; what another hunt, for others, has found out meanwhile stays."""
        others = load(self._options.state)
        mine = {name: found for name, found in self.findings.items() if name in self._names or name not in others}
        save(self._options.state, {name: (others | mine)[name] for name in self.findings | others})

    def has_time(self) -> bool:
        return _real_time() < self._over

    def _said(self, seed: int, names: Sequence[str], schedule: int = 0) -> str:
        """What a run fails with; \"\" for nothing."""
        ((_, result),) = self._run([replace(Plan.of(seed), planted=tuple(sorted(names)), schedule=schedule)])
        if len(names) == 1 and seed not in (found := self.findings[names[0]]).alone:
            found.alone.append(seed)
            found.came_alone += names[0] in reached(result.events)
        return result.failure

    def _is_sound(self, seed: int, schedule: int = 0) -> bool:
        """Whether the daemon as it is passes."""
        ((_, result),) = self._run([replace(Plan.of(seed), schedule=schedule)])
        if result.failure:
            print(f"NOT PLANTED: {result.line}", flush=True)
        return not result.failure

    def try_alone(self, seed: int, name: str, schedule: int = 0) -> bool:
        """One run with one defect; True where it was found."""
        said = self._said(seed, [name], schedule)
        if said and self._is_sound(seed, schedule):
            self._found(seed, name, Blamed(said, schedule))
        self._save()
        return bool(self.findings[name].seed)

    def _found(self, seed: int, name: str, blamed: Blamed) -> None:
        lines = blamed.said.splitlines()
        why = lines[0] if lines[0] != "the daemon logs an error" else f"{lines[0]}: {lines[1]}"
        found = self.findings[name]
        found.seed, found.schedule, found.oracle, found.why = seed, blamed.schedule, oracle_of(lines[0]), why[:300]
        print(f"{name:44} seed {seed}: {found.oracle}: {found.why}", flush=True)

    def again(self) -> None:
        """Seeds that failed with an earlier simulation are tried first."""
        for name, seed, schedule in self._old:
            if self.has_time():
                self.try_alone(seed, name, schedule)

    def in_company(self) -> None:
        """Seed after seed, with all that were not found yet; with `--best` those first whose plans have most of their needs."""
        for plan, result in self._run(self._best_plans() if self._options.best else self._plans()):
            came = reached(result.events)
            if result.failure and self._is_sound(plan.seed):
                self._blame(plan, [name for name in came if not self.findings[name].seed], result.failure)
            for name in plan.planted:
                found = self.findings[name]
                if not self._options.best:
                    found.upto = max(found.upto, plan.seed)
                elif plan.seed > found.upto:
                    found.chosen.append(plan.seed)
                if came.get(name):
                    found.came[str(plan.seed)] = came[name]
            self._save()

    def _blame(self, plan: Plan, names: list[str], failure: str) -> None:
        blamed = to_blame(sorted(names or plan.planted), partial(self._said, plan.seed))
        if not blamed:
            print(f"seed {plan.seed}: together only: {failure.splitlines()[0][:200]}", flush=True)
        for name, one in blamed.items():
            if not one.schedule or self._is_sound(plan.seed, one.schedule):
                self._found(plan.seed, name, one)

    def measure(self) -> None:
        """Each by itself in some seeds, and those without any."""
        names = [name for name in self._names if not self.findings[name].seed]
        plans = [Plan.of(seed) for seed in MEASURED]
        digests: dict[tuple[int, str], Result] = {}
        for plan, result in self._run(
            replace(plan, planted=planted) for plan in plans for planted in ((), *((name,) for name in names))
        ):
            digests[plan.seed, "".join(plan.planted)] = result
        for name in names:
            ran = {seed: digests[seed, name] for seed in MEASURED}
            differing = [
                seed for seed, result in ran.items() if not result.failure and result.digest != digests[seed, ""].digest
            ]
            self.findings[name].changes = len(differing) > 1  # in one of them it may have bitten, and nobody saw it
            failed = [seed for seed, result in ran.items() if result.failure]
            print(f"{name:44} {'changes runs' if self.findings[name].changes else ''} {failed or ''}", flush=True)
        self._save()

    def _plans(self) -> Iterator[Plan]:
        while self.has_time():
            left = [name for name in self._names if not self.findings[name].seed and not self.findings[name].changes]
            seed = 1 + min((self.findings[name].upto for name in left), default=self._options.seeds)
            if seed > self._options.seeds:
                return
            together = [name for name in left if self.findings[name].upto < seed]
            yield replace(Plan.of(seed), planted=tuple(together))

    def _best_plans(self) -> Iterator[Plan]:
        suits = [Suits(named(name)) for name in self._names if not self.findings[name].seed]
        plans = best(self._options.seeds, suits)
        for plan in plans:
            left = [name for name in self._names if not self.findings[name].seed and not self.findings[name].changes]
            new = [name for name in left if plan.seed > self.findings[name].upto]
            together = [name for name in new if plan.seed not in self.findings[name].chosen]
            if together and self.has_time():
                yield replace(plan, planted=tuple(together))

    def alone(self) -> None:
        """Each by itself, by turns, in seeds that it was not alone in yet, those first that have most of what it needs."""
        rows = {
            name: iter(
                [plan for plan in best(self._options.seeds, [Suits(named(name))]) if plan.seed not in found.alone]
            )
            for name in self._names
            if not (found := self.findings[name]).seed
        }
        while rows and self.has_time():
            for name in list(rows):
                plan = next(rows[name], None)
                if plan is None or self.findings[name].seed or len(self.findings[name].alone) >= MOST_ALONE:
                    del rows[name]
                elif self.has_time():
                    self.try_alone(plan.seed, name)


class Suits:
    """How well plans suit a defect: a part for each of its needs that they have, and more for places in what it changes."""

    def __init__(self, defect: Defect) -> None:
        self._needs = [fits for words, fits in _FITS if any(re.search(words, need) for need in defect.needs)]
        self._paths = {edit.module.removeprefix("tidelog.").replace(".", "/") + ".py" for edit in defect.edits}
        self._functions = set(changed_functions(defect.name))

    def of(self, plan: Plan, drawn: Counter[Place]) -> float:
        """A number without a unit."""
        within = sum(count for place, count in drawn.items() if place in self._functions)
        beside = sum(count for place, count in drawn.items() if place.path in self._paths)
        has = sum(bool(fits(plan)) for fits in self._needs) / max(len(self._needs), 1)
        has_room = any(path.startswith(room) for path in self._paths for room in plan.rooms)
        return 2 * has**2 + has_room * 0.2 + min(within, 3) * 0.7 + min(beside, 6) * 0.1


def best(seeds: int, suits: Sequence[Suits]) -> list[Plan]:
    """Plans of the first seeds, those first that suit best."""
    plans, drawn = _drawn(seeds)
    return sorted(plans, key=lambda plan: -sum(each.of(plan, drawn[plan.seed]) for each in suits))


@cache
def _drawn(seeds: int) -> tuple[list[Plan], dict[int, Counter[Place]]]:
    """Plans of the first seeds, and their places: half a minute for 2,000."""
    plans = [Plan.of(seed) for seed in range(1, seeds + 1)]
    return plans, {plan.seed: Counter(plan.places) for plan in plans}


def page_of(findings: dict[str, Finding], seeds: int) -> str:
    """docs/reports/planted.md."""
    lines = [
        "# Planted defects",
        "",
        "Each row is a defect of order that is put into the daemon on purpose; the simulation "
        "([ADR 88](../adr/0088-simulation.md)) is run with it, and a run that breaks a promise has found it. "
        "`make simulate-planted` writes this page; the defects, with an interleaving for each, are in "
        "`tests/simulation/defects/`. They are written from what can go wrong, whether the simulation can see it or not; "
        "no part of its workload and no oracle is made for one of them.",
        "",
        f"- {time.strftime('%Y-%m-%d', time.gmtime())}, each row of the commit that it names, Python "
        f"{sys.version.split()[0]}",
        f"- **{_score(PLANTED, findings)} planted**, **{_score(PUT_BACK, findings)} that the daemon has had**; "
        f"among the first {seeds} seeds. `make simulate` with `--planted NAME --seed N` shows one again",
        "- *found at seed*: the run of that seed with this defect alone fails, and without it does not; *schedule*: in another "
        "order of threads (`--schedule`)",
        "- *together*: seeds, of the first ones, that were run with all defects at once that were not found by then and change "
        "no run in which they show nothing. One may hide another, so that those say less than *alone*",
        "- *came there*: in how many of those the daemon came to a changed line. A defect that is never reached is in a part "
        "of the daemon that the workload does not use; such a row says nothing of the oracles",
        "- *alone*: seeds, of the first ones, that were run with it alone, those first whose plans have most of what it "
        "needs; and in how many of them the daemon came to a changed line",
        "- a row without a seed says that so few did not find it, and no more than that: others of those seeds were not run "
        "with it",
        "",
    ]
    for title, defects in (("Planted", PLANTED), ("That the daemon has had, put back", PUT_BACK)):
        lines += [
            f"## {title}",
            "",
            "| defect | what is wrong | needs | found at seed | by | together | came there | alone | commit |",
            "|---|---|---:|---:|---|---:|---:|---:|---|",
        ]
        lines += [_row(defect, findings.get(defect.name)) for defect in defects]
        lines.append("")
    lines += ["## What stands in the way of the others", ""]
    for defect in ALL:
        found = findings.get(defect.name)
        if defect.name in OBSTACLES and (found is None or not found.seed):
            lines.append(f"- {defect.name}: {OBSTACLES[defect.name]}")
    lines += ["", "## What the runs said", ""]
    for defect in ALL:
        found = findings.get(defect.name)
        if found is not None and found.seed:
            lines.append(f"- {defect.name}, seed {found.seed}: `{_plain(found.why)}`")
    return "\n".join(lines) + "\n"


def _score(defects: Sequence[Defect], findings: dict[str, Finding]) -> str:
    found = sum(bool(findings[defect.name].seed) for defect in defects if defect.name in findings)
    return f"{found} of {len(defects)}"


def _row(defect: Defect, found: Finding | None) -> str:
    if found is None or not (found.upto or found.chosen or found.alone):
        return f"| {defect.name} | {defect.wrong} | {len(defect.needs)} | not looked for | | | | | |"
    at = str(found.seed) if found.seed else "no"
    at += f", schedule {found.schedule}" if found.schedule else ""
    return (
        f"| {defect.name} | {defect.wrong} | {len(defect.needs)} | {at} | {found.oracle} | {found.upto + len(found.chosen)} | "
        f"{len(found.came)} | {_alone(found)} | {found.commit} |"
    )


def _alone(found: Finding) -> str:
    return f"{len(found.alone)}, came in {found.came_alone}" if found.came_alone else str(len(found.alone))


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


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate-planted")
    parser.add_argument("names", nargs="*", help="beginnings of names; all without one")
    parser.add_argument("--seeds", type=int, default=2000, help="look no further than this seed")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of real time; the next hunt goes on")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side of --measure")
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--alone", action="store_true", help="each by itself, in seeds that came to its lines")
    parser.add_argument(
        "--measure", action="store_true", help="see which of them change runs in which they show nothing"
    )
    parser.add_argument(
        "--best", action="store_true", help="together, in the seeds whose plans have most of what they need"
    )
    parser.add_argument("--again", action="store_true", help="what was found with an earlier simulation does not count")
    parser.add_argument("--report", action="store_true", help="write the page from what is known, and look for nothing")
    options = parser.parse_args(arguments)
    options.defects = [
        one for one in ALL if one.name.startswith(tuple(options.names)) or (not options.names and one.name not in APART)
    ]
    if not options.defects:
        parser.error("no defect's name begins so")
    return options


def main(arguments: list[str]) -> int:
    options = options_of(arguments)
    if options.report:
        findings = load(options.state)
    else:
        with installed():
            make_ready()
            hunt = Hunt(options.defects, options, lambda plans: run_all(plans, options.jobs, LIMIT_S))
            try:
                hunt.again()
                if options.measure:
                    hunt.measure()
                elif options.alone:
                    hunt.alone()
                else:
                    hunt.in_company()
            except KeyboardInterrupt:
                print("stopped; the next hunt goes on")
            findings = hunt.findings
    options.page.write_text(page_of(findings, options.seeds), encoding="utf-8")
    print(f"planted: {_score(PLANTED, findings)}; put back: {_score(PUT_BACK, findings)}; see {options.page.name}")
    return 0


if __name__ == "__main__":
    fix_hashes()
    sys.exit(main(sys.argv[1:]))
