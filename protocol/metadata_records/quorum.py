"""Control records that say who the controllers are, where the quorum is kept in the log (KIP-853).

They stand in a snapshot behind its header; each value is one message, without a frame. With KRaft version 0, or without
these records, the voters are those of `controller.quorum.voters` in server.properties.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import Message, Struct, array, int16, int32, string, structure, uint16, uuid


class KRaftVersionRecord(Message):
    """Version 1: the quorum may change, and is in the log."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    version: int = int16()
    kraft_version: int = int16()


class VoterEndpoint(Struct):
    """Address of a controller on the listener `name`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    """KRaft versions that a controller supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Voter(Struct):
    """One controller: its node id, and the id of the data directory that has its metadata log."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: Sequence[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: KRaftVersionFeature = structure(KRaftVersionFeature)


class VotersRecord(Message):
    """All controllers."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    version: int = int16()
    voters: Sequence[Voter] = array(Voter)
