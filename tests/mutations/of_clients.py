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
]
