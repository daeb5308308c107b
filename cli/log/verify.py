"""`tidelog log verify DIR`: checks a data directory, or one partition's, against every invariant. Changes nothing.

Every batch, record, index entry, snapshot and checkpoint is read and held against the others. Faults break an invariant
and make the exit code 1; notes are worth knowing. A daemon may run on the directory meanwhile.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...storage.inspect.verify_report import Finding
    from ..support.output import ProgressBar

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MIB = 1 << 20


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("verify", help="check a log directory, read-only", description=__doc__)
    parser.add_argument("directory", metavar="DIR", help="a directory of log.dirs, or a partition's in it")
    parser.add_argument("--json", action="store_true", help="print one JSON object: faults, notes, bytes, findings")
    parser.add_argument("--quiet", action="store_true", help="faults only, no notes")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0 when there is no fault, else 1."""
    from ...storage.inspect.verify import Progress, verify
    from ...storage.io.filesystem import RealFileSystem
    from ..support.output import ProgressBar

    with ProgressBar("verify") as bar:
        findings = verify(RealFileSystem(), options.directory, Progress(bar.total, bar.done))
        return print_findings(findings, options, bar, "batches")


def print_findings(findings: Iterable[Finding], options: Any, bar: ProgressBar, read: str) -> int:
    """Print findings as they come, and then the verdict, as `--json` and `--quiet` say; `log scrub` does the same. Returns the
    exit code, 1 when there is a fault. `read` says what the bar has counted bytes of.
    """
    found: list[Finding] = []
    for finding in findings:
        if options.quiet and not finding.is_fault:
            continue
        found.append(finding)
        if not options.json:
            bar.clear()
            print(_line(finding), flush=True)
    bar.clear()
    faults = sum(finding.is_fault for finding in found)
    if options.json:
        _print_json(found, faults, bar.done_bytes)
    else:
        _print_summary(found, faults, f"{bar.done_bytes / _MIB:,.1f} MiB of {read} read in {bar.elapsed_s:.1f} s")
    return 1 if faults else 0


def _line(finding: Finding) -> str:
    """One line for people."""
    from ...storage.inspect.part import printable

    place = finding.path if finding.position < 0 else f"{finding.path} at {finding.position}"
    kind = "fault" if finding.is_fault else "note "
    return printable(f"{kind} {finding.rule}: {place}: {finding.what}")


def _print_summary(found: list[Finding], faults: int, read: str) -> None:
    """Print what to do about each kind of fault, and the verdict; `read` says what was read."""
    from ..support.output import plural

    rules = {finding.rule: finding for finding in found}
    for rule, finding in rules.items():
        if finding.is_fault:
            print(f"\n{rule}: {finding.meaning}.\n  What to do: {finding.remedy}.")
    verdict = plural(faults, "fault") if faults else "no fault"
    print(f"{chr(10) if faults else ''}{verdict}, {plural(len(found) - faults, 'note')}; {read}")


def _print_json(found: list[Finding], faults: int, read: int) -> None:
    """Print one JSON object; `read` in bytes."""
    import json

    findings = [
        {
            "severity": "fault" if finding.is_fault else "note",
            "rule": finding.rule,
            "path": finding.path,
            "position": finding.position if finding.position >= 0 else None,
            "what": finding.what,
            "meaning": finding.meaning,
            "remedy": finding.remedy,
        }
        for finding in found
    ]
    report = {"faults": faults, "notes": len(found) - faults, "bytes": read, "findings": findings}
    print(json.dumps(report, indent=2))
