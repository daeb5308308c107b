"""States of a connection, and the table of legal transitions."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """Why a connection handles no further request now; READY: it does.

    Several reasons may hold at once: a client that is over a quota may leave its answer unread too. The state is the strongest
    of them, the last in the order below. A reason that begins raises the state (`Connection._hold`). When one ends, the state
    falls to what is left (`Connection._resume`): whether somebody is muted is in the connection's `_muted`, too.

        from      when                                                          to
        READY     there is no memory for the rest of a request                  STARVED
        READY     the client is over a quota, or others have their turn         MUTED
        READY     the socket does not take all of an answer                     SENDING
        READY     a handler's answer has to be awaited                          PENDING
        STARVED   there may be memory                                           READY
        MUTED     the time has passed, or the ticket is called                  READY
        MUTED     the socket does not take all of the answers before            SENDING
        MUTED     the answer of the request that muted it has to be awaited     PENDING
        SENDING   the answer of the request behind has to be awaited            PENDING
        SENDING   the socket has taken all                                      READY
        SENDING   the same, and it was muted meanwhile                          MUTED
        PENDING   the answer is there, and the socket takes all of it           READY
        PENDING   the same, and it was muted meanwhile                          MUTED
        PENDING   the answer is there, and the socket does not take all of it   SENDING
        PENDING   the answer that comes is the last one: a refusal              LEAVING
        LEAVING   the last answer is there, and has gone out                    CLOSED
        any       the connection ends; of a client that has ended its side,     CLOSED
                  the last request that came whole has been answered

    By TLS, bytes of the handshake may be under way in READY and MUTED: then these go to SENDING too.

    That the client has ended its side is no state (`Connection._has_ended`): what it had sent whole by then is handled and
    answered in its turn, muted or not. From then on nothing is read.

    Reading is independent of the state: the socket is read until a buffer is full (STARVED, MUTED, PENDING) or answers are not
    taken (SENDING), so that the end of a client is seen while it waits.
    """

    READY = 0
    """Requests are handled as they come."""
    STARVED = 1
    """The buffer is full of a request that has not come whole, and waits for a larger one (`RequestMemoryBudget`)."""
    MUTED = 2
    """The next request waits for a time or a ticket."""
    SENDING = 3
    """Answers wait for the client to read."""
    PENDING = 4
    """A request is in work whose answer comes later."""
    LEAVING = 5
    """No request is handled any more; the connection is closed when the last answer has gone out."""
    CLOSED = 6
    """Nothing is read or sent any more."""
