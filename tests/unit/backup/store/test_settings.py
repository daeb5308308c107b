"""Settings of the store: what they become, and what is refused before a daemon serves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.backup.store import StoreError, StoreOptions, open_store
from tidelog.backup.store.cloud import _s3_settings
from tidelog.backup.store.opening import check_url, options_of
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config

KEYS = ["backup.access.key.id=AKID", "backup.secret.access.key=s3cret"]


def options(*assignments: str) -> StoreOptions:
    return options_of(load_config(None, {}, list(assignments)))


def test_settings_reach_the_store() -> None:
    found = options(
        "backup.endpoint=http://127.0.0.1:9000/", "backup.region=eu-central-1", *KEYS, "backup.session.token=t",
        "backup.credentials.file=/run/key.json", "backup.ca.file=/etc/ca.pem",
    )  # fmt: skip
    assert (found.endpoint, found.region, found.allow_http) == ("http://127.0.0.1:9000", "eu-central-1", True)
    assert (found.access_key_id, found.secret_access_key, found.session_token) == ("AKID", "s3cret", "t")
    assert (found.credentials_file, found.ca_file) == ("/run/key.json", "/etc/ca.pem")
    assert "s3cret" not in repr(found)


def test_what_is_not_set_is_left_to_the_environment() -> None:
    found = options()
    assert (found.endpoint, found.region, found.access_key_id, found.secret_access_key) == ("", "", "", "")
    assert found.path_style
    assert not found.allow_http


def test_the_environment_sets_them_too() -> None:
    config = load_config(
        None, {"TIDELOG_BACKUP_ACCESS_KEY_ID": "AKID", "TIDELOG_BACKUP_SECRET_ACCESS_KEY": "s3cret"}, []
    )
    assert options_of(config).secret_access_key == "s3cret"


@pytest.mark.parametrize(
    ("style", "endpoint"), [("true", "https://s3.my.net:9000"), ("false", "https://b.s3.my.net:9000")]
)
def test_the_bucket_stands_in_the_path_or_before_the_host(style: str, endpoint: str) -> None:
    found = _s3_settings(options("backup.endpoint=https://s3.my.net:9000", f"backup.path.style={style}", *KEYS), "b")
    assert found["endpoint"] == endpoint
    assert ("virtual_hosted_style_request" in found) == (style == "false")
    open_store(
        "s3://b/x", options("backup.endpoint=https://s3.my.net:9000", f"backup.path.style={style}", *KEYS)
    ).close()


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("backup.url=/mnt/nas", "begins with file://"),
        ("backup.url=ftp://host/x", "begins with file://"),
        ("backup.url=s3://", "begins with file://"),
        ("backup.endpoint=minio:9000", "begins with https:// or http://"),
        ("backup.endpoint=http://key:secret@minio:9000", "begins with https:// or http://"),
        (KEYS[0], "belong together"),
        (KEYS[1], "belong together"),
        ("backup.verify.interval.ms=1", "is out of range; allowed: 0 or 60000"),
    ],
)
def test_settings_that_cannot_hold(assignment: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, [assignment])
    assert sentence in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_url_is_checked_without_a_look_at_a_disk_or_a_network(tmp_path: Path) -> None:
    check_url((tmp_path / "not-mounted-yet").as_uri(), StoreOptions())
    check_url("s3://bucket/prefix", StoreOptions(endpoint="https://127.0.0.1:1"))
    check_url("memory:x", StoreOptions())
    for url in ("file://nas/dir", "s3://bucket?x", "s3://bucket/a b"):
        with pytest.raises(StoreError):
            check_url(url, StoreOptions())
