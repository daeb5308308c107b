"""Secrets in a backup: sealed with a key, left out, and what a wrong key is told."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tidelog.backup.formats import secrets
from tidelog.backup.formats.secrets import (
    OMIT,
    SECRET_KINDS,
    Key,
    SecretsError,
    check_key,
    is_sealed,
    read_key,
    sealed,
    unsealed,
    without_secrets,
)
from tidelog.broker.metadata import store as metadata_store
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config

SCHEMA = metadata_store._SCHEMA + metadata_store._LATER_SCHEMAS[1]
SECRETS = ("hash-of-alice", "made-up", "key-material", "jaas-line", "listeners-key", "kafkas-phrase", "kafkas-secret")


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return made_key(tmp_path / "key", "ab")


def made_key(path: Path, digits: str) -> Key:
    path.write_text(digits * 32 + "\n")
    return read_key(str(path))


@pytest.fixture
def database() -> bytes:
    made = sqlite3.connect(":memory:")
    made.executescript(SCHEMA)
    made.execute("PRAGMA user_version = 5")
    made.execute("PRAGMA application_id = 77")
    made.execute("INSERT INTO topics VALUES ('orders', ?, 3, 1000, 0)", (bytes(16),))
    rows = [
        ("scram", "alice", "SCRAM-SHA-256", "hash-of-alice"),
        ("secret", "salt", "x", "made-up"),
        ("quota", "user=alice", "producer_byte_rate", "1000"),
        ("acl", "topic", "orders", "allow"),
    ]
    made.executemany("INSERT INTO resource_configs VALUES (?, ?, ?, ?)", rows)
    configs = [
        ("1", "ssl.keystore.key", "key-material"),
        ("", "listener.name.x.scram-sha-256.sasl.jaas.config", "jaas-line"),
        ("1", "listener.name.x.ssl.keystore.key", "listeners-key"),
        ("1", "sasl.oauthbearer.assertion.private.key.passphrase", "kafkas-phrase"),
        ("1", "rsm.config.aws.secret.access.key", "kafkas-secret"),
        ("", "log.retention.ms", "1000"),
        ("", "background.threads", "7"),
    ]
    made.executemany("INSERT INTO broker_configs VALUES (?, ?, ?)", configs)
    made.commit()
    image = made.serialize()
    made.close()
    return image


def dump(image: bytes) -> list[str]:
    read = sqlite3.connect(":memory:")
    read.deserialize(image)
    lines = sorted(read.iterdump())
    lines += [str(read.execute(f"PRAGMA {name}").fetchone()) for name in ("user_version", "application_id")]
    read.close()
    return lines


def test_the_kinds_are_those_of_the_metadata() -> None:
    assert SECRET_KINDS == (metadata_store.SCRAM, metadata_store._SECRET)


def test_what_was_sealed_comes_back_whole(database: bytes, key: Key) -> None:
    hidden = sealed(database, key)
    assert is_sealed(hidden)
    assert not is_sealed(database)
    assert dump(unsealed(hidden, key)) == dump(database)
    assert not is_sealed(unsealed(hidden, key))


@pytest.mark.parametrize("how", ["sealed", "left out"])
def test_no_secret_is_in_the_bytes(database: bytes, key: Key, how: str) -> None:
    found = sealed(database, key) if how == "sealed" else without_secrets(database)
    for secret in SECRETS:
        assert secret.encode() in database
        assert secret.encode() not in found
    assert b"producer_byte_rate" in found
    assert b"log.retention.ms" in found


def test_without_the_key_all_but_the_secrets_comes_back(database: bytes, key: Key) -> None:
    assert dump(unsealed(sealed(database, key), OMIT)) == dump(without_secrets(database))


def test_two_sealings_of_the_same_are_not_alike(database: bytes, key: Key) -> None:
    assert sealed(database, key) != sealed(database, key)


def test_another_key_is_told_in_one_sentence(tmp_path: Path, key: Key) -> None:
    other = made_key(tmp_path / "other", "cd")
    assert other.name != key.name
    assert check_key(key.name, key) is key
    assert check_key(key.name, OMIT) is OMIT
    with pytest.raises(SecretsError) as caught:
        check_key(key.name, other)
    text = str(caught.value)
    assert text.startswith(
        f"passwords in this cut are sealed with the key {key.name}, and {other.path} has the key {other.name}"
    )
    assert "--without-secrets" in text
    with pytest.raises(SecretsError, match=r"set backup\.secrets\.key\.file to its file"):
        check_key(key.name, None)
    assert "abab" not in repr(key)


def test_damage_is_no_wrong_password(
    database: bytes, key: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hidden = sealed(database, key)
    with pytest.raises(SecretsError, match="they are damaged"):
        unsealed(hidden, made_key(tmp_path / "other", "cd"))
    monkeypatch.setattr(secrets, "_PURPOSE", b"another purpose")
    with pytest.raises(SecretsError, match="they are damaged"):
        unsealed(hidden, key)


@pytest.mark.parametrize("content", ["", "ab", "zz" * 32, "ab" * 33, "ä" * 64])
def test_files_that_are_no_key(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    path.write_text(content)
    with pytest.raises(SecretsError, match="openssl rand -hex 32"):
        read_key(str(path))
    with pytest.raises(SecretsError, match="can't be read: No such file"):
        read_key(str(tmp_path / "none"))


def test_encrypting_needs_a_key() -> None:
    with pytest.raises(ConfigError, match=r"backup\.secrets=encrypt needs backup\.secrets\.key\.file"):
        load_config(None, {}, ["backup.secrets=encrypt"])
