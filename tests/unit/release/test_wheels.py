"""How wheels are put together and judged. `make wheels-check` builds and runs them."""

from __future__ import annotations

import base64
import csv
import hashlib
import sysconfig
import zipfile
from pathlib import Path

import pytest
import try_wheel
import wheels
from wheels import TARGETS, ReleaseError, Target

X86 = Target("3.13", "x86_64")
INFO = "tidelog-1.2.dist-info"
BASE = {
    "tidelog/__init__.py": b"",
    "tidelog/storage/_kernel.cpython-311-x86_64-linux-gnu.so": b"of the machine that builds",
    f"{INFO}/METADATA": b"Name: tidelog\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: setuptools\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
    f"{INFO}/RECORD": b"tidelog/__init__.py,,\n",
}
KERNEL = {f"tidelog/storage/_kernel{X86.suffix}": b"cross-compiled"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "tidelog-1.2-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in BASE.items():
            archive.writestr(name, content)
    return path


def files_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_there_is_a_wheel_for_each_python_and_processor() -> None:
    assert sorted(target.name for target in TARGETS) == [
        "cp311-aarch64", "cp311-x86_64", "cp312-aarch64", "cp312-x86_64",
        "cp313-aarch64", "cp313-x86_64", "cp314-aarch64", "cp314-x86_64",
    ]  # fmt: skip


def test_kernels_have_the_name_that_python_looks_for() -> None:
    version, machine = sysconfig.get_python_version(), sysconfig.get_platform().rpartition("-")[2]
    assert Target(version, machine).suffix == sysconfig.get_config_var("EXT_SUFFIX")


def test_a_wheel_has_the_kernels_of_its_target_and_no_other(base: Path, tmp_path: Path) -> None:
    path = wheels.assemble(base, KERNEL, X86, tmp_path, 1_700_000_000)
    assert path.name == "tidelog-1.2-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    files = files_of(path)
    assert [name for name in files if name.endswith(".so")] == list(KERNEL)
    assert {name: files[name] for name in KERNEL} == KERNEL
    told = files[f"{INFO}/WHEEL"].decode().splitlines()
    assert [line for line in told if line.startswith("Tag")] == [
        "Tag: cp313-cp313-manylinux2014_x86_64",
        "Tag: cp313-cp313-manylinux_2_17_x86_64",
    ]
    assert told.count("Root-Is-Purelib: false") == 1


def test_record_has_every_file_with_its_digest(base: Path, tmp_path: Path) -> None:
    files = files_of(wheels.assemble(base, KERNEL, X86, tmp_path, 1_700_000_000))
    rows = {name: (digest, size) for name, digest, size in csv.reader(files[f"{INFO}/RECORD"].decode().splitlines())}
    assert set(rows) == set(files)
    assert rows.pop(f"{INFO}/RECORD") == ("", "")
    for name, (digest, size) in rows.items():
        assert int(size) == len(files[name])
        encoded = digest.removeprefix("sha256=")
        assert base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)) == hashlib.sha256(files[name]).digest()


def test_the_same_commit_gives_the_same_bytes(base: Path, tmp_path: Path) -> None:
    first = wheels.assemble(base, KERNEL, X86, tmp_path, 1_700_000_000).read_bytes()
    with zipfile.ZipFile(base, "w") as archive:  # in another order, at another time
        for name, content in reversed(BASE.items()):
            archive.writestr(zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6)), content)
    assert wheels.assemble(base, KERNEL, X86, tmp_path, 1_700_000_000).read_bytes() == first


@pytest.mark.parametrize(
    ("told", "kernel", "complaint"),
    [
        ('the following platform tag: "manylinux_2_17_x86_64".', b"", ""),
        ('the following platform tag:\n"manylinux_2_5_x86_64".', b"", ""),
        ('the following platform tag: "manylinux_2_28_x86_64".', b"", "manylinux_2_28"),
        ('the following platform tag: "manylinux_2_17_aarch64".', b"", "aarch64"),
        ('the following platform tag: "linux_x86_64".', b"", "linux_x86_64"),
        ('the following platform tag: "manylinux_2_17_x86_64".', b".debug_info", "not stripped"),
    ],
)
def test_a_wheel_is_refused_that_would_not_run_or_has_what_nobody_needs(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, kernel: bytes, complaint: str
) -> None:
    path = wheels.assemble(base, dict.fromkeys(KERNEL, kernel), X86, tmp_path, 1_700_000_000)
    monkeypatch.setattr(wheels, "run", lambda *_: f"{path.name} is consistent with {told}")
    if not complaint:
        wheels.check(path, X86)
        return
    with pytest.raises(ReleaseError, match=complaint):
        wheels.check(path, X86)


def test_a_wheel_is_refused_that_is_too_large(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wheels.assemble(base, KERNEL, X86, tmp_path, 1_700_000_000)
    monkeypatch.setattr(wheels, "run", lambda *_: 'platform tag: "manylinux_2_17_x86_64"')
    monkeypatch.setattr(wheels, "MOST_BYTES", path.stat().st_size)
    wheels.check(path, X86)
    monkeypatch.setattr(wheels, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(ReleaseError, match="MB"):
        wheels.check(path, X86)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_wheels_name_says_where_to_try_it(base: Path, tmp_path: Path, target: Target) -> None:
    assert try_wheel.target_of(wheels.assemble(base, KERNEL, target, tmp_path, 1_700_000_000)) == target


@pytest.mark.parametrize("name", ["tidelog-1.2-py3-none-any.whl", "tidelog-1.2-cp311-cp312-linux_x86_64.whl", "x.whl"])
def test_a_file_that_is_no_wheel_of_ours_is_not_tried(name: str) -> None:
    with pytest.raises(ReleaseError, match="not one of ours"):
        try_wheel.target_of(Path(name))
