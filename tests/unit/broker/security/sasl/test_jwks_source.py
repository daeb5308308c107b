from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.broker.security.sasl.jwks import MAX_BYTES, FileSource, HttpSource, SourceError, source_of


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "the keys.json"
    path.write_bytes(b"x" * MAX_BYTES)
    source = source_of(path.as_uri())
    assert isinstance(source, FileSource)
    assert source.read() == b"x" * MAX_BYTES
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(SourceError, match=f"more than {MAX_BYTES} bytes"):
        source.read()
    path.unlink()
    with pytest.raises(SourceError, match=r"the keys\.json can't be read: No such file"):
        source.read()


@pytest.mark.parametrize("url", ["http://[::1]:8080/keys?x=1", "https://issuer.example/"])
def test_addresses(url: str) -> None:
    source = source_of(url)
    assert isinstance(source, HttpSource)
    assert str(source) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "is no address of keys"),
        ("keys.json", "is no address of keys"),
        ("ftp://host/keys", "is no address of keys"),
        ("https:///keys", "is no address of keys"),
        ("http://[::1/keys", "is no address: "),
        ("http://host:port/keys", "an invalid port"),
        ("https://user:secret@host/keys", "has no user and no password"),
        ("file://host/keys", "is no address of a file here"),
        ("file:keys.json", "is no address of a file here"),
    ],
)
def test_what_is_no_address(url: str, why: str) -> None:
    with pytest.raises(SourceError, match=why) as caught:
        source_of(url)
    assert "secret" not in str(caught.value)
