from __future__ import annotations

import subprocess
from pathlib import Path

import check
import pytest
from check import changelog_says
from wheels import ReleaseError

OLD = "## [0.1.0] - 2026-01-01\n### Added\n- All of it.\n"


def test_the_newest_version_has_its_day() -> None:
    text = f"# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-31\n### Added\n- More.\n\n{OLD}"
    assert changelog_says(text, "0.2.0") == "2027-01-31"
    assert changelog_says(f"# Changelog\n\n{OLD}", "0.1.0") == "2026-01-01"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# Changelog\n", "no version"),
        ("# Changelog\n\n## [Unreleased]\n- More.\n", "no version"),
        (f"## [0.2.0]\n- More.\n{OLD}", "no date"),
        (f"## 0.2.0 (unreleased)\n- More.\n{OLD}", "no date"),
        (OLD, "newest version is"),
        (f"## [0.3.0] - 2027-02-01\n- More.\n{OLD}", "newest version is"),
        (f"## [0.2.0] - 2027-01-31\n\n{OLD}", "says nothing"),
    ],
)
def test_a_changelog_that_does_not_say_it_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ReleaseError, match=complaint):
        changelog_says(text, "0.2.0")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / ".gitignore").write_text("dist/\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(repository: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments], cwd=repository, check=True
    )


def commit(repository: Path) -> None:
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Change", "--allow-empty")


def test_a_tree_with_changes_is_no_release(repository: Path) -> None:
    assert check.check_tree()
    (repository / "dist").mkdir()
    (repository / "dist" / "tidelog.whl").write_text("")
    assert check.check_tree()
    (repository / "new.py").write_text("")
    with pytest.raises(ReleaseError, match=r"new\.py"):
        check.check_tree()


def test_a_tag_is_free_or_on_this_commit(repository: Path) -> None:
    assert check.check_tag() == "v0.2.0 is free"
    git(repository, "tag", "--annotate", "v0.2.0", "--message", "it")
    assert check.check_tag() == "v0.2.0 is on this commit"
    commit(repository)
    with pytest.raises(ReleaseError, match="another commit"):
        check.check_tag()


def test_checksums_are_what_sha256sum_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "DIST", tmp_path)
    for name in ("tidelog-0.2.0.tar.gz", "tidelog-0.2.0-x.whl", "tidelog_0.2.0.deb", "notes.txt"):
        (tmp_path / name).write_text(name)
    check.checksums()
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert sorted(checked.stdout.splitlines()) == [
        "tidelog-0.2.0-x.whl: OK", "tidelog-0.2.0.tar.gz: OK", "tidelog_0.2.0.deb: OK",
    ]  # fmt: skip


def test_every_step_runs_and_one_that_fails_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong() -> str:
        raise ReleaseError("not so")

    assert check.report([("first", wrong), ("second", lambda: "fine")]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["release: NO  first: not so", "release: ok  second: fine"]
    assert check.report([("second", lambda: "fine")]) == 0
