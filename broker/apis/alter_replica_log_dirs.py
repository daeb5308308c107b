"""AlterReplicaLogDirs, API key 34, versions 0 to 2: in which data directory a partition lies (KIP-113).

- The answer comes when the move has begun; DescribeLogDirs tells how far it is, and where the partition lies at last.
- A partition that lies there already is answered with no error; a move of it to elsewhere ends with that. A move to
  the same directory that is under way goes on.
- A path that is none of `log.dirs` is LOG_DIR_NOT_FOUND, one of cordoned.log.dirs INVALID_REPLICA_ASSIGNMENT (KIP-1066), a topic
  whose name leaves no room for the copy's INVALID_TOPIC_EXCEPTION, a partition that is not here UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ..requests.access import requires_request
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services

log = logging.getLogger(__name__)


@api(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    (0, 2),
    AlterReplicaLogDirsRequest,
    requires=(requires_request(AclOperation.ALTER, ResourceType.CLUSTER),),
    audited=True,
    many_names=True,
)
async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    is_allowed = context.allows(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    results = []
    turns = Turns(context)
    for wanted in request.dirs:
        for topic in wanted.topics:
            if turns.spent():
                await turns.next()
            rows = []
            for index in topic.partitions:
                if turns.spent():
                    await turns.next()
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if is_allowed:
                    code = await _answer(wanted.path, topic.name, index, context)
                rows.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
            results.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=rows))
    return AlterReplicaLogDirsResponse(results=results)


def _directory(path: str, services: Services) -> str | None:
    """The data directory that is meant, by the name that it has in `log.dirs`."""
    known = {os.path.abspath(directory): directory for directory in services.logs.directories}
    return known.get(os.path.normpath(path)) if os.path.isabs(path) else None


async def _answer(path: str, topic: str, index: int, context: RequestContext) -> ErrorCode:
    services = context.services
    directory = _directory(path, services)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if services.topics.log(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        await services.mover.get().move(topic, index, directory)
    except ProtocolError as error:
        log.warning("%s", error)
        return error.code
    return ErrorCode.NONE
