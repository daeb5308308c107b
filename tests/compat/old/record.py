"""Records what clients of 2013 to 2018 send: one request of each API and version, as tests/golden/old_clients has them.

    python tests/compat/old/record.py        (after `make compat-old-all`)

A client writes three records with each of its codecs, reads them, and commits; a tap in between keeps the requests.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.base import CODECS, Record
from support.clients.old_clients import OLD_CLIENTS, OldClient
from support.daemon import Daemon
from support.wire_tap import WireTap
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import parse_request_header

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "old_clients"
RECORDS = [Record(b"key", b"value"), Record(b"another", b"x" * 40), Record(b"last", b"y")]


def record(client: OldClient, tap: WireTap, address: str) -> list[str]:
    """Lines of `api version request`, in hex: the first of each API and version, of Produce also of each codec."""
    topic = f"golden-{client.stem}"
    tap.take()
    counts = {}
    lines: dict[tuple[str, int, str], str] = {}

    def keep(codec: str) -> None:
        for frame in tap.take():
            header, _ = parse_request_header(frame)
            api = ApiKey(header.api_key).name
            name = api, header.api_version, codec if api == "PRODUCE" else ""
            lines.setdefault(name, f"{api} {header.api_version} {name[2] or '-'} {frame.hex()}")

    for codec in client.codecs:
        client.write(address, {(topic, CODECS.index(codec), codec): RECORDS})
        counts[topic, CODECS.index(codec)] = len(RECORDS)
        keep(codec)
    if client.reads:
        client.read(address, counts)
        client.read(address, counts, f"group-{client.stem}")
    keep("-")
    return list(lines.values())


def main() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, WireTap() as tap:
        address = f"127.0.0.1:{tap.port}"
        settings = {"group.initial.rebalance.delay.ms": 0, "advertised.listeners": f"PLAINTEXT://{address}"}
        with Daemon(Path(directory) / "data", settings) as daemon:
            tap.target = daemon.address
            admin = AdminClient({"bootstrap.servers": address})
            for client in OLD_CLIENTS:
                topic = NewTopic(f"golden-{client.stem}", len(CODECS), 1)
                admin.create_topics([topic])[topic.topic].result(20)
            del admin
            for client in OLD_CLIENTS:
                if client.kind == "confluent-kafka" and client.magic == 2:
                    continue  # it asks for the versions all the same, and speaks as it does today
                lines = record(client, tap, address)
                (GOLDEN / f"{client.stem}.txt").write_text("".join(f"{line}\n" for line in lines))
                print(client.name, len(lines))


if __name__ == "__main__":
    main()
