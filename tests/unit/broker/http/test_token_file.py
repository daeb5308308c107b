from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tidelog.broker.http.authentication import MAX_FILE_BYTES, TokenFile, parse_tokens
from tidelog.config.exceptions import ConfigError

A, B = "a" * 32, "b.~+/-_" * 5 + "=="


def sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def test_lines() -> None:
    text = f"# who\n\nprometheus {A}\n  User:ci\tsha256:{sha256(B).hex().upper()}\n"
    assert parse_tokens(text) == {sha256(A): "prometheus", sha256(B): "ci"}
    assert parse_tokens("") == {}


@pytest.mark.parametrize(
    "line", ["onlyauser", "two words secret-secret-secret", "alice short-secret", "alice sécrét-with-umlauts-in-it",
             "alice sha256:abcdef0123456789secret", f"alice {A}\nbob {A}"],
)  # fmt: skip
def test_what_is_no_line_is_named_and_never_quoted(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line [12]") as caught:
        parse_tokens(line)
    assert "ecr" not in str(caught.value)
    assert A not in str(caught.value)


def test_the_file_is_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"alice {A}\n")
    tokens = TokenFile(str(path))
    assert (tokens.user_of(A), tokens.user_of(B), tokens.user_of("\udcff")) == ("alice", None, None)

    def put(text: str) -> None:
        new = tmp_path / "new"
        new.write_text(text)
        os.replace(new, path)

    put(f"bob {B}\n")
    assert (tokens.user_of(A), tokens.user_of(B)) == (None, "bob")
    caplog.clear()
    put("no line at all\n")
    assert tokens.user_of(B) == "bob"
    assert tokens.user_of(B) == "bob"
    path.unlink()
    assert tokens.user_of(B) == "bob"
    assert tokens.user_of(B) == "bob"
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "the tokens in use stay: line 1 is not a user, a blank and a token",
        "the tokens in use stay: No such file or directory",
    ]
    put(f"carol {A}\n")
    assert tokens.user_of(A) == "carol"


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"\xff", "not UTF-8"), (b"x" * (MAX_FILE_BYTES + 1), "larger than")]
)
def test_a_start_needs_a_file_that_can_be_read(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"http\.tokens\.file={path}: .*{why}"):
        TokenFile(str(path))
