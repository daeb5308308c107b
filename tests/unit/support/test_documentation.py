"""Every link of every page leads somewhere, and every code block is what it says it is."""

from __future__ import annotations

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
    link_problem,
    links,
    pages,
    printed_as,
)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_blocks(page: Path) -> None:
    wrong = [f"line {link.line}: {problem}" for link in links(page) if (problem := link_problem(link))]
    wrong += [f"line {block.line}: {problem}" for block in blocks(page) for problem in block_problems(block)]
    assert wrong == []


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
    }
    assert set(right) == set(PARSERS)
    for language, text in right.items():
        assert block_problems(Block(ROOT / "README.md", 1, language, text, frozenset())) == [], language


def test_what_is_printed_is_compared_with_gaps() -> None:
    assert printed_as("a\n…\nb in … s\n", "a\nx\ny\nb in 3 s\n")
    assert not printed_as("a\nb\n", "a\nx\nb\n")
    assert not printed_as("a.c\n", "abc\n")
