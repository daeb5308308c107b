"""The Makefile: what it lists, what it leaves, and that extras compile nothing."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.install_extras import requirements_of

ROOT = Path(__file__).resolve().parents[2]
MAKEFILES = sorted([ROOT / "Makefile", *ROOT.glob("tests/*/*.mk"), *ROOT.glob("*/*.mk")])


def text_of(path: Path) -> str:
    """With continued lines joined."""
    return path.read_text(encoding="utf-8").replace("\\\n", " ")


def test_help_shows_every_target_with_what_it_does() -> None:
    targets = {
        target
        for path in MAKEFILES
        for line in re.findall(r"^\.PHONY:(.*)$", text_of(path), flags=re.MULTILINE)
        for target in line.split()
        if "/" not in target
    }
    listed = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    ).stdout
    shown = [line.split(maxsplit=1) for line in listed.splitlines()]
    assert {"run", "test", "compat", "bench"} <= targets
    assert {words[0] for words in shown} == targets
    assert [words for words in shown if len(words) < 2] == []
    assert len(shown) == len(targets)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with this checkout's Makefiles, its .gitignore, and a source in each package."""
    for path in [*MAKEFILES, ROOT / ".gitignore", ROOT / "benchmarks/kafka-peer/versions"]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for package in ROOT.glob("*/__init__.py"):
        (tmp_path / package.parent.name).mkdir(exist_ok=True)
        (tmp_path / package.parent.name / "module.py").write_text("")
    for command in (
        ["git", "init", "-q"],
        ["git", "add", "."],
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "Begin"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path


def ignored(repository: Path) -> list[str]:
    lines = subprocess.run(
        ["git", "status", "--ignored", "--porcelain"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line.removeprefix("!! ") for line in lines]


def test_clean_leaves_nothing_but_data(clone: Path) -> None:
    """Whatever .gitignore names is something that a target makes, and all of it goes."""
    patterns = (clone / ".gitignore").read_text().split()
    for pattern in patterns:
        name = pattern.strip("/").replace("**", "kernel").replace("*", "some")
        anywhere = name in {"__pycache__", "node_modules", "some.so"}
        for folder in ("broker/", "") if anywhere and name != "some.so" else ("broker/",) if anywhere else ("",):
            path = clone / folder / name / "file" if pattern.endswith("/") else clone / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    assert len(ignored(clone)) >= len(patterns)
    subprocess.run(["make", "-s", "clean"], cwd=clone, check=True, env={"PATH": "/usr/bin:/bin:/usr/sbin"})
    assert ignored(clone) == ["data/"]


def test_extras_add_requirements_and_never_the_package_itself() -> None:
    """`pip install --editable '.[dev]'` for each extra would compile every kernel again for each."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert requirements_of(["dev", "bench"]) == [*extras["dev"], *extras["bench"]]
    with pytest.raises(KeyError):
        requirements_of(["devel"])
    builds = [
        line for path in MAKEFILES for line in text_of(path).splitlines() if re.search(r"install\b.*--editable", line)
    ]
    assert len(builds) == 1


def test_a_source_distribution_has_what_the_makefile_includes() -> None:
    included = re.findall(r"^include (.*)$", text_of(ROOT / "Makefile"), flags=re.MULTILINE)
    files = [file for line in included for file in line.split()]
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    grafted = {line.removeprefix("graft ") for line in manifest if line.startswith("graft ")}
    assert "tests/compat/compat.mk" in files
    assert [file for file in files if file.partition("/")[0] not in grafted] == []


def test_the_packages_folders_are_the_same_for_setup_make_and_the_image() -> None:
    """A folder that .dockerignore leaves out is missing where the image is built."""
    installed = re.search(r"^FOLDERS = \[(.*)\]$", (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    made = re.search(r"^FOLDERS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    let_in = re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert installed is not None
    assert made is not None
    folders = re.findall(r'"(\w+)"', installed[1])
    assert len(folders) > 5
    assert made[1].split() == folders
    assert [name for name in let_in if (ROOT / name).is_dir()] == folders
