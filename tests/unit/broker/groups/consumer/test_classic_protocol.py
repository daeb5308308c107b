"""Blobs of classic consumers, in any version."""

from __future__ import annotations

import pytest
from support.groups import subscription
from support.heartbeat_groups import Image
from tidelog.broker.groups.consumer.classic_protocol import (
    assignment_bytes,
    by_id,
    named,
    read_assignment,
    read_subscription,
    version_of,
)
from tidelog.protocol.errors import MalformedRequest


def test_there_and_back():
    image = Image(t=3, u=1)
    partitions = {image.id("t"): frozenset({2, 0}), image.id("u"): frozenset({0}), b"gone" * 4: frozenset({1})}
    for version in range(4):
        read = read_assignment(assignment_bytes(partitions, image, version))
        names = named(read.assigned_partitions)
        assert names == {"t": {0, 2}, "u": {0}}
        assert by_id({**names, "missing": frozenset({1})}, image) == {
            topic: each for topic, each in partitions.items() if image.by_id(topic)
        }
    assert read_assignment(b"").assigned_partitions == ()


def test_a_later_version_is_read_as_the_last_known():
    later = b"\x00\x09" + subscription("t")[2:] + b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff" + b"\xff\xff" + b"more"
    assert version_of(later) == 3
    assert read_subscription(later).topics == ["t"]


@pytest.mark.parametrize("bad", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09"])
def test_what_is_none(bad):
    with pytest.raises(MalformedRequest):
        read_subscription(bad)
