"""Parser of the command line: what is wrong with it is told in one line, with the nearest name where one is misspelt."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

_REQUIRED = "the following arguments are required: "
#: argparse's words for a text that `int`, `float` or `seconds` does not take.
_NO_NUMBER = re.compile("invalid (int|float|seconds) value: (.*)", re.DOTALL)


def seconds(text: str) -> float:
    """A time that has milliseconds; argparse makes a line of the error. `float` takes nan and inf, which have none."""
    value = float(text)
    if not math.isfinite(value * 1000):
        raise ValueError
    return value


class ArgumentParser(argparse.ArgumentParser):
    """Parser whose errors are one line on stderr and exit code 2. Where only a command's action is missing, the help lists them.

    Parsers of commands and actions are made of the same class by argparse.
    """

    def error(self, message: str) -> NoReturn:
        if message.startswith(_REQUIRED) and message.removeprefix(_REQUIRED) in self._metavars_of_commands():
            self.print_help(sys.stderr)
            self.exit(2)
        message = _NO_NUMBER.sub(lambda found: f"{found[2]} is no {'whole ' * (found[1] == 'int')}number", message)
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` shows how it is used)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help so that what keeps it from being written is raised, which argparse passes over."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and refuse an option that this parser does not know: its own options are at hand here."""
        found, unknown = super().parse_known_args(args, namespace)
        option = next((text for text in unknown if text.startswith("--") and text != "--"), None)
        if option is not None:
            from .nearest import did_you_mean

            name = option.partition("=")[0]
            known = (text for text in self._option_string_actions if text.startswith("--"))
            self.error(f"there is no option {name}{did_you_mean(name, known)}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the nearest command where argparse would list all of them."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from .nearest import did_you_mean

            kind = str(action.metavar).lower()
            hint = did_you_mean(str(value), action.choices) or f"; there are {', '.join(action.choices)}"
            raise argparse.ArgumentError(None, f"there is no {kind} {value}{hint}")
        super()._check_value(action, value)

    def _metavars_of_commands(self) -> Sequence[str]:
        return [str(action.metavar) for action in self._actions if isinstance(action, argparse._SubParsersAction)]
