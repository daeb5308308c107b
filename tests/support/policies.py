"""A package with deletion policies, as somebody else would bring it along: a module, and metadata with entry points."""

from __future__ import annotations

from pathlib import Path

_MODULE = '''
class NewestThree:
    """Keeps the three newest segments."""
    takes_active = False
    def choose(self, segments, log):
        closed = list(segments)
        return closed[: max(0, len(closed) + 1 - 3)]

class Broken:
    """Names a segment that it was not offered."""
    takes_active = False
    def choose(self, segments, log):
        return [*segments, "the active one"]

class NotAPolicy:
    pass

class FailsToStart:
    def __init__(self):
        raise RuntimeError("no licence")
'''
_ENTRY_POINTS = """[tidelog.deletion_policies]
newest-three = tests_policies:NewestThree
broken = tests_policies:Broken
not-there = tests_no_such_module:Policy
not-a-policy = tests_policies:NotAPolicy
fails-to-start = tests_policies:FailsToStart
"""


def install_policies(directory: Path) -> None:
    """Puts the package into `directory`, which is to be on `sys.path` (PYTHONPATH for a daemon)."""
    (directory / "tests_policies.py").write_text(_MODULE)
    metadata = directory / "tests_policies-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tests-policies\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS)
