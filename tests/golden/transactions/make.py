"""Writes the table beside it, from two nodes of Apache Kafka: `python tests/golden/transactions/make.py`. A minute."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.transaction_table import GOLDEN, NOTE, kafkas_table, table_text

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text(table_text(kafkas_table(Path(folder)), [NOTE]))
