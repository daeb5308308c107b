"""Common parts of the requests about a share group's state: topics by id, their partitions, an answer for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..runtime.cooperative import TakesTurns, Turns
from ..runtime.error_codes import error_code
from .records import SharePartitionKey

if TYPE_CHECKING:
    from .coordinator import ShareCoordinator

TopicT = TypeVar("TopicT")


async def topic_results(
    request: Any,
    context: TakesTurns,
    coordinator: ShareCoordinator,
    topic_type: Callable[..., TopicT],
    partition_type: Callable[..., Any],
    outcome: Callable[[ShareCoordinator, SharePartitionKey, Any], Awaitable[Any]],
) -> list[TopicT]:
    """`topic_type` of each topic, with what `outcome` makes of each of its partitions, in the request's order.

    Where `outcome` fails, `partition_type` says with which code. Loop thread.
    """

    async def result(key: SharePartitionKey, part: Any) -> Any:
        try:
            return await outcome(coordinator, key, part)
        except Exception as error:
            code, message = error_code(error)
            return partition_type(partition=part.partition, error_code=code, error_message=message)

    results = []
    turns = Turns(context)
    for topic in request.topics:
        if turns.spent():
            await turns.next()
        rows = []
        for part in topic.partitions:
            if turns.spent():
                await turns.next()
            rows.append(await result(SharePartitionKey(request.group_id, topic.topic_id, part.partition), part))
        results.append(topic_type(topic_id=topic.topic_id, partitions=rows))
    return results
