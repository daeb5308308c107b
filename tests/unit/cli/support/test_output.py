from __future__ import annotations

import io

from tidelog.cli.support.output import ProgressBar

MIB = 1 << 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bar_on_a_terminal() -> None:
    stream, clock = Terminal(), Clock()
    with ProgressBar("verify", stream, clock, width=80) as bar:
        bar.total(100 * MIB)
        bar.done(10 * MIB)
        assert stream.getvalue() == ""  # too soon
        clock.now = 1.0
        bar.done(15 * MIB)
        text = stream.getvalue()
        assert text.startswith("\rverify ████")
        assert " 25%  25 of 100 MiB  25 MiB/s" in text
        assert len(text.removeprefix("\r").removesuffix("\x1b[K")) <= 80
        clock.now = 1.05
        bar.done(1)
        assert stream.getvalue() == text
    assert stream.getvalue() == text + "\r\x1b[K"
    assert bar.done_bytes == 25 * MIB + 1
    assert bar.elapsed_s == 1.05


def test_a_narrow_terminal() -> None:
    stream, clock = Terminal(), Clock()
    bar = ProgressBar("verify", stream, clock, width=20)
    clock.now = 1.0
    bar.total(10 * MIB)
    assert len(stream.getvalue().removeprefix("\r").removesuffix("\x1b[K")) == 20


def test_what_comes_by_a_pipe_has_no_share() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressBar("produce t", stream, clock) as bar:
        bar.total(0)
        clock.now = 10.0
        bar.done(20 * MIB)
    assert stream.getvalue() == "produce t: 20 MiB  2 MiB/s\n"


def test_lines_elsewhere() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressBar("verify", stream, clock) as bar:
        bar.total(4 * MIB)
        for second in range(25):
            clock.now = float(second)
            bar.done(MIB // 8)
    lines = stream.getvalue().splitlines()
    assert lines == ["verify: 34%  1 of 4 MiB  0 MiB/s", "verify: 66%  3 of 4 MiB  0 MiB/s"]


def test_things_other_than_bytes_are_counted_by_name() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressBar("clean", stream, clock, unit="partitions") as bar:
        bar.total(4000)
        clock.now = 11.0
        bar.done(1000)
    assert stream.getvalue() == "clean: 25%  1,000 of 4,000 partitions\n"
