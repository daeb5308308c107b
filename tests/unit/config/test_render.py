"""The generated files are those that the table makes, and what they say holds."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from tidelog.config import render
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.definitions import BROKER_SETTINGS, HONOURED_BROKER, HONOURED_TOPIC, TOPIC_OF_BROKER
from tidelog.config.loader import load_config
from tidelog.config.when_to_change import WHEN, when_to_change

DOCS = Path(__file__).parents[3] / "docs"


def test_the_committed_files_are_what_the_table_makes(tmp_path: Path) -> None:
    render.main(tmp_path)
    for name in ("SETTINGS.md", "server.properties.sample"):
        assert (DOCS / name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8"), (
            f"docs/{name} is not what the table says: run `python -m tidelog.config.render`"
        )


def test_the_page_names_every_setting() -> None:
    page = render.render_markdown()
    for name in [*BROKER_SETTINGS, *(row.name for row in HONOURED_TOPIC)]:
        assert f"`{name}`" in page or f"\n#### {name}\n" in page, name


def test_each_setting_has_one_entry_with_its_name_for_an_anchor() -> None:
    page = render.render_markdown()
    ids = re.findall(r'<a id="([^"]+)"></a>', page)
    ids += [name for name in re.findall(r"^#### (\S+)$", page, re.MULTILINE) if "." not in name]
    assert len(ids) == len(set(ids))
    assert {row.name for row in (*HONOURED_BROKER, *HONOURED_TOPIC)} - set(ids) == set()


def test_each_entry_says_type_default_range_and_when_to_change_it() -> None:
    page = render.render_markdown()
    entries = dict(re.findall(r"^#### (\S+)\n(.*?)(?=^<a id|^#+ |\Z)", page, re.MULTILINE | re.DOTALL))
    for row in HONOURED_TOPIC:
        assert row.doc in entries[row.name], row.name
        assert f"\n{row.type.name.lower()}; default " in entries[row.name], row.name
        assert row.allowed_text() in entries[row.name], row.name
    silent = {
        row.name for row in (*HONOURED_BROKER, *HONOURED_TOPIC) if not row.internal and not when_to_change(row.name)
    }
    assert silent - TOPIC_OF_BROKER.keys() == set(), "add a sentence to config/when_to_change.py"


def test_each_sentence_of_when_to_change_is_of_a_setting() -> None:
    names = [row.name for row in (*HONOURED_BROKER, *HONOURED_TOPIC)]
    taken = {next((pattern for pattern, _ in WHEN if fnmatchcase(name, pattern)), None) for name in names}
    assert [pattern for pattern, _ in WHEN if pattern not in taken] == [], "no setting, or one above has it"


def test_the_sample_file_switched_on_is_the_default_configuration(tmp_path: Path) -> None:
    lines = re.findall(r"^#(\S+=.*)$", render.render_sample(), re.MULTILINE)
    assert len(lines) == len([row for row in HONOURED_BROKER if not row.internal])
    # A setting without default is shown with no value, and stays out.
    unset = {row.name for row in HONOURED_BROKER if row.default is None}
    file = tmp_path / "server.properties"
    file.write_text("\n".join(line for line in lines if line.partition("=")[0] not in unset), encoding="utf-8")
    config = load_config(file)
    for row in HONOURED_BROKER:
        assert getattr(config, row.attribute) == getattr(BrokerConfig(), row.attribute), row.name
    assert config.notices == ()
