"""What README and docs/ say is not there is not there, and each published figure is of a commit that anybody can look up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documentation import DOCS, ROOT, blocks
from tidelog.broker.requests.registry import load_apis
from tidelog.config.definitions import TOPIC_SETTINGS, Status, find_broker_setting

README = ROOT / "README.md"


# --- what is not there ---


def serves(name: str) -> bool:
    return any(key.name == name for key in load_apis())


def honours(name: str) -> bool:
    found = find_broker_setting(name)
    return found is not None and found.status is Status.HONOURED


#: Words for a feature → whether this daemon has it, by what it serves or honours and not by what a page says.
FEATURES: dict[str, Callable[[], bool]] = {
    r"access control list|\bACLs?\b": lambda: serves("CREATE_ACLS") and honours("super.users"),
    r"OAUTHBEARER": lambda: honours("sasl.oauthbearer.jwks.endpoint.url"),
    r"SCRAM": lambda: serves("ALTER_USER_SCRAM_CREDENTIALS"),
    r"\bTLS\b": lambda: honours("ssl.keystore.location"),
    r"authentication for HTTP": lambda: honours("http.authentication"),
    r"authentication for .*message.set": lambda: honours("message.set.authentication"),
    r"transactions?\b": lambda: serves("END_TXN"),
    r"share groups?": lambda: serves("SHARE_FETCH"),
    r"quotas?": lambda: serves("ALTER_CLIENT_QUOTAS"),
    r"compaction": lambda: "cleanup.policy" in TOPIC_SETTINGS,
    r"[Rr]eplication|more than one node|several nodes": lambda: serves("ALTER_PARTITION") or serves("VOTE"),
    r"[Tt]iered storage": lambda: honours("remote.log.storage.system.enable"),
    r"[Dd]elegation tokens": lambda: honours("delegation.token.secret.key"),
    r"GSSAPI": lambda: honours("sasl.kerberos.service.name"),
}
DENIALS = re.compile(
    r"[Nn]ot yet|[Nn]ot built|this has not|not there|not built either|is not spoken|answered as not allowed"
)


def paragraphs(text: str) -> Iterator[str]:
    """Each with the heading above it, which may be the question that it answers; no code."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    heading = ""
    for part in re.split(r"\n\s*\n", text):
        if part.startswith("#"):
            heading = part.lstrip("#")
        elif not part.startswith("    "):
            yield f"{heading}\n{part}"


def denied(text: str) -> Iterator[str]:
    """Sentences that deny something, with the heading where that does."""
    for paragraph in paragraphs(text):
        heading, _, body = paragraph.partition("\n")
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(body.split())):
            if heading.strip().startswith("What is not there") or DENIALS.search(sentence):
                yield sentence


@pytest.mark.parametrize(
    "page",
    [
        README,
        *(
            DOCS / f"{name}.md"
            for name in ["FAQ", "SECURITY", "AUTHENTICATION", "ACCESS_CONTROL", "LIMITS", "QUICKSTART"]
        ),
    ],
    ids=lambda page: page.name,
)
def test_nothing_that_is_built_is_said_to_be_missing(page: Path) -> None:
    claimed = [
        (word, sentence)
        for sentence in denied(page.read_text(encoding="utf-8"))
        for word, built in FEATURES.items()
        if re.search(word, sentence) and built()
    ]
    assert claimed == []


@pytest.mark.parametrize("page", [README, DOCS / "FAQ.md"], ids=lambda page: page.name)
def test_what_is_missing_is_said(page: Path) -> None:
    said = " ".join(denied(page.read_text(encoding="utf-8")))
    assert said
    missing = [word for word, built in FEATURES.items() if not built()]
    assert len(missing) == 4, "a feature was built: take it from the pages, or a name above is none"
    assert [word for word in missing if not re.search(word, said)] == []


def test_a_sentence_like_those_of_before_is_found() -> None:
    said = (
        "## What is there\n\nText. Not yet: access control lists (whoever is let in\nmay do everything), OAUTHBEARER.\n"
    )
    assert list(denied(said)) == ["Not yet: access control lists (whoever is let in may do everything), OAUTHBEARER."]
    assert [word for word, built in FEATURES.items() if re.search(word, *denied(said)) and built()] == list(FEATURES)[
        :2
    ]


# --- figures ---


