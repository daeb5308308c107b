"""Apache Kafka's own broker and tools, to stand beside ours: jars by Maven coordinates, a one-node KRaft broker.

    python benchmarks/kafka_peer.py jars                         fetches the jars into .cache/kafka (once), prints where
    python benchmarks/kafka_peer.py start DIR PORT [NAME=VALUE]...   a broker on 127.0.0.1 until Ctrl-C or SIGTERM
    python benchmarks/kafka_peer.py tool CLASS ARGUMENT...       any class of the jars, e.g. DumpLogSegments --files ...

The release is the newest one, for `tool` the newest that has come with its tools (kafka-peer/versions), or the one that is
named first: `kafka_peer.py --release RELEASE start …`. Each has a folder and a class path of its own.
Needs Java 17 or newer, and Maven for the first time. Kafka runs as it is shipped: its start script's heap and
collector options (-Xmx1G -Xms1G, G1), its defaults for every setting but the replication factors of a single node.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import wire
from brokers import Broker, BrokerError, free_port

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.kafka_versions import NEWEST, TOOLS, numbers  # noqa: E402

CACHE = HERE.parent / ".cache" / "kafka"
POM = HERE / "kafka-peer" / "pom.xml"
LOGGING = HERE / "kafka-peer" / "log4j2.properties"
HEAP = ["-Xmx1G", "-Xms1G"]
COLLECTOR = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if not found:
        raise BrokerError("Apache Kafka needs Java 17 or newer: install one (Debian: openjdk-17-jre-headless)")
    return found


def jars(release: str = NEWEST) -> Path:
    """The folder with the jars of one release, fetched by Maven when this pom.xml's are not there yet.

    The programs of kafka-tools are among them if they have come out for that release.
    """
    cache = CACHE / release
    folder, stamp = cache / "jars", cache / "stamp"
    asked = [f"-Dkafka={release}", *(["-Dtools"] if numbers(release) <= numbers(TOOLS) else [])]
    wanted = hashlib.sha256(POM.read_bytes() + " ".join(asked).encode()).hexdigest()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once fetch once
        if stamp.exists() and stamp.read_text() == wanted:
            return folder
        maven = shutil.which("mvn")
        if not maven:
            raise BrokerError("Apache Kafka's jars come by Maven: install it (Debian: maven)")
        print(f"fetching the jars of Apache Kafka {release} (about 45 MB, once) ...", file=sys.stderr, flush=True)
        fresh = cache / "jars.new"
        shutil.rmtree(fresh, ignore_errors=True)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={fresh}", *asked]
        done = subprocess.run([maven, "-q", "-B", "-f", str(POM), *goal], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"Maven could not fetch Apache Kafka's jars:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        stamp.write_text(wanted)
    return folder


def tool_command(
    name: str,
    arguments: Sequence[str],
    options: Sequence[str] = ("-Xmx512m", "-XX:+UseSerialGC"),
    release: str = TOOLS,
) -> list[str]:
    """A command that runs a class of one release's jars; a bare class name means org.apache.kafka.tools."""
    full = name if "." in name else f"org.apache.kafka.tools.{name}"
    return [
        java(),
        *options,
        "-Dpeer.log=/dev/null",
        f"-Dlog4j2.configurationFile={LOGGING}",
        "-cp",
        f"{jars(release)}/*",
        full,
        *arguments,
    ]


class KafkaPeer(Broker):
    """Apache Kafka, one node, broker and controller in one process."""

    name = "kafka"

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None, release: str = NEWEST) -> None:
        super().__init__(directory, settings)
        self.release = release
        self.controller_port = free_port()
        self.log = directory / "server.log"

    def prepare(self) -> None:
        """Writes server.properties and, the first time, formats the data directory."""
        settings = {
            **ONE_NODE,
            "controller.quorum.voters": f"1@{wire.HOST}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{wire.HOST}:{self.port},CONTROLLER://{wire.HOST}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{wire.HOST}:{self.port}",
            "log.dirs": self.data,
            **self.settings,
        }
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if (self.data / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        words = ["format", "-t", cluster, "-c", str(properties)]
        command = tool_command("kafka.tools.StorageTool", words, release=self.release)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"Kafka's StorageTool could not format {self.data}:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        logging = [f"-Dpeer.log={self.log}", f"-Dlog4j2.configurationFile={LOGGING}"]
        properties = str(self.directory / "server.properties")
        return [java(), *HEAP, *COLLECTOR, *logging, "-cp", f"{jars(self.release)}/*", "kafka.Kafka", properties]


def main(arguments: Sequence[str]) -> int:
    named = ""
    if len(arguments) > 1 and arguments[0] == "--release":
        named, arguments = arguments[1], arguments[2:]
    match list(arguments):
        case ["jars"]:
            print(jars(named or NEWEST))
        case ["tool", name, *rest]:
            return subprocess.run(tool_command(name, rest, release=named or TOOLS), check=False).returncode
        case ["start", directory, port, *assignments]:
            settings = dict(word.split("=", 1) for word in assignments)
            broker = KafkaPeer(Path(directory).resolve(), settings, named or NEWEST)
            broker.port = int(port)
            stop = threading.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            seconds = broker.start()
            print(f"ready PLAINTEXT://{wire.HOST}:{port} after {seconds:.1f} s, pid {broker.pid}", flush=True)
            while broker.is_alive() and not stop.wait(0.2):
                pass
            broker.stop()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokerError as error:
        sys.exit(f"kafka_peer: {error}")
