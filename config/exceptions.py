"""Error of a configuration, for a person to read."""

from __future__ import annotations

from collections.abc import Sequence


class ConfigError(ValueError):
    """One or more settings are unknown, malformed, out of range or contradict each other.

    `problems` has one sentence for each, every one naming the setting, the value and what is allowed; the
    exception's text is all of them, one a line.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,), vars(self)  # by default it would be made of its text
