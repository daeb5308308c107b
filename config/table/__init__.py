"""The settings, one row each: name, type, default, what it may be, what it means.

A module for each subject; `../definitions.py` puts them together. A new setting is:

    a row here        the broker's in the module of its subject, a topic's in `topic.py`
    an attribute      in `../broker_config.py`; of a topic's in `../log_config.py`, and with `synonyms` in both
    `make docs`       writes docs/SETTINGS.md and the sample file, by `../render.py`

Validation, DescribeConfigs, the environment variable and the console follow from the row. CONTRIBUTING.md has the whole recipe,
with what `dynamic=True` asks for. Start reading at `broker.py`.
Rows are laid out by hand (`# fmt: off`): the facts on the first lines, then what a setting means.
"""
