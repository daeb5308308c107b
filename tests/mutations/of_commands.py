"""Defects of the command line."""

from __future__ import annotations

from .mutation import Mutation

NEAREST = "tests/unit/cli/support/test_nearest.py"
CONSUMER = "tests/unit/cli/support/test_own_consumer.py"
ARGUMENTS = "tests/unit/cli/support/test_arguments.py"

MUTATIONS = [
    Mutation(
        "commands/guess-of-a-stranger",
        "cli/support/nearest.py",
        "CUTOFF = 0.6",
        "CUTOFF = 0.1",
        "A name that is like no other gets a guess all the same.",
        (NEAREST,),
    ),
    Mutation(
        "commands/usage-without-the-line",
        "cli/support/arguments.py",
        '        option = next((text for text in unknown if text.startswith("--") and text != "--"), None)',
        "        option = None",
        "An option that there is not is told of without the one that was meant.",
        (ARGUMENTS,),
    ),
    Mutation(
        "commands/port-beside-listeners",
        "cli/serve.py",
        '    if "listeners" in config.given:',
        '    if "listeners" in config.given and config.origins["listeners"] == "--set":',
        "--port takes the place of listeners that a file or the environment has set.",
        ("tests/unit/cli/test_serve.py",),
    ),
    Mutation(
        "commands/records-of-a-failed-fetch",
        "cli/support/own_consumer.py",
        "            try:\n                self._send(node)\n            except (BrokerError, BrokerUnreachableError) as error:\n"
        "                self._failure = error\n",
        "            self._send(node)\n",
        "Records that came are lost where the fetch behind them can't be sent.",
        (CONSUMER,),
    ),
    Mutation(
        "commands/markers-printed",
        "cli/support/own_consumer.py",
        "        if header.is_control:",
        "        if header.is_control and aborted is not None:",
        "Markers of transactions are printed as records.",
        (CONSUMER,),
    ),
    Mutation(
        "commands/damage-printed",
        "cli/support/own_consumer.py",
        "            if not is_intact(buffer, header):",
        "            if False:",
        "A batch whose checksum is wrong is printed.",
        (CONSUMER,),
    ),
    Mutation(
        "commands/index-of-a-refused-record",
        "cli/support/own_producer.py",
        "            self._before += self._ranges.popleft()[1]",
        "            self._ranges.popleft()",
        "A refused record is told with the index of another.",
        ("tests/unit/cli/support/test_own_producer.py",),
    ),
    Mutation(
        "commands/line-without-an-end",
        "cli/support/record_input.py",
        "        if held > most_bytes:\n            break\n    if held",
        "    if held",
        "A line without an end is gathered to the last byte before it is refused.",
        ("tests/unit/cli/support/test_record_input.py",),
    ),
    Mutation(
        "commands/copies-as-given",
        "config/loader.py",
        "    values.update(dict.fromkeys(copies, 1))\n",
        "",
        "A number of copies above 1 is told as 1, and kept.",
        ("tests/unit/config/test_loader.py::test_copies_of_a_cluster_are_taken_and_read_as_one",),
    ),
    Mutation(
        "commands/http-of-another-daemon",
        "cli/support/http_client.py",
        "    if _is_loopback(host) and not _is_loopback(kafka_host):",
        "    if False:",
        "A loopback address that another machine's daemon tells is asked here, where another daemon may answer.",
        ("tests/unit/cli/support/test_http_client.py",),
    ),
    Mutation(
        "commands/port-as-configured",
        "broker/apis/describe_configs.py",
        "    if listener is None or listener.port or not port:",
        "    if True:",
        "http.listener is told with port 0, where nobody listens.",
        ("tests/unit/broker/apis/test_describe_configs.py",),
    ),
    Mutation(
        "commands/service-read-only-logs",
        "cli/service.py",
        "paths = [str(path) for path in self.elsewhere]",
        "paths: list[str] = []",
        "Directories of logs outside of the state directory can't be written to by the service.",
        ("tests/unit/cli/test_service.py",),
    ),
    Mutation(
        "commands/service-specifiers",
        "cli/service.py",
        'word.replace("%", "%%")',
        "word",
        "systemd reads a % of a path as one of its specifiers.",
        ("tests/unit/cli/test_service.py",),
    ),
]
