#!/bin/sh
# sdist -> wheel -> fresh virtual environment -> `tidelog serve` -> one record produced and fetched, all of it away from
# the checkout, so that what a user installs is what is proved. Prints PASS; about a minute.
#   tests/packaging/check_wheel.sh [PYTHON]      default: python3
set -eu
root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
python=${1:-python3}
work=$(mktemp -d)
daemon=
finish() {
    [ -n "$daemon" ] && kill -KILL "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
fail() { echo "wheel: FAILED: $*" >&2; exit 1; }
say() { echo "wheel: $*"; }
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH

say "source distribution"
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet build
"$work/build/bin/python" -m build --sdist --outdir "$work/dist" "$root" >"$work/sdist.log" 2>&1 \
    || { tail -20 "$work/sdist.log" >&2; fail "no source distribution"; }

cd "$work"
say "wheel from it"
"$work/build/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/dist" "$work"/dist/tidelog-*.tar.gz
"$work/build/bin/python" - "$work"/dist/tidelog-*.whl <<'PYTHON' || fail "the wheel's contents"
import sys, zipfile
names = zipfile.ZipFile(sys.argv[1]).namelist()
stray = [name for name in names if not name.startswith("tidelog/") and ".dist-info/" not in name]
tests = [name for name in names if "/tests/" in name or "/benchmarks/" in name]
kernels = [name for name in names if name.endswith(".so")]
sources = [name[:-4] for name in names if name.endswith(".pyi") and "/_" in name]
lacking = [name for name in sources if not any(kernel.startswith(name + ".") for kernel in kernels)]
typed = any(name.endswith("/py.typed") for name in names)
console = [f"tidelog/broker/http/console/console.{kind}" for kind in ("css", "js", "svg")]
unstyled = [name for name in console if name not in names]
for wrong, what in ((stray, "outside tidelog/"), (tests, "tests shipped"), (lacking, "kernel missing"), (unstyled, "not shipped")):
    if wrong:
        sys.exit(f"{what}: {wrong[:5]}")
if not kernels or not typed:
    sys.exit("no compiled kernel, or no py.typed")
print(f"wheel: {len(names)} files, {len(kernels)} compiled kernels")
PYTHON

say "fresh virtual environment"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$work"/dist/tidelog-*.whl 'kafka-python>=2.2'
"$work/venv/bin/pip" check >"$work/check.log" || { cat "$work/check.log" >&2; fail "pip check"; }

say "a broker for tests, from the wheel"
"$work/venv/bin/python" -m tidelog.testing.process </dev/null | grep -q '"bootstrap_servers"' || fail "tidelog.testing"
"$work/venv/bin/python" -c 'from importlib.metadata import entry_points as e; assert [p.value for p in e(group="pytest11")] == ["tidelog.testing.plugin"]' \
    || fail "the pytest plugin's entry point"

say "serve, produce, fetch"
"$work/venv/bin/tidelog" serve --set "log.dirs=$work/data" --set listeners=PLAINTEXT://127.0.0.1:0 \
    --set message.set.listeners=tcp://127.0.0.1:0 --set http.listener=127.0.0.1:0 >"$work/ready" 2>"$work/serve.log" &
daemon=$!
tries=0
until grep -q '^ready ' "$work/ready"; do
    kill -0 "$daemon" 2>/dev/null || { cat "$work/serve.log" >&2; fail "serve ended before it was ready"; }
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || { cat "$work/serve.log" >&2; fail "no ready line within 20 s"; }
    sleep 0.1
done
address=$(sed -n 's#^ready .*PLAINTEXT://\([0-9.:]*\).*#\1#p' "$work/ready")
"$work/venv/bin/python" "$root/tests/packaging/round_trip.py" "$address" || { cat "$work/serve.log" >&2; fail "round trip"; }
sets=$(sed -n 's#^ready .*tcp://\([0-9.:]*\).*#\1#p' "$work/ready")
"$work/venv/bin/python" "$root/tests/packaging/message_set.py" "$sets" round-trip \
    || { cat "$work/serve.log" >&2; fail "message sets"; }
kill -TERM "$daemon"
status=0
wait "$daemon" || status=$?
daemon=
[ "$status" -eq 0 ] || { cat "$work/serve.log" >&2; fail "SIGTERM ended it with status $status"; }
echo "wheel: PASS"
