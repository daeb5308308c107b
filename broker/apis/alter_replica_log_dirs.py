"""AlterReplicaLogDirs, API key 34, versions 0 to 2: in which data directory a partition lies (KIP-113).

- A partition that lies there already is answered with no error, as in Kafka.
- A running daemon does not move one: UNSUPPORTED_VERSION, and a log line that says how: a stopped daemon's partition
  directory may be moved with `mv` to another of `log.dirs`, and is found there by the next start.
- A path that is none of `log.dirs` is LOG_DIR_NOT_FOUND, a partition that is not here UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext

log = logging.getLogger(__name__)


@api(ApiKey.ALTER_REPLICA_LOG_DIRS, (0, 2), AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=_answer(wanted.path, topic.name, index, context)
                    )
                    for index in topic.partitions
                ],
            )
            for wanted in request.dirs
            for topic in wanted.topics
        ]
    )


def _answer(path: str, topic: str, index: int, context: RequestContext) -> ErrorCode:
    broker = context.broker
    known = {os.path.abspath(directory) for directory in broker.logs.directories}
    if not os.path.isabs(path) or os.path.normpath(path) not in known:
        return ErrorCode.LOG_DIR_NOT_FOUND
    found = broker.topics.log(topic, index)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    present = os.path.abspath(found.directory)
    if os.path.dirname(present) == os.path.normpath(path):
        return ErrorCode.NONE
    log.warning("%s-%d is not moved while the daemon runs: stop it, then mv %s %s", topic, index, present, path)
    return ErrorCode.UNSUPPORTED_VERSION
