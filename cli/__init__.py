"""The command line: a module for each word after `tidelog`, with `add_parser` and what runs.

`log/` has the tools that read a data directory without a daemon, `support/` what several commands share. Start reading at
`main.py`, the entry.
"""
