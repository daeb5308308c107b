"""Who reads the old records of a file one after the other, and how far pages are read for them before they ask.

A consumer that catches up takes a slice, and asks for the next one when it has it. Meanwhile the disk would stand still, and
then the consumer: so `cold_reads.py` reads on behind the slice. A *stream* is a reader of one file. It begins with a cold
read, and goes on with each slice that begins where the last one ended, or a little before: an answer may end inside of a
batch, with which the next one begins. Readers of the same place are one stream. Loop thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cold_reads import Job

#: Streams that are kept at most: then the one that was not heard of for the longest time is forgotten.
MOST_STREAMS = 64
#: Bytes before the end of the last slice in which the next one of the same reader may begin.
NEAR_BYTES = 1 << 20

Identity = tuple[int, int]
"""Device and number of a file, whoever has it open."""


class Stream:
    """A reader of one file.

    Attributes:
        position: how far it is: end of what it has, or of what it can send.
        end: position up to which pages were read, or are being read ahead.
        asked: reads that somebody waits for.
        job: what is read ahead for it: waiting or under way; None: nothing.
        is_forgotten: nothing is read ahead for it any more.
    """

    __slots__ = ("asked", "end", "is_forgotten", "job", "position")

    def __init__(self, position: int) -> None:
        self.position = self.end = position
        self.asked = 0
        self.job: Job | None = None
        self.is_forgotten = False

    def goes_on_at(self, position: int) -> bool:
        """True if the reader's next slice may begin there."""
        return self.position - NEAR_BYTES <= position <= self.end


class Streams:
    """Streams of files, those that were heard of last at the end."""

    __slots__ = ("_count", "_of_file")

    def __init__(self) -> None:
        self._of_file: dict[Identity, list[Stream]] = {}  # none is empty
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, identity: Identity, position: int) -> Stream | None:
        """The stream of that file that goes on at `position`; it counts as heard of now."""
        streams = self._of_file.get(identity)
        if streams is None:
            return None
        for stream in reversed(streams):
            if stream.goes_on_at(position):
                del self._of_file[identity]
                self._of_file[identity] = streams
                return stream
        return None

    def of(self, identity: Identity, position: int) -> tuple[Stream, Stream | None]:
        """The stream that goes on there, or a new one; and one that is forgotten for it."""
        stream = self.find(identity, position)
        if stream is not None:
            return stream, None
        stream = Stream(position)
        self._of_file[identity] = [*self._of_file.pop(identity, ()), stream]
        self._count += 1
        return stream, self._forget_one() if self._count > MOST_STREAMS else None

    def _forget_one(self) -> Stream:
        identity, streams = next(iter(self._of_file.items()))
        stream = streams.pop(0)
        stream.is_forgotten = True
        self._count -= 1
        if not streams:
            del self._of_file[identity]
        return stream
