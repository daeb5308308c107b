"""`python -m tidelog.cleaner.process`: a process that walks. Started by `walker.py` alone."""

from __future__ import annotations

import sys

from .child import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