def git(*arguments: str) -> str | None:
    """What it prints; None when it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commits_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from [inner] if name == "commit" and isinstance(inner, str) else commits_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from commits_in(inner)


def published() -> dict[str, set[str]]:
    """Page → the commits that its figures are of."""
    found: dict[str, set[str]] = {}
    pages = (README, DOCS / "SECURITY.md", DOCS / "AUTHENTICATION.md")
    for path in (*(DOCS / "benchmarks").iterdir(), *(DOCS / "reports").iterdir(), *pages):
        if path.suffix == ".json":
            commits = set(commits_in(json.loads(path.read_text(encoding="utf-8"))))
        elif path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            commits = set(re.findall(r"\bcommit:? ([0-9a-f]{7,40}(?:-dirty)?)\b", text))
            commits |= set(re.findall(r"\| ([0-9a-f]{7,40}(?:-dirty)?) \|$", text, flags=re.MULTILINE))
        else:
            continue
        if commits:
            found[str(path.relative_to(ROOT))] = commits
    return found


#: Those that the simulation ran at while it was extended.
SIMULATED = {"1cb1434a", "2a68513e", "4a9cf8b7", "6e65bb33", "769e6c52", "8085831e", "d04dc8b2", "ee0e3dbb"}
PLANTED = {"7b73347f", "c6b1381e", "d9b149d4", "efedd61c", "f752b483"}
#: Pages of commits that were folded into another before they were kept: 5eeb5c72 (`make compat-report` writes them anew),
#: cb2a35ee, e4759c46 to 419bf8a4.
FOLDED = {
    "docs/reports/clients.json": {"7b9399c5"},
    "docs/reports/clients.md": {"7b9399c5"},
    "docs/benchmarks/conversion.md": {"61295e7f"},
    "docs/reports/simulation.json": SIMULATED,
    "docs/reports/planted.json": PLANTED,
    "docs/reports/planted.md": PLANTED,
}


def test_each_published_figure_is_of_a_commit_of_the_history() -> None:
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("needs the history: no repository here, or a shallow one")
    pages = published()
    assert {"README.md", "docs/benchmarks/full.json", "docs/benchmarks/full.md"} <= set(pages)
    lost = [
        f"{page}: {commit}"
        for page, commits in sorted(pages.items())
        for commit in sorted(commits)
        if commit.removesuffix("-dirty") not in FOLDED.get(page, ())
        if git("merge-base", "--is-ancestor", commit.removesuffix("-dirty"), "HEAD") is None
    ]
    assert lost == []
    unused = {
        f"{page}: {folded}"
        for page, commits in FOLDED.items()
        for folded in commits
        if not any(folded in commit for commit in pages.get(page, ()))
    }
    assert unused == set()


def test_readmes_figures_are_of_clean_commits() -> None:
    """Each row's commit is that of a row of the full run, and nothing was changed beside it."""
    commits = published()["README.md"] | published()["docs/benchmarks/full.json"]
    assert [commit for commit in commits if commit.endswith("-dirty")] == []


def test_readme_compares_by_rows_of_the_full_run() -> None:
    """Each row names its commit, which the full run has too; the p99 beside the cleaner is among them."""
    rows = re.findall(
        r"^\| (.*) \| ([0-9a-f]{7,12}(?:-dirty)?) \|$", README.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    stored = json.loads((DOCS / "benchmarks/full.json").read_text(encoding="utf-8"))["rows"]
    assert len(rows) >= 14
    assert {commit for _, commit in rows} <= {row["commit"] for row in stored.values()}
    assert any("p99 of produces beside passes of the cleaner" in row for row, _ in rows)


def test_readmes_table_is_made_of_the_full_run() -> None:
    command = [sys.executable, "benchmarks/readme_table.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or "run `python benchmarks/readme_table.py`"


# --- samples and targets ---


def test_readmes_samples_do_not_read_each_others_records() -> None:
    """Pasted in order into one daemon, each prints what it wrote itself."""
    before: set[str] = set()
    for block in blocks(README):
        topics = set(re.findall(r"tidelog produce (\w+)", block.text)) | set(
            re.findall(r'(?:produce\("|subscribe\(\[")(\w+)', block.text)
        )
        if "run" in block.marks and block.language == "python":
            assert topics
            assert not topics & before, f"{block.place} reads what was written before it"
        before |= topics
    assert "greetings" in before


def test_make_names_each_package_folder() -> None:
    """Of `make clean`, of bandit and of what a new kernel rebuilds."""
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    folders = re.search(r"^FOLDERS := (.*)$", make, flags=re.MULTILINE)
    assert folders is not None
    installed = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(folders[1].split()) == installed
    recipe = make.partition("\nclean:")[2].partition("\n\n")[0]
    assert "find $(FOLDERS)" in recipe
    assert [word for word in installed if re.search(rf"\b{word}\b", recipe)] == []
