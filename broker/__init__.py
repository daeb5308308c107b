"""The daemon: network, APIs, coordinators, metrics. `server/` starts and stops it; each folder is a room.

A room imports rooms below it only: the order is in docs/ARCHITECTURE.md and, for import-linter, in pyproject.toml. Start reading
at `server/node.py`, then `network/connection.py` and `requests/dispatcher.py`.
"""
