"""The settings, one row each: name, type, default, what it may be, what it means.

A module for each subject; `../definitions.py` puts them together, and a new setting is a row here. Start reading at `broker.py`.
Rows are laid out by hand (`# fmt: off`): the facts on the first lines, then what a setting means.
"""
