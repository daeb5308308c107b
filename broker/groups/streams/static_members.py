"""Static members of streams groups (Kafka 4.4): who goes for a while keeps its tasks for a session, and returns under another id.

    leaves (-2) ──► away: nobody gets its tasks ──joins──► relabelled: the new id has them, and is away ──► its heartbeat is taken
                      └──session over──► put out as any other member

Pure.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ....protocol.errors import ErrorCode, ProtocolError
from ..heartbeat.group import AWAY_EPOCH, JOINING_EPOCH
from ..heartbeat.machine import Delay, DelaySet, MemberGone, Outcome
from ..store.group import Group
from ..store.timers import DelayKind
from .group import StreamsGroup, StreamsMember
from .records import current_record, member_record, member_tombstones, target_record
from .requests import StreamsHeartbeat
from .tasks import NO_TASKS, OWNS_NOTHING

log = logging.getLogger(__name__)


def away(member: StreamsMember) -> StreamsMember:
    """The member until it comes back. The epochs of its tasks begin again with its successor, whose commits so count whatever its
    epoch is.
    """
    owned = member.assigned
    active = {name: dict.fromkeys(partitions, 0) for name, partitions in owned.active.items()}
    return replace(member, member_epoch=AWAY_EPOCH, assigned=owned._replace(active=active), pending=OWNS_NOTHING)


def relabelled(found: Group | None, request: StreamsHeartbeat, session_ms: int) -> Outcome[None]:
    """A static member that was away joins under another id: all that it had is under that id from here on. It stays away until
    its heartbeat is taken, so that one which is refused may be sent again.
    """
    old = found.static_member(request.instance_id) if isinstance(found, StreamsGroup) else None
    if old is None or not request.is_joining or old.member_epoch != AWAY_EPOCH or old.member_id == request.member_id:
        return Outcome(None)
    assert isinstance(found, StreamsGroup)
    group_id, member = found.group_id, replace(old, member_id=request.member_id)
    log.info("group %s: member %s in place of %s (%s)", group_id, member.member_id, old.member_id, old.instance_id)
    records = [
        *member_tombstones(group_id, old.member_id),
        member_record(group_id, member),
        target_record(group_id, member.member_id, found.target.get(old.member_id, NO_TASKS)),
        current_record(group_id, member),
    ]
    session = DelaySet(Delay(DelayKind.SESSION, member.member_id), session_ms)
    return Outcome(None, records, [MemberGone(old.member_id), session])


def returned(static: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """The member that joins as this static one. ProtocolError UNRELEASED_INSTANCE_ID unless that was away."""
    if static.member_epoch != AWAY_EPOCH:
        raise ProtocolError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {static.member_id} member.",
        )
    return replace(static, member_id=request.member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH)
