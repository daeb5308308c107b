"""The installed message-set client against the installed daemon: message_set.py HOST:PORT TOPIC, after `round_trip.py`.

Reads the topic, appends a record and reads it back. One line is printed; exit status 1 when it did not come back.
"""

from __future__ import annotations

import sys

from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.message_set import NewRecord


def main(address: str, topic: str) -> int:
    host, _, port = address.rpartition(":")
    with MessageSetClient(host, int(port)) as client:
        before = list(client.read(topic, 0))
        offset = client.produce(topic, 0, [NewRecord(b"from the wheel", key=b"key")], magic=1)
        after = list(client.read(topic, 0))
    heavy = sorted({"asyncio", "pydantic", "prometheus_client", "sqlite3", "uvloop"} & sys.modules.keys())
    if (
        not before
        or after[:-1] != before
        or (after[-1].offset, after[-1].value) != (offset, b"from the wheel")
        or heavy
    ):
        print(f"{len(before)} records before, then {after[-1:]} where offset {offset} was to come; imported {heavy}")
        return 1
    print(f"{len(after)} records by the message-set protocol from {topic}-0")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
