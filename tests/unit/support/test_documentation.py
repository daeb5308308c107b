"""Every link of every page leads somewhere, and every code block is what it says it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documentation import (
    DOCS,
    PARSERS,
    ROOT,
    Block,
    Link,
    anchors,
    block_problems,
    blocks,
    commands,
    followed,
    link_problem,
    links,
    pages,
    printed_as,
)
from support.page_runs import needs_run


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_blocks(page: Path) -> None:
    wrong = [f"line {link.line}: {problem}" for link in links(page) if (problem := link_problem(link))]
    wrong += [f"line {block.line}: {problem}" for block in blocks(page) for problem in block_problems(block)]
    assert wrong == []


@pytest.mark.parametrize("page", followed(), ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_a_guide_is_run_or_says_why_not(page: Path) -> None:
    assert [block.place for block in needs_run(page)] == []


#: A file or a folder of tests, in the reason why a block is not run here.
_SHOWN_BY = re.compile(r"\b(?:tests|release|docker)/[\w./-]*\w")


def reasons(page: Path) -> Iterator[str]:
    yield from (block.note for block in blocks(page) if "not run" in block.marks)
    yield from re.findall(r"^<!-- none run: (.*) -->$", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_shows_that_a_block_is_true_is_there(page: Path) -> None:
    named = [name for reason in reasons(page) for name in _SHOWN_BY.findall(reason)]
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert not [reason for reason in reasons(page) if re.search(r"(?<![\w/])\w+\.py\b", reason)], (
        "named without its folder"
    )


def test_much_is_run() -> None:
    run = [block for page in followed() for block in blocks(page) if block.marks & {"run", "serves"}]
    assert len(followed()) >= 15
    assert len(run) >= 40


def test_a_command_without_a_mark_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert [block.line for block in needs_run(page)] == [5, 17]  # the second is marked


#: What a reader can type today. tidelog is on no index: no page and no message may say that it is.
NOT_ON_AN_INDEX = re.compile(r"pip install (?:--\S+ )*['\"]?tidelog\b")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_installs_from_an_index(page: Path) -> None:
    if page.parent.name == "adr" or page.name in ("CHANGELOG.md", "COMMAND_LINE.md"):
        return  # what was, and what commands say of themselves
    assert NOT_ON_AN_INDEX.findall(page.read_text(encoding="utf-8")) == []


def test_each_page_that_installs_says_it_as_the_install_page_does() -> None:
    """One text: a block that installs is the one of docs/how-to/install.md, byte for byte."""
    texts = {
        page.name: block.text
        for page in (DOCS / "how-to/install.md", DOCS / "QUICKSTART.md")
        for block in blocks(page)
        if "venv" in block.text
    }
    assert len(texts) == 2
    assert len(set(texts.values())) == 1, texts


def test_much_is_looked_at() -> None:
    assert sum(1 for page in pages() for _ in links(page)) > 80
    assert sum(1 for page in pages() for _ in blocks(page)) > 100
    told = [words for page in pages() for block in blocks(page) for words in commands(block.text)]
    assert len(told) > 30
    assert {words[0] for words in told if words} >= {"serve", "produce", "consume", "log", "why", "clean", "topics"}


PAGE = """# Title of `it`, and more

Text with a [link](there.md#a-heading) and `code [not](one.md)`.

    tidelog topics list
    tidelog nonsense

- item

    of the item, no block

<!-- run -->
```sh
tidelog why a | head
```

```python
def broken(:
```
"""


def test_a_page_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert anchors(page) == {"title-of-it-and-more"}
    assert [(link.line, link.target) for link in links(page)] == [(3, "there.md#a-heading")]
    found = list(blocks(page))
    assert [(one.line, one.language, set(one.marks)) for one in found] == [
        (5, "", set()),
        (13, "sh", {"run"}),
        (17, "python", set()),
    ]
    assert list(commands(found[1].text)) == [["why", "a"]]


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = DOCS / "OPERATING.md"

    def problem(target: str, of: Path = page) -> str | None:
        return link_problem(Link(of, 1, target))

    assert problem("CONTAINER.md") is None
    assert problem("CONTAINER.md#which-address-clients-are-told") is None
    assert problem("#health") is None
    assert problem("https://example.org/x#y") is None
    assert problem("docs/adr/0001-files-are-kafkas.md", ROOT / "README.md") is None
    assert "no NOWHERE.md" in str(problem("NOWHERE.md"))
    assert "no heading" in str(problem("CONTAINER.md#nowhere"))
    assert "not on the site" in str(problem("../README.md"))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "def broken(:\n"),
        ("sh", "for x in\n"),
        ("sh", "tidelog topics make x\n"),
        ("sh", "seq 3 | tidelog produce --no-such-option t\n"),
        ("", "$ tidelog serve --set log.retention.hous=3\n"),
        ("sh", "TIDELOG_LOG_RETENTION_HOUS=3 tidelog serve\n"),
        ("toml", "a = \n"),
        ("json", "{a: 1}\n"),
        ("ini", "a = 1\n"),
        ("ini", "[pytest]\ntidelog_settings =\n    num.partitins=3\n"),
        ("properties", "log.retention.hous=3\n"),
        ("java", "class A { void a() { }\n"),
        ("go", 'var a = map[string]string{"TIDELOG_NUM_PARTITINS": "3"}\n'),
        ("typescript", "const a = { b: [1) };\n"),
        ("js", "const a = { b: [1) };\n"),
        ("fortran", "PRINT *, 'x'\n"),
    ],
)
def test_a_block_that_is_wrong_is_found(language: str, text: str) -> None:
    assert block_problems(Block(ROOT / "README.md", 1, language, text, frozenset()))


def test_each_parser_takes_what_is_right() -> None:
    right = {
        "": "$ tidelog serve --set log.retention.hours=3   # comment\n",
        "text": "any\n",
        "python": "await x\n",
        "sh": "tidelog why a | head\n",
        "console": "$ tidelog topics list\n",
        "toml": "a = 1\n",
        "json": "{}\n",
        "ini": "[pytest]\ntidelog_settings =\n    num.partitions=3\n",
        "properties": "# comment\nlog.retention.hours=3\n",
        "java": 'class A { void a() { b("TIDELOG_NUM_PARTITIONS", ")"); } }\n',
        "go": "func a() []string { return nil }\n",
        "typescript": "const a = { b: `(`, c: [1] };\n",
        "js": "const a = { b: [1] };\n",
    }
    assert set(right) == set(PARSERS)
    for language, text in right.items():
        assert block_problems(Block(ROOT / "README.md", 1, language, text, frozenset())) == [], language


def test_what_is_printed_is_compared_with_gaps() -> None:
    assert printed_as("a\n…\nb in … s\n", "a\nx\ny\nb in 3 s\n")
    assert not printed_as("a\nb\n", "a\nx\nb\n")
    assert not printed_as("a.c\n", "abc\n")
