"""`tidelog doctor`: looks whether this machine suits a log daemon, and says why each thing matters. Changes nothing.

Takes the settings that `tidelog serve` would take (--config, --set, TIDELOG_* variables). Exit code 1 when
something will not work.

Start reading at `checks.py`: what is looked at, and what it is held against.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ..support.output import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .checks import Finding

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    from ..serve import add_configuration

    description = (__doc__ or "").partition("\n\nStart")[0]
    parser = commands.add_parser("doctor", help="look whether this machine suits the daemon", description=description)
    add_configuration(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; returns 1 when a check failed."""
    import json

    from ...config.loader import load_config
    from .checks import FAIL, examine, look

    config = load_config(options.config, os.environ, options.assignments)
    findings = examine(look(config), config)
    if options.json:
        print(json.dumps({"checks": [finding._asdict() for finding in findings]}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(picture(findings)))
    return int(any(finding.status == FAIL for finding in findings))


def picture(findings: Sequence[Finding]) -> list[str]:
    """Lines for people: why each matters, what to do about what is not well, a sum at the end."""
    from .checks import FAIL, OK, WARN

    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:4}  {finding.name:{width}}  {finding.value}")
        lines.append(f"      why: {finding.why}")
        if finding.status != OK:
            lines.append(f"      do:  {finding.advice}")
    counts = {status: sum(finding.status == status for finding in findings) for status in (OK, WARN, FAIL)}
    return [*lines, f"{counts[OK]} ok, {plural(counts[WARN], 'warning')}, {plural(counts[FAIL], 'failure')}"]
