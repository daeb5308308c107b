"""Installs the Debian package in a root that debootstrap has made, and goes through its life there: needs root.

    sudo .venv/bin/python release/try_deb.py [dist/tidelog_….deb]

Install, serve as the package's user, produce and fetch from outside, upgrade, go back, remove, purge. Settings outlast an upgrade
and a removal; records, topics and their settings outlast all of it, whichever version wrote them; and nothing else is left.

The other version is the same code under a higher number (`deb.with_version`): what is tried is the package's part of an upgrade,
and that a version goes on where another has stopped. That older files are read is for tests with kept files (tests/golden).
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bare_root import BareRoot
from deb import CONFIGURATION, PYTHONS, with_version
from debian_root import debian
from try_wheel import READY_S, ROUND_TRIP, SETTINGS, serving
from wheels import ROOT, ReleaseError, run

AS_ITS_USER = "setpriv --reuid=tidelog --regid=tidelog --clear-groups"


def expect(truth: object, what: str) -> None:
    if not truth:
        raise ReleaseError(what)
    print(f"deb: ok  {what}", flush=True)


Record = tuple[int, int, bytes | None, bytes | None]
TOPIC = "round-trip"
SETTING = "retention.ms"
SET_TO = "86400001"


def records_of(address: str) -> list[Record]:
    """Every record of the topic, by partition and offset, as a client of somebody else's reads them."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
    partitions = [TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC) or ()]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    found: list[Record] = []
    deadline = time.monotonic() + READY_S
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        if time.monotonic() > deadline:
            raise ReleaseError(f"{TOPIC} is not read to its end: {len(found)} records")
        for records in consumer.poll(timeout_ms=500).values():
            found += [(record.partition, record.offset, record.key, record.value) for record in records]
    consumer.close()
    return sorted(found)


class Life:
    """A tree with the package in it, and the records that it has so far."""

    def __init__(self, path: Path, python: str) -> None:
        self.path = path
        self.root = BareRoot(path, f"/usr/bin/python{python}", "")
        self.records: list[Record] = []

    def install(self, package: Path) -> str:
        """What dpkg prints."""
        shutil.copy2(package, self.path / "tidelog.deb")
        return self.root.run(script="dpkg -i /tidelog.deb")

    def command(self, *words: str) -> str:
        """Output of the installed command line, run by its user."""
        return self.root.run(script=f"exec {AS_ITS_USER} /usr/bin/tidelog {shlex.join(words)}")

    def serve(self, what: str) -> None:
        """Serves; all records from before are there, and the topic's setting; one more is written and read."""
        settings = shlex.join(["--config", f"/{CONFIGURATION}", *SETTINGS])
        with serving(self.root.command(script=f"exec {AS_ITS_USER} /usr/bin/tidelog serve {settings}")) as address:
            at = ("--bootstrap-server", address)
            if not self.records:
                self.command("topics", "create", TOPIC, "--config", f"{SETTING}={SET_TO}", *at)
            else:
                expect(
                    records_of(address) == self.records, f"{what}: {len(self.records)} records from before are there"
                )
                shown = self.command("configs", "describe", "--topic", TOPIC, SETTING, *at)
                expect(SET_TO in shown, f"{what}: the topic has its settings")
            told = run(sys.executable, str(ROUND_TRIP), address, TOPIC).strip()
            now = records_of(address)
            expect(
                len(now) == len(self.records) + 1 and set(self.records) <= set(now), f"{what}: one record more: {told}"
            )
            self.records = now


def live(package: Path, path: Path, python: str) -> None:
    """The package's life in the tree at `path`, which it may change."""
    life = Life(path, python)
    begin = time.monotonic()
    expect("systemctl enable --now tidelog" in life.install(package), "it installs, and says what to do next")
    life.serve("installed")
    print(f"deb: {time.monotonic() - begin:.0f} s from dpkg to the record", flush=True)
    owners = {entry.stat().st_uid for entry in (path / "var/lib/tidelog").rglob("*")}
    expect(len(owners) == 1 and 0 not in owners, "data belong to its user")
    with (path / CONFIGURATION).open("a") as settings:
        settings.write("num.partitions=1\n")
    older = life.command("--version").split()[1]
    newer = f"{older}.1"
    upgrade = with_version(package, f"{newer}-1", path)
    life.install(upgrade)
    expect(life.command("--version").split()[1] == newer, f"upgraded from {older} to {newer}")
    expect("num.partitions=1" in (path / CONFIGURATION).read_text(), "settings outlast an upgrade")
    life.serve("upgraded")
    expect("downgrading" in life.install(package), f"dpkg goes back to {older}")
    expect(life.command("--version").split()[1] == older, f"the command is {older} again")
    expect("num.partitions=1" in (path / CONFIGURATION).read_text(), "settings outlast the way back")
    life.serve("gone back")
    life.root.run(script="dpkg -r tidelog")
    expect(not (path / "opt/tidelog").exists(), "removed, nothing is left in /opt")
    expect((path / CONFIGURATION).exists(), "settings outlast a removal")
    life.root.run(script="dpkg -P tidelog")
    expect(not (path / "etc/tidelog").exists(), "purged, no settings are left")
    expect(list((path / "var/lib/tidelog").glob(f"{TOPIC}-*/*.log")), "data outlast all of it")


def main(arguments: Sequence[str]) -> int:
    found = [Path(name) for name in arguments] or sorted((ROOT / "dist").glob("tidelog_*~deb12_amd64.deb"))
    try:
        if not found:
            raise ReleaseError("no package in dist: `make deb` first")
        suite = "trixie" if "~deb13" in found[-1].name else "bookworm"
        with tempfile.TemporaryDirectory() as work:
            tree = Path(work, "root")
            run("cp", "--archive", str(debian(suite)), str(tree))
            live(found[-1], tree, PYTHONS[suite])
    except ReleaseError as error:
        print(f"deb: FAILED: {error}", file=sys.stderr)
        return 1
    print("deb: PASS")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
