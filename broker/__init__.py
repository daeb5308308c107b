"""The daemon: network, APIs, coordinators, metrics. Start reading at `server.py` (lifecycle), then `connection.py`."""
