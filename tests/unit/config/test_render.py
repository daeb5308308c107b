"""The generated files are those that the table makes, and what they say holds."""

from __future__ import annotations

import re
from pathlib import Path

from tidelog.config import render
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.definitions import BROKER_SETTINGS, HONOURED_BROKER, HONOURED_TOPIC
from tidelog.config.loader import load_config

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
        assert f"`{name}`" in page, name


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
