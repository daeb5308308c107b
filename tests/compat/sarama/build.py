"""Builds sarama's own functional tests, as its module has them, for one broker at $BOOTSTRAP: `build.py FOLDER`.

They are written for five brokers behind proxies that cut connections. Here there is one, without: the function that sets proxies
up names the broker instead, the one that resets them does nothing, and topics have one replica. Which tests that leaves without a
sense is said in test_sarama.py. The module comes from the Go module proxy; nothing of it is kept in this repository.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

MODULE = "github.com/IBM/sarama@v1.61.1"
ONE_BROKER = """func setupToxiProxies(env *testEnvironment, endpoint string) error {
\tenv.KafkaBrokerAddrs = []string{os.Getenv("BOOTSTRAP")}
\treturn nil
}
"""
NO_PROXIES = """func resetProxies(t testing.TB) {
\tt.Helper()
}
"""


def replace_function(text: str, name: str, replacement: str) -> str:
    """`text` with another body of the Go function `name`. ValueError where there is none."""
    changed, count = re.subn(rf"^func {name}\(.*?^}}\n", lambda _: replacement, text, flags=re.MULTILINE | re.DOTALL)
    if count != 1:
        raise ValueError(f"{MODULE} has {count} functions {name}: has it changed?")
    return changed


def build(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    said = subprocess.run(
        ["go", "mod", "download", "-json", MODULE], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    source = folder / "src"
    shutil.copytree(json.loads(said)["Dir"], source)
    for path in [source, *source.rglob("*")]:  # the module cache is read-only
        path.chmod(path.stat().st_mode | 0o200)
    setup = source / "functional_test.go"
    text = replace_function(setup.read_text(), "setupToxiProxies", ONE_BROKER)
    setup.write_text(replace_function(text, "resetProxies", NO_PROXIES))
    for path in source.glob("functional*_test.go"):
        path.write_text(re.sub(r"(ReplicationFactor: *)3\b", r"\g<1>1", path.read_text()))
    subprocess.run(
        ["go", "test", "-mod=mod", "-tags", "functional", "-c", "-o", str(folder / "sarama.test"), "."],
        cwd=source,
        check=True,
    )


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
