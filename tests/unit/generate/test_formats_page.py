from __future__ import annotations

import re
from pathlib import Path

import pytest
from generate import formats_page, formats_samples
from tidelog.storage.inspect.verify_report import RULES

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("docs")
    formats_page.main(directory)
    return (directory / "FORMATS.md").read_text(encoding="utf-8")


def test_the_committed_page_is_what_the_code_makes(page: str) -> None:
    assert (DOCS / "FORMATS.md").read_text(encoding="utf-8") == page, (
        "docs/FORMATS.md is not what the code says: run `make docs`"
    )


def test_it_names_every_layout_and_rule(page: str) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        assert f"(`{suffix}`)" in page
    for file in (
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "tidelog-recovery-point-offset-checkpoint",
        "tidelog-last-stop",
        "tidelog-scrub",
        "partition.metadata",
        "meta.properties",
    ):
        assert file in page
    assert all(f"| `{rule}` |" in page for rule in RULES)


def test_worked_examples(page: str) -> None:
    assert "To read from offset 23: the greatest entry not above it is (22, 656)" in page
    assert "The file's limit was set to 67 bytes: it has 64, whole entries only." in page
    assert "`00000000000000114514.log`" in page


def test_the_table_of_sizes(page: str) -> None:
    rows = re.findall(r"^\| (\d+ \w+) \| (\d) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", page, re.MULTILINE)
    assert len(rows) == len(formats_samples.VALUE_SIZES) * 3
    assert rows[0][:3] == ("10 B", "0", "36")  # 26 and the value
    assert rows[1][:3] == ("10 B", "1", "44")
    assert rows[2][:3] == ("10 B", "2", "78")  # 61; six one-byte fields, the length before them, and the value
    # Many small records are cheapest in format 2, a single one is dearest there.
    assert int(rows[2][5].replace(",", "")) < int(rows[0][5].replace(",", ""))


def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(\.\./([^)]+)\)", page):
        assert (DOCS.parent / target).is_file(), target
