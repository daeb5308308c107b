"""DescribeLogDirs, API key 35, versions 0 to 5: each data directory, the logs in it and their sizes.

- Null asks for every log, a list for those it names; a directory without any of them is told all the same.
- 2 is flexible, 3 has an error for the whole answer, 4 tells the disk's size (KIP-827), 5 whether new logs are kept out
  of a directory (cordoned.log.dirs, KIP-1066).
- A log that is being moved (AlterReplicaLogDirs) is told in both directories, as future in the one that it goes to, with the
  offsets that are still missing there. Else there is no other copy that a log could be behind: the lag is 0.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ..requests.access import requires_request
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..requests.context import RequestContext
    from ..requests.services import Services

_FIRST_WITH_DISK_SIZE = 4

_Rows = dict[str, list[DescribeLogDirsPartition]]


@api(
    ApiKey.DESCRIBE_LOG_DIRS,
    (0, 5),
    DescribeLogDirsRequest,
    requires=(requires_request(AclOperation.DESCRIBE, ResourceType.CLUSTER),),
    many_names=True,
)
async def describe_log_dirs(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    services, tell_disk = context.services, context.api_version >= _FIRST_WITH_DISK_SIZE
    cordoned = _normal(services.config.cordoned_log_dirs)
    run = services.loop.run_in_executor
    rows = await run(services.io_pool, _rows, request, services)
    results = [
        await run(services.io_pool, _describe, path, topics, tell_disk, path in cordoned)
        for path, topics in rows.items()
    ]
    return DescribeLogDirsResponse(results=results)


def _rows(request: DescribeLogDirsRequest, services: Services) -> dict[str, _Rows]:
    """Requested logs, by directory and topic. Pool thread: of ten thousand logs the loop would be held for long."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    found: dict[str, _Rows] = {os.path.normpath(path): {} for path in services.logs.directories}
    for log in sorted(services.logs.logs(), key=lambda log: (log.topic, log.partition)):
        if wanted is None or (log.topic, log.partition) in wanted:
            row = DescribeLogDirsPartition(partition_index=log.partition, partition_size=log.size)
            found[os.path.dirname(os.path.normpath(log.directory))].setdefault(log.topic, []).append(row)
    for move in services.logs.moves():
        log = move.log
        if not move.is_done and (wanted is None or (log.topic, log.partition) in wanted):
            row = DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size=move.copied_bytes,
                offset_lag=move.offset_lag,
                is_future_key=True,
            )
            found[os.path.normpath(move.target.directory.path)].setdefault(log.topic, []).append(row)
    return found


def _normal(paths: Iterable[str]) -> set[str]:
    return {os.path.normpath(path) for path in paths}


def _describe(path: str, topics: _Rows, tell_disk: bool, is_cordoned: bool) -> DescribeLogDirsResult:
    """Pool thread: a sick disk takes its time to answer."""
    result = DescribeLogDirsResult(log_dir=os.path.abspath(path), is_cordoned=is_cordoned)
    try:
        disk = shutil.disk_usage(path)
    except OSError as error:
        result.error_code = error_code(error)[0]
        return result
    result.topics = [DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()]
    if tell_disk:
        result.total_bytes, result.usable_bytes = disk.total, disk.free
    return result
