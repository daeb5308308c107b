"""What the Debian package is made of. `make deb-check` builds it and lives through it in a Debian."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import deb
import pytest
from wheels import Target


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    (site / "bin").mkdir(parents=True)
    (site / "tidelog").mkdir()
    (site / "tidelog/__init__.py").write_text("")
    tree = tmp_path / "tree"
    tree.mkdir()
    deb.lay_out(tree, site, "3.11")
    deb.write_control(tree, "bookworm", Target("3.11", "x86_64"))
    return tree


def test_it_is_an_environment_of_its_own_that_the_unit_starts(tree: Path) -> None:
    home = tree / "opt/tidelog"
    assert (home / "lib/python3.11/site-packages/tidelog/__init__.py").exists()
    assert not (home / "lib/python3.11/site-packages/bin").exists()
    assert (home / "bin/python").readlink() == Path("/usr/bin/python3.11")
    assert (tree / "usr/bin/tidelog").readlink() == Path("/opt/tidelog/bin/tidelog")
    unit = configparser.RawConfigParser(delimiters=("=",))
    unit.read(tree / "usr/lib/systemd/system/tidelog.service")
    started = unit["Service"]["ExecStart"].split()
    assert started == ["/opt/tidelog/bin/tidelog", "serve", "--config", "/etc/tidelog/server.properties"]
    assert all((tree / word.lstrip("/")).exists() for word in (started[0], started[3]))
    assert unit["Service"]["ProtectHome"] == "yes"
    assert "ReadWritePaths" not in unit["Service"]


def test_every_file_is_in_a_place_that_packages_have(tree: Path) -> None:
    tops = {path.relative_to(tree).parts[0] for path in tree.rglob("*")}
    assert tops == {"DEBIAN", "opt", "usr", "etc"}
    assert (tree / "DEBIAN/conffiles").read_text().split() == ["/etc/tidelog/server.properties"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_dpkg_takes_it(tree: Path, tmp_path: Path) -> None:
    package = tmp_path / "tidelog.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, package], check=True, capture_output=True)
    fields = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, text=True, check=True).stdout
    assert "Architecture: amd64\n" in fields
    assert "Depends: python3.11, " in fields
    order = ["dpkg", "--compare-versions", deb.version_of("bookworm"), "lt", deb.version_of("trixie")]
    assert subprocess.run(order, check=False).returncode == 0


@pytest.mark.parametrize("name", sorted(deb.SCRIPTS))
def test_a_shell_can_read_each_script(name: str) -> None:
    subprocess.run(["sh", "-n"], input=deb.SCRIPTS[name], text=True, check=True)
