"""Defects of the Kafka client's core, which the command line and the pipeline stand on."""

from __future__ import annotations

from .mutation import Mutation

PROTOCOL = "tests/unit/clients/kafka/test_protocol.py"

MUTATIONS = [
    Mutation(
        "clients/answer-of-another-request",
        "clients/kafka/protocol.py",
        "        if correlation_id != ticket.correlation_id:",
        "        if correlation_id < ticket.correlation_id:",
        "The answer to a later request is taken for this one's.",
        (PROTOCOL,),
    ),
    Mutation(
        "clients/version-of-our-own",
        "clients/kafka/protocol.py",
        "max(low, at_least, own_low), min(high, most, own_high)",
        "max(low, at_least, own_low), min(most, own_high)",
        "A request goes out in a version that the broker does not speak.",
        (PROTOCOL,),
    ),
    Mutation(
        "clients/announced-size",
        "clients/kafka/protocol.py",
        "    if not INT32.size <= size <= most_bytes:",
        "    if not INT32.size <= size:",
        "An answer of any announced size is waited for.",
        (PROTOCOL,),
    ),
    Mutation(
        "clients/announced-memory",
        "clients/kafka/protocol.py",
        "        data += bytes(room_for_answer(have, size) - have)",
        "        data += bytes(size - have)",
        "An answer gets the memory that it announces, and not what has come of it asks for.",
        (PROTOCOL,),
    ),
    Mutation(
        "clients/array-of-an-answer",
        "protocol/codec.py",
        "{count} > {MAX_ELEMENTS_OF_ANSWERS}: fail_array",
        "{count} < 0: fail_array",
        "An answer may have an array of any size.",
        ("tests/property/test_request_memory.py::test_an_array_of_an_answer_is_bounded_before_it_is_read",),
    ),
    Mutation(
        "clients/misrouted-goes-on",
        "pipeline/wire/client.py",
        "            if isinstance(error.__cause__, MisroutedError):\n                self._forget()\n",
        "",
        "A client whose addresses lead elsewhere goes on with what it knew.",
        ("tests/unit/pipeline/wire/test_client.py",),
    ),
]
