"""Memory after much work: RSS when 36 GB (1 GB in a quick run) have gone in and come out, every byte checked."""

from __future__ import annotations

from measure import Goal, Row
from session import BATCH_64K, Session, details

ROW = Row("loaded-memory", "Memory (RSS) after 36 GB in and out (quick: 1 GB)", "MiB", (Goal(120),))
ROWS = (ROW,)


def run(session: Session) -> None:
    if not session.wants(ROW):
        return
    chunk = int(session.seconds(500e6, 3e9))
    total = int(session.seconds(1e9, 36e9))
    for side in session.sides:
        broker = session.fresh(side)
        broker.start()
        moved = 0
        while moved < total:
            with session.topic(broker) as topic:
                options = (*BATCH_64K, "--depth", 5, "--connections", 4, "--seed", moved + 1)
                result = session.load(broker, "produce", topic, *options, "--bytes", chunk)
                session.verify(broker, topic, result)
            moved += result["all_bytes"]
            session.say(
                f"{side}: {moved / 1e9:.1f} of {total / 1e9:.0f} GB in and out, {broker.rss_bytes() / 2**20:.0f} MiB"
            )
        session.add(ROW, side, broker.rss_bytes() / 2**20, {**details(result), "GB": moved / 1e9})
        broker.stop()
        broker.remove()
