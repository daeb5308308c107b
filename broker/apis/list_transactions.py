"""ListTransactions, API key 66, versions 0 to 2: all transactional ids, filtered.

1 filters by how long a transaction has run (KIP-994), 2 by a pattern (KIP-1152): an RE2 expression that matches the whole
id; INVALID_REGULAR_EXPRESSION when it is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ..requests.access import shows
from ..requests.registry import api
from ..runtime.bounded_pattern import compiled
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType
from ..transactions import states
from ..transactions.coordinator import TransactionFilter

if TYPE_CHECKING:
    from ..requests.context import RequestContext

PROGRAM_BYTES = 1 << 17
"""Memory of the compiled pattern, some 5,000 instructions: an id of 255 characters takes 2 ms at the worst."""
WORK_OF_UNIT = 4000
"""Characters times instructions that a match looks at in the time of one name of a request, at the worst."""


@api(
    ApiKey.LIST_TRANSACTIONS,
    (0, 2),
    ListTransactionsRequest,
    requires=(shows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "each"),),
    many_names=True,
)
def list_transactions(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse | ChunkedResult[ListTransactionsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: ListTransactionsRequest, context: RequestContext) -> Steps[ListTransactionsResponse]:
    known = {state.label for state in states.TransactionState}
    wanted = TransactionFilter(request.state_filters, frozenset(request.producer_id_filters), request.duration_filter)
    try:
        pattern = _compiled(request.transactional_id_pattern)
        found = yield from context.services.transactions.get().list_transactions(wanted)
    except ProtocolError as error:
        return ListTransactionsResponse(error_code=error.code)
    listed: list[TransactionState] = []
    for metadata in found:
        name = metadata.transactional_id
        yield 1 if pattern is None else 1 + len(name) * pattern.programsize // WORK_OF_UNIT
        if pattern is not None and pattern.fullmatch(name) is None:
            continue
        if context.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, quietly=True):
            listed.append(
                TransactionState(
                    transactional_id=name,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.label,
                )
            )
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in known],
        transaction_states=listed,
    )


def _compiled(pattern: str | None) -> Any:
    if not pattern:
        return None
    try:
        return compiled(pattern, PROGRAM_BYTES)
    except ValueError as error:
        raise ProtocolError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern}: {error}") from None
