"""`make audit`: the installed packages against what is known of vulnerabilities, and their licences.

Advisories come from a database that has to be reached; where it can't be, that is said, and is no failure: nothing was
audited then. Licences are read from the packages themselves: those of tidelog's own dependencies must be ones that let
anybody use it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata

#: Of licence expressions, classifiers and old free texts.
PERMISSIVE = re.compile(r"\b(Apache|BSD|MIT|ISC|PSF|Python Software Foundation|Zlib)\b", re.IGNORECASE)
#: Others that were looked at: package → why it may be used.
KNOWN = {"crc32c": "LGPL: an installed library of its own, unchanged, that anybody may put another in the place of"}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def dependencies(name: str, seen: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """The package and what it needs, without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in seen:
        seen[key] = metadata.distribution(name)
        for requirement in seen[key].requires or ():
            match = _NAME.match(requirement)
            if match and "extra ==" not in requirement:
                try:
                    dependencies(match[0], seen)
                except metadata.PackageNotFoundError:
                    continue  # of another platform or Python
    return seen


def licence(package: metadata.Distribution) -> str:
    """What it says of its licence, on one line."""
    said = package.metadata
    classifiers = [text.rpartition(" :: ")[2] for text in said.get_all("Classifier", ()) if text.startswith("License")]
    return " ".join((said.get("License-Expression") or "; ".join(classifiers) or said.get("License") or "").split())[
        :80
    ]


def check_licences() -> list[str]:
    """Names of packages whose licence is none of the permissive ones."""
    wrong = []
    for name, package in sorted(dependencies("tidelog", {}).items()):
        text = licence(package)
        print(f"{name:20} {package.version:12} {text or '(says nothing)'}")
        if not PERMISSIVE.search(text) and name not in KNOWN:
            wrong.append(name)
    return wrong


def check_advisories() -> tuple[list[str], int, int]:
    """(vulnerabilities, packages that were looked up, packages that could not be)."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    try:
        rows = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(run.stderr.strip()[-500:])
        return [], 0, 0
    found = [
        f"{row['name']} {row['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'no version'}"
        for row in rows
        for one in row.get("vulns", ())
    ]
    skipped = sum("skip_reason" in row for row in rows)
    return found, len(rows) - skipped, skipped


def main() -> int:
    wrong = check_licences()
    found, audited, skipped = check_advisories()
    for line in found:
        print(f"VULNERABLE: {line}")
    for name in wrong:
        print(f"LICENCE: {name} is under none that lets anybody use it")
    print(
        f"{audited} packages audited, {skipped} not found in the database of advisories, {len(found)} vulnerabilities"
    )
    if not audited:
        print("NOT AUDITED: no database of advisories can be reached from here")
    return 1 if found or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
