"""A defect that could be made with one edit, and the tests that have to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutation:
    """One row of the table.

    Attributes:
        name: Area and defect, in words: `log/largest-batch`.
        file: Path of the mutated source, from the root of the checkout.
        old: Text that the source contains exactly once.
        new: What stands there in the mutant.
        defect: What the mutant does wrong, as one sentence.
        tests: What pytest is given: files, or tests in them. At least one of them has to fail.
        equivalent: Why no test can notice the mutant. A reason here means that all tests have to pass.
    """

    name: str
    file: str
    old: str
    new: str
    defect: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def is_kernel(self) -> bool:
        """True if the mutant has to be compiled."""
        return self.file.endswith(".pyx")

    def apply(self, source: str) -> str:
        """Return the mutant's source. ValueError: `source` does not contain `old` exactly once, or nothing changes."""
        count = source.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: the text is in {self.file} {count} times, and has to be there once")
        if self.old == self.new:
            raise ValueError(f"{self.name}: the mutant is the source")
        return source.replace(self.old, self.new)


def faults(table: list[Mutation], root: Path = ROOT) -> list[str]:
    """Return what is wrong with the rows of `table`: drifted texts, doubled names, files of tests that are not there."""
    found = []
    names = [mutation.name for mutation in table]
    found += [f"{name}: more than one row has this name" for name in sorted(set(names)) if names.count(name) > 1]
    for mutation in table:
        path = root / mutation.file
        if not path.is_file():
            found.append(f"{mutation.name}: there is no {mutation.file}")
            continue
        try:
            mutation.apply(path.read_text())
        except ValueError as error:
            found.append(str(error))
        if not mutation.tests:
            found.append(f"{mutation.name}: no test is named")
        for test in mutation.tests:
            file, _, function = test.partition("::")
            text = (root / file).read_text() if (root / file).is_file() else ""
            if not text or (function and f"def {function.partition('[')[0]}(" not in text):
                found.append(f"{mutation.name}: there is no {test}")
    return found
