"""`python -m tidelog.broker`, and the console script `tidelog`."""

from __future__ import annotations

import sys

# Absolute, so that `python -m broker` works in a checkout whose package is installed.
from tidelog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
