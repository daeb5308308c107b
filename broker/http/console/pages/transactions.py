"""Transactions: what their coordinator knows, the open ones first, and partitions that wait for one nobody will end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .....protocol.api_keys import ApiKey
from ..layout import badge, card, cut, document, field, get_form, live, note, quiet, table, topic_link, topic_path
from ..layout import link as to
from ..units import count_text, duration_text, moment_text, plural

if TYPE_CHECKING:
    from .....storage.log.unified_log import UnifiedLog
    from .....storage.producers.state import OpenTransaction
    from ..html import Element
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

MAX_TRANSACTIONS = 500
MAX_PARTITIONS = 500
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


class _Held(NamedTuple):
    """A partition whose last stable offset an open transaction holds back."""

    log: UnifiedLog
    transaction: OpenTransaction


def transactions(state: ConsoleState, request: PageRequest) -> Page:
    """Page of open transactions."""
    wanted = request.text("q").lower()
    known = _known(state)
    held = [_Held(log, found) for log in state.logs() if (found := log.oldest_transaction()) is not None]
    by_producer = {transaction.producer_id: transaction for transaction in known}
    matching = [transaction for transaction in known if wanted in transaction.transactional_id.lower()]
    matching.sort(key=lambda listed: (listed.transaction_state not in _OPEN, listed.transactional_id))
    described = _described(state, [transaction.transactional_id for transaction in matching[:MAX_TRANSACTIONS]])
    now_ms = state.now_ms
    search = get_form(
        "/transactions", field("q", "Transactional id has", request.text("q"), kind="search"), button="Search"
    )
    return document(
        state, request, "Transactions",
        live("held", _holding(held, by_producer, now_ms)),
        search,
        live(
            "known",
            card("Transactional ids", _table(described, now_ms) if described else quiet("No transactional id is known.")),
            quiet(f"{len(matching) - len(described)} more: search by name.") if len(matching) > len(described) else None,
        ),
        is_live=True,
    )  # fmt: skip


def _known(state: ConsoleState) -> list[Any]:
    """ListTransactions' rows; a daemon without transactions pays nothing for them."""
    if state.services.transactions.if_made is None:
        return []
    return list(state.calls.ask(ApiKey.LIST_TRANSACTIONS, lambda request: request()).transaction_states)


def _described(state: ConsoleState, ids: list[str]) -> list[Any]:
    if not ids:
        return []
    found = state.calls.ask(ApiKey.DESCRIBE_TRANSACTIONS, lambda request: request(transactional_ids=ids))
    return [transaction for transaction in found.transaction_states if not transaction.error_code]


def _holding(held: list[_Held], known: dict[int, Any], now_ms: int) -> Element:
    rows, hanging = [], 0
    for log, transaction in held[:MAX_PARTITIONS]:
        owner = known.get(transaction.producer_id)
        first = transaction.first_offset
        state_text = "" if owner is None else owner.transaction_state
        is_hanging = state_text not in _OPEN
        hanging += is_hanging
        rows.append(
            (
                topic_link(log.topic, text=log.name),
                to(first, topic_path(log.topic, log.partition, "records"), offset=first),
                count_text(log.high_watermark - log.last_stable_offset),
                duration_text(max(0, now_ms - transaction.began_ms) / 1000) if transaction.began_ms >= 0 else "",
                cut(owner.transactional_id) if owner is not None else f"producer {transaction.producer_id}",
                badge("hanging: nobody will end it", "bad") if is_hanging else badge(state_text),
            )
        )  # fmt: skip
    heads = ("partition", "since offset", "offsets held back", "for", "whose", "")
    return card(
        "Partitions with an open transaction",
        note(
            f"{plural(hanging, 'partition')} wait for a transaction that no coordinator knows. "
            "kafka-transactions --abort with the producer id and start offset ends it.",
            kind="warn",
        )
        if hanging
        else None,
        table(heads, rows, {2, 3}, caption="Partitions with an open transaction")
        if rows
        else quiet("None: all that was written is stable."),
    )  # fmt: skip


def _table(described: list[Any], now_ms: int) -> Element:
    rows = []
    for transaction in described:
        is_open = transaction.transaction_state in _OPEN
        since_ms = transaction.transaction_start_time_ms
        late = is_open and since_ms >= 0 and now_ms - since_ms > transaction.transaction_timeout_ms
        rows.append(
            (
                cut(transaction.transactional_id),
                badge(transaction.transaction_state, "warn" if late else "active" if is_open else "plain"),
                duration_text(max(0, now_ms - since_ms) / 1000) if is_open and since_ms >= 0 else "",
                duration_text(transaction.transaction_timeout_ms / 1000),
                f"{transaction.producer_id} / {transaction.producer_epoch}",
                moment_text(since_ms) if since_ms >= 0 else "",
                ", ".join(f"{topic.topic} {list(topic.partitions)}" for topic in transaction.topics[:20]),
            )
        )  # fmt: skip
    heads = ("transactional id", "state", "open for", "time-out", "producer id / epoch", "began", "partitions")
    return table(heads, rows, {2, 3}, caption="Transactional ids")
