"""docs/how-to/test-clients-under-faults.md: its examples as they stand, and what the page says that they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tidelog.testing import schedule

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "test-clients-under-faults.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", TEXT, re.DOTALL))


def run(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The example under a pytest that knows nothing of this repository."""
    (folder / name).write_text(EXAMPLES[name], encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", name, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_page_has_three_examples() -> None:
    assert list(EXAMPLES) == ["test_once.py", "test_kept.py", "test_commits.py"]


def test_the_first_finds_a_duplicate_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    done = run("test_once.py", tmp_path)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    (shown,) = re.findall(r"<!-- output of test_once\.py -->\n\n((?:    .*\n|\n)+)", TEXT)
    for line in shown.splitlines():
        assert line.strip() in done.stdout, f"{line.strip()!r} is not in\n{done.stdout}"
    assert "what tidelog saw and did" in done.stdout
    (traced,) = re.findall(r"<!-- trace of test_once\.py -->\n\n((?:    .*\n)+)", TEXT)
    for line in traced.splitlines():  # a client is numbered by its process
        assert re.sub(r"producer-\d+", "producer-N", line.strip()) in re.sub(r"producer-\d+", "producer-N", done.stdout)
    (seed,) = re.findall(r"again: pytest --explore-seed (\d+)", shown)
    assert f"seed {seed} fails" in run("test_once.py", tmp_path, "--explore-seed", seed).stdout
    mended = EXAMPLES["test_once.py"].replace(
        "retry_backoff_ms=20)", "retry_backoff_ms=20, enable_idempotence=True)", 1
    )
    EXAMPLES["test_once.py"], kept = mended, EXAMPLES["test_once.py"]
    try:
        assert "1 passed" in run("test_once.py", tmp_path, "--explore-seed", seed).stdout
    finally:
        EXAMPLES["test_once.py"] = kept


def test_the_others_pass(tmp_path: Path) -> None:
    for name in ("test_kept.py", "test_commits.py"):
        done = run(name, tmp_path)
        assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_every_rule_and_kind_is_in_a_table() -> None:
    for kind in schedule.KINDS:
        assert f"`{kind}`" in TEXT
    for name in re.findall(
        r"^def (\w+)\(.*\) -> \w+:", Path(schedule.__file__).read_text(encoding="utf-8"), re.MULTILINE
    ):
        if not name.startswith("_") and name not in {"as_code", "rules_of", "request"}:
            assert f"`{name}(" in TEXT, name
