"""ListTransactions (66): transactional ids and the states that they are in.

Version 1 filters by how long a transaction has run (KIP-994), 2 by a pattern of transactional ids (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT64, STRING, ApiMessage, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(ApiMessage):
    """Filters; an empty or negative one lets everything through."""

    API_KEY = ApiKey.LIST_TRANSACTIONS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0

    state_filters: Sequence[str] = array(STRING)
    producer_id_filters: Sequence[int] = array(INT64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(ApiMessage):
    """`unknown_state_filters`: names that are no states."""

    API_KEY = ApiKey.LIST_TRANSACTIONS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: Sequence[str] = array(STRING)
    transaction_states: Sequence[TransactionState] = array(TransactionState)
