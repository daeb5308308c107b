"""S3 as others serve it: what every store must do, against moto and versitygw, and what a user gets to read when it does not."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.object_stores import BUCKET, KEYS, MotoServer, Server, Versitygw
from support.store_conformance import Conformance
from tidelog.backup.store import (
    Denied,
    NotThere,
    ObjectStore,
    StoreError,
    StoreOptions,
    Unavailable,
    open_store,
    probe,
)


@pytest.fixture(scope="module")
def moto() -> Iterator[Server]:
    with MotoServer() as server:
        yield server


@pytest.fixture(scope="module")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


class TestMoto(Conformance):
    @pytest.fixture
    def store(self, moto: Server) -> ObjectStore:
        return open_store(moto.url, moto.options)


class TestVersitygw(Conformance):
    @pytest.fixture
    def store(self, versitygw: Server) -> ObjectStore:
        return open_store(versitygw.url, versitygw.options)


@pytest.fixture(params=["moto", "versitygw"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def test_they_pass_the_probe_and_nothing_is_left_of_it(server: Server) -> None:
    store = open_store(server.url + "/probed", server.options)
    assert probe(store).can_delete
    assert list(store.list("")) == []


def test_a_store_that_ignores_if_none_match_is_refused() -> None:
    with MotoServer(ignores_conditions=True) as server:
        with pytest.raises(StoreError, match="ignores If-None-Match and overwrites") as caught:
            probe(open_store(server.url, server.options))
        assert "use a store with conditional writes" in str(caught.value)
        assert list(open_store(server.url, server.options).list("")) == []


def test_a_bucket_that_is_missing(server: Server) -> None:
    store = open_store(f"s3://{BUCKET}-no/x", server.options)
    for call in (
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.upload("a", 6 << 20, [bytes(6 << 20)]),
        lambda: list(store.list("")),
        lambda: probe(store),
    ):
        with pytest.raises(NotThere, match="make it, or correct the URL") as caught:
            call()
        assert f"s3://{BUCKET}-no/x" in str(caught.value)


def test_wrong_credentials(versitygw: Server) -> None:
    wrong = dataclasses.replace(versitygw.options, secret_access_key="not-the-secret-1234")
    store = open_store(versitygw.url, wrong)
    for call in (
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.delete(["a"]),
        lambda: list(store.list("")),
    ):
        with pytest.raises(Denied, match="look at the credentials") as caught:
            call()
        assert "not-the-secret-1234" not in str(caught.value) + repr(wrong)
        assert "\n" not in str(caught.value)


def quickly(endpoint: str) -> StoreOptions:
    return StoreOptions(
        endpoint=endpoint,
        region="us-east-1",
        allow_http=True,
        access_key_id="k",
        secret_access_key="s",
        timeout_s=0.3,
        connect_timeout_s=0.3,
        retries=1,
        retry_timeout_s=2,
    )


def test_nobody_there_is_unavailable_after_the_tries() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        store = open_store("s3://bucket/x", quickly(f"http://127.0.0.1:{taken.getsockname()[1]}"))
        with pytest.raises(Unavailable, match="connect"):
            store.create("a", b"")


def test_a_server_that_never_answers_is_unavailable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        store = open_store("s3://bucket/x", quickly(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        for call in (lambda: store.create("a", b""), lambda: store.read("a"), lambda: list(store.list(""))):
            with pytest.raises(Unavailable, match=r"s3://bucket/x"):
                call()


def test_plain_http_that_is_not_allowed(moto: Server) -> None:
    store = open_store(moto.url, dataclasses.replace(moto.options, allow_http=False))
    with pytest.raises(StoreError, match="plain http must be allowed"):
        store.read("a")


def test_objects_outlive_the_server(versitygw: Server) -> None:
    store = open_store(versitygw.url + "/outlive", versitygw.options)
    store.create("a", b"1")
    store.upload("b", 6 << 20, [bytes(6 << 20)])
    versitygw.kill()
    with pytest.raises(Unavailable):
        open_store(versitygw.url, quickly(versitygw.endpoint)).read("a")
    versitygw.start()
    assert store.read("a") == b"1"
    assert [(stored.key, stored.size) for stored in store.list("")] == [("a", 1), ("b", 6 << 20)]


def test_the_environment_says_it_all(versitygw: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
    open_store(f"{versitygw.url}/environment").create("a", b"1")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    profile = tmp_path / "credentials"
    profile.write_text(
        f"[b]\naws_access_key_id={KEYS['access_key_id']}\naws_secret_access_key={KEYS['secret_access_key']}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    monkeypatch.setenv("AWS_PROFILE", "b")
    assert open_store(f"{versitygw.url}/environment").read("a") == b"1"


def test_an_upload_has_some_parts_in_memory_and_no_more(versitygw: Server) -> None:
    """How far the caller's blocks were taken is seen beside what the server has: here by the process's peak of memory."""
    program = (
        "import resource, sys\n"
        "from tidelog.backup.store import StoreOptions, open_store\n"
        "store = open_store(sys.argv[1], StoreOptions(endpoint=sys.argv[2], region='us-east-1', allow_http=True,\n"
        "    access_key_id=sys.argv[3], secret_access_key=sys.argv[4], part_bytes=5 << 20, timeout_s=120))\n"
        "store.upload('warm', 12 << 20, (bytes(1 << 20) for _ in range(12)))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "store.upload('large', 200 << 20, (bytes(1 << 20) for _ in range(200)))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"{versitygw.url}/memory", versitygw.endpoint, *KEYS.values()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 64 << 10  # KiB
