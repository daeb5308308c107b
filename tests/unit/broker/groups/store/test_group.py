"""Who may take over an id, as Kafka 4.3 decides it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tidelog.broker.groups.store.group import Claim, GroupType, claim, wanted_types

CLASSIC, CONSUMER, SHARE, STREAMS = GroupType


@pytest.mark.parametrize("kind", GroupType)
def test_nobody_has_it(kind):
    assert claim(kind, None) is Claim.NEW


@pytest.mark.parametrize("wanted", GroupType)
@pytest.mark.parametrize("found", GroupType)
@pytest.mark.parametrize("is_empty", [False, True])
def test_claims(wanted, found, is_empty):
    expected = {
        (CLASSIC, CONSUMER): Claim.REPLACE if is_empty else Claim.MIGRATE,
        (CONSUMER, CLASSIC): Claim.REPLACE if is_empty else Claim.MIGRATE,
        (CLASSIC, STREAMS): Claim.REPLACE if is_empty else Claim.REFUSE,
        (STREAMS, CLASSIC): Claim.REPLACE if is_empty else Claim.REFUSE,
    }.get((wanted, found), Claim.KEEP if wanted is found else Claim.REFUSE)
    assert claim(wanted, SimpleNamespace(group_type=found, is_empty=is_empty)) is expected


def test_a_filter_is_read_without_regard_to_case():
    assert wanted_types([" Consumer", "SHARE "]) == {GroupType.CONSUMER, GroupType.SHARE}
    assert GroupType.CONSUMER in wanted_types(["consumer"])
