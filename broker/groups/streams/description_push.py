"""A topology's description on its way into the store, and out of it (KIP-1331).

    the group's record says -2 ─► the store has it, or not ─► the record says which epoch is stored, or refused for good

The store and the log are written one after the other, so a stop in between leaves -2: no description is told, a member is asked
for it again. Descriptions are removed in the same order. What a write of the log refuses changes nothing (`Outcome`).

`keep` and `remove` are for the loop thread, and go on when their client leaves only if their caller sees to that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError
from ....storage.exceptions import KafkaStorageError
from ...metadata.topology_descriptions import DescriptionTooLarge
from ..heartbeat.machine import Outcome
from ..store.group import GroupType
from .descriptions import NONE, UNCERTAIN, asked_again, check_description, is_kept
from .group import StreamsGroup
from .records import epoch_record

if TYPE_CHECKING:
    from ...metadata.topology_descriptions import TopologyDescriptions
    from ..heartbeat.machine import Environment
    from ..heartbeat.runtime import HeartbeatGroups
    from ..store.group import Group
    from .descriptions import DescriptionEpochs

log = logging.getLogger(__name__)

Decide = Callable[["Group | None", int], Outcome[None]]


class DescriptionPush(NamedTuple):
    """A description that a member brings, for one epoch of the topology."""

    group_id: str
    member_id: str
    epoch: int
    description: bytes
    """As `descriptions.packed` made it."""


def streams_group(found: Group | None, group_id: str) -> StreamsGroup:
    """The group that was found under the id. ProtocolError GROUP_ID_NOT_FOUND."""
    if isinstance(found, StreamsGroup):
        return found
    why = f"Group {group_id} not found." if found is None else f"Group {group_id} is not a streams group."
    raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, why)


async def keep(groups: HeartbeatGroups, kept: TopologyDescriptions, push: DescriptionPush) -> None:
    """Store a description. Raises ProtocolError: STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED where it was not stored, or as
    `streams_group`, `check_description` and the writes of records do.
    """
    group_id, epoch = push.group_id, push.epoch
    group = groups.read(group_id)
    was_kept = isinstance(group, StreamsGroup) and is_kept(group, epoch, kept)
    await _run(groups, group_id, lambda found, _: _begins(found, push))
    try:
        await kept.put(group_id, epoch, push.description)
    except DescriptionTooLarge as error:
        log.warning("group %s: the description of its topology is refused: %s", group_id, error)
        # Who sends another one unasked takes away nothing: what is stored of this epoch is still there, and is told again.
        await _run(groups, group_id, lambda found, _: _ends(found, group, push, is_stored=was_kept))
        raise ProtocolError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, str(error)) from None
    except KafkaStorageError as error:
        log.error("group %s: the description of its topology is not stored: %s", group_id, error)
        if was_kept:
            with suppress(ProtocolError):
                await _run(groups, group_id, lambda found, _: _ends(found, group, push, is_stored=True))
        else:
            await _try_later(groups, group_id, epoch)
        why = "The topology description could not be stored."
        raise ProtocolError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, why) from error
    try:
        await _run(groups, group_id, lambda found, _: _ends(found, group, push, is_stored=True))
    except ProtocolError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:  # deleted meanwhile
            with suppress(KafkaStorageError):
                await kept.forget([group_id])
        else:
            await _try_later(groups, group_id, epoch)
        raise
    log.info("group %s: the description of its topology, epoch %d, is stored", group_id, epoch)


async def remove(groups: HeartbeatGroups, kept: TopologyDescriptions, group_id: str) -> None:
    """Remove a group's description: the group is to be deleted. Raises KafkaStorageError, or ProtocolError as the write of its
    record does.
    """
    await _run(groups, group_id, lambda group, _: _goes(group))
    await kept.forget([group_id])


async def _run(groups: HeartbeatGroups, group_id: str, decide: Decide) -> None:
    durable = groups.run(group_id, decide, kind=GroupType.STREAMS)
    if durable is not None:
        await durable


async def _try_later(groups: HeartbeatGroups, group_id: str, epoch: int) -> None:
    machine = groups.machine(GroupType.STREAMS)
    with suppress(ProtocolError):  # the coordinator closes
        await _run(groups, group_id, lambda _, now_ms: machine.description_failed(epoch, now_ms))


# -- outcomes


def _begins(found: Group | None, push: DescriptionPush) -> Outcome[None]:
    """The description is about to be stored."""
    group = streams_group(found, push.group_id)
    check_description(group, push.member_id, push.epoch)
    return _with_descriptions(group, group.descriptions._replace(stored=UNCERTAIN))


def _ends(found: Group | None, begun: Group | None, push: DescriptionPush, *, is_stored: bool) -> Outcome[None]:
    """The description is stored, or was refused for good: nobody needs to be asked for it. `begun`: the group that it is of;
    another of its id, made since, is of another application, whose topology may have the same epoch.
    """
    group, epoch = streams_group(found, push.group_id), push.epoch
    if group is not begun:
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {push.group_id} not found.")
    epochs = group.descriptions._replace(**{"stored" if is_stored else "failed": epoch})

    def note(kept: Group | None) -> None:
        if isinstance(kept, StreamsGroup) and kept.description_asked and kept.description_asked.epoch == epoch:
            kept.description_asked = None

    return replace(_with_descriptions(group, epochs), note=note)


def _goes(found: Group | None) -> Outcome[None]:
    """The description is about to be removed."""
    if not isinstance(found, StreamsGroup) or found.descriptions.stored == NONE:
        return Outcome(None)
    return _with_descriptions(found, found.descriptions._replace(stored=UNCERTAIN))


def description_failed(environment: Environment, epoch: int, now_ms: int) -> Outcome[None]:
    """The description could not be stored this time: nobody is asked for it for a while."""

    def note(kept: Group | None) -> None:
        if isinstance(kept, StreamsGroup) and (kept.description_asked is None or kept.description_asked.epoch <= epoch):
            kept.description_asked = asked_again(kept.description_asked, epoch, now_ms, environment.chance)

    return Outcome(None, note=note)


def _with_descriptions(group: StreamsGroup, epochs: DescriptionEpochs) -> Outcome[None]:
    if epochs == group.descriptions:
        return Outcome(None)
    record = epoch_record(
        group.group_id,
        group.group_epoch,
        group.metadata_hash,
        group.validated_topology_epoch,
        group.assignment_configs,
        epochs,
    )
    return Outcome(None, [record])
