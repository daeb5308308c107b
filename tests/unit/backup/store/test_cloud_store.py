"""What is said and decided without a server: URLs, credentials' files, the missing extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tidelog.backup.store import StoreError, StoreOptions, open_store
from tidelog.backup.store.cloud import aws_profile


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "gs://bucket", "az://container/x/y"])
def test_without_the_extra_one_line_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert str(caught.value) == f"open {url}: this needs obstore, which is not installed; pip install 'tidelog[backup]'"


@pytest.mark.parametrize("url", ["s3://", "s3:///x", "s3://b/x?y", "s3://key:secret@b/x", "s3://b/a b"])
def test_urls_that_are_no_bucket(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert "\n" not in str(caught.value)


def test_a_missing_file_of_authorities_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"ca\.pem: No such file"):
        open_store("s3://bucket", StoreOptions(ca_file=str(tmp_path / "ca.pem")))


def test_opening_sends_nothing() -> None:
    for scheme, options in (
        ("s3", StoreOptions(region="eu-central-1", access_key_id="k", secret_access_key="s")),
        ("az", StoreOptions(access_key_id="account", secret_access_key="c2VjcmV0")),
    ):
        store = open_store(f"{scheme}://bucket/a/b/", options)
        assert store.name == f"{scheme}://bucket/a/b"
        store.close()


def test_keys_of_awss_shared_files(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = AKIDEFAULT\naws_secret_access_key = s1\n"
        "[backup]\naws_access_key_id=AKIBACKUP\naws_secret_access_key=s%2\naws_session_token=t\n[sso]\n"
    )
    (tmp_path / ".aws" / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile backup]\nregion=eu-north-1\n[profile sso]\nsso_session = x\n"
    )
    home = {"HOME": str(tmp_path)}
    assert aws_profile(home) == {"access_key_id": "AKIDEFAULT", "secret_access_key": "s1", "region": "eu-west-1"}
    assert aws_profile(home | {"AWS_PROFILE": "backup"}) == {
        "access_key_id": "AKIBACKUP",
        "secret_access_key": "s%2",
        "session_token": "t",
        "region": "eu-north-1",
    }
    assert aws_profile(home | {"AWS_PROFILE": "backup", "AWS_REGION": "x"}).get("region") is None
    assert aws_profile(home | {"AWS_PROFILE": "sso"}) == {}
    assert aws_profile(home | {"AWS_PROFILE": "none"}) == {}
    moved = {"HOME": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / ".aws" / "credentials")}
    assert aws_profile(moved)["access_key_id"] == "AKIDEFAULT"
    assert aws_profile({"HOME": str(tmp_path / "none")}) == {}
