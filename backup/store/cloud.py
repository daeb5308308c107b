"""Objects in S3, Google Cloud Storage and Azure, through obstore (Rust's object_store): the extra `tidelog[backup]`.

Credentials: of the settings, else of the environment, of AWS's shared files (a profile with keys), of a service account's file,
of the machine (instance, container or workload identity). Requests are tried again by object_store, with growing pauses, up to
a number and a time; what is left then is an `Unavailable`.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from .errors import AlreadyThere, Denied, NotThere, StoreError, Unavailable
from .interface import Stored, StoreOptions, WrongSize, blocks_of_size, check_key, check_prefix, without_password

EXTRA = "pip install 'tidelog[backup]'"

_PAGE = 1000
_MOST_PARTS = 10_000
_BLOCK = 1 << 20
_CONFLICTS = 5
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>|\"code\":\s*\"?([A-Za-z]+)")
_SERVER_TIME = re.compile(r"<ServerTime>([0-9TZ:.+-]{1,40})</ServerTime>")
_HTTP_ERROR = re.compile(r"HTTP error: ([^\n]*)")
_KIND = re.compile(r"kind: (Connect|Timeout|Interrupted|Request|Decode)\b")
_METADATA = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "/metadata/identity")
_CREDENTIAL_CODES = (
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AuthorizationHeaderMalformed",
    "XAdminUserNotFound",  # versitygw, of a key that nobody has
)


class CloudStore:
    """An `ObjectStore` in a bucket, below a prefix. Any threads; object_store has connections and threads of its own."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        """StoreError if the URL or an option is wrong, or obstore is not installed. Sends nothing."""
        self.name = without_password(url).rstrip("/")
        try:
            import obstore
        except ModuleNotFoundError:
            raise StoreError("open", self.name, "", "this needs obstore, which is not installed", EXTRA) from None
        self._obstore: Any = obstore
        self._errors: Any = obstore.exceptions
        self._options = options
        self._store = self._open(url)

    # --- ObjectStore ---

    def create(self, key: str, data: bytes) -> None:
        check_key(key)
        for _ in range(_CONFLICTS):
            try:
                self._obstore.put(self._store, key, data, mode="create", use_multipart=False)
                return
            except self._errors.AlreadyExistsError as error:
                if _status(error) == 409 and not self._is_there(key):
                    continue  # S3 says so while another request for the key is under way, which may come to nothing
                raise AlreadyThere("create", self.name, key, "there is an object with this key") from error
            except Exception as error:
                self._raise("create", key, error)
        problem = "other requests for this key were under way each time"
        raise Unavailable("create", self.name, key, problem)

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        check_key(key)
        theirs: list[BaseException] = []

        def checked() -> Iterator[bytes]:
            try:
                yield from blocks_of_size(blocks, size, _BLOCK)
            except BaseException as error:
                theirs.append(error)
                raise

        part = max(self._options.part_bytes, -(-size // _MOST_PARTS))
        try:
            if size <= part:
                self._obstore.put(self._store, key, b"".join(checked()), use_multipart=False)
            else:
                self._obstore.put(
                    self._store,
                    key,
                    checked(),
                    use_multipart=True,
                    chunk_size=part,
                    max_concurrency=self._options.parts_at_once,
                )
        except BaseException as error:
            if theirs and isinstance(theirs[0], WrongSize):
                raise StoreError("upload", self.name, key, str(theirs[0])) from None
            if theirs:
                raise theirs[0] from None
            if not isinstance(error, Exception):
                raise
            self._raise("upload", key, error)

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        check_key(key)
        try:
            if length == 0:
                self._obstore.head(self._store, key)
                return b""
            if length is not None:
                return bytes(self._obstore.get_range(self._store, key, start=start, length=length))
            options = {"range": {"offset": start}} if start else None
            return bytes(self._obstore.get(self._store, key, options=options).bytes())
        except Exception as error:
            if _is_out_of_range(error) and start >= self._size(key):
                return b""
            self._raise("read", key, error)

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        check_prefix(prefix)
        pages = self._attempt(
            "list", prefix, lambda: self._obstore.list(self._store, prefix, offset=after or None, chunk_size=_PAGE)
        )
        return self._entries(prefix, after, iter(pages))

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        if not keys:
            return
        try:
            self._obstore.delete(self._store, list(keys))
        except FileNotFoundError:
            # Google and Azure stop at the first that is missing.
            for key in keys:
                self._attempt("delete", key, lambda key=key: self._delete_one(key))  # type: ignore[misc]
        except Exception as error:
            self._raise("delete", keys[0], error)

    def close(self) -> None:
        """Connections go when they are idle."""

    # --- inside ---

    def _delete_one(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._obstore.delete(self._store, key)

    def _is_there(self, key: str) -> bool:
        try:
            self._size(key)
        except NotThere:
            return False
        return True

    def _size(self, key: str) -> int:
        meta: Mapping[str, int] = self._attempt("read", key, lambda: self._obstore.head(self._store, key))
        return meta["size"]

    def _entries(self, prefix: str, after: str, pages: Iterator[Any]) -> Iterator[Stored]:
        while (page := self._attempt("list", prefix, lambda: next(pages, None))) is not None:
            for meta in page:
                key = meta["path"]
                # `a/` as `after` becomes `a` on the way; what others put there may have no key of ours.
                if key > after and key.startswith(prefix):
                    yield Stored(key, meta["size"], int(meta["last_modified"].timestamp() * 1000))

    def _attempt(self, operation: str, key: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            self._raise(operation, key, error)

    def _raise(self, operation: str, key: str, error: Exception) -> NoReturn:
        """The error of ours that says what obstore's does, without its dump of the request."""
        text = str(error)
        found = _CODE.search(text)
        code = (found.group(1) or found.group(2)) if found else ""
        status = _status(error)
        problem = " ".join(part for part in (str(status or ""), code) if part)
        if not problem:
            reason, kind = _HTTP_ERROR.search(text), _KIND.search(text)
            problem = reason.group(1).strip() if reason else text.partition("\n")[0][:300]
            problem += f" ({kind.group(1).lower()})" if kind else ""
        kind_of_error, remedy = self._judge(error, text, status, code)
        raise kind_of_error(operation, self.name, key, problem, remedy) from error

    def _judge(self, error: Exception, text: str, status: int, code: str) -> tuple[type[StoreError], str]:
        """Which error it is, and what to do."""
        if any(address in text for address in _METADATA):
            return Denied, "no credentials were found: give keys in the settings or the environment"
        if code in ("NoSuchBucket", "ContainerNotFound"):
            return NotThere, "the bucket is not there: make it, or correct the URL"
        if code in ("RequestTimeTooSkewed", "RequestExpired"):
            found = _SERVER_TIME.search(text)
            theirs = f", which is off: the store's says {found.group(1)}" if found else ""
            return Denied, f"set this machine's clock{theirs}"
        if status in (401, 403) or code in _CREDENTIAL_CODES:
            return Denied, "look at the credentials, the region and the rights on this bucket and prefix"
        if isinstance(error, (FileNotFoundError, self._errors.NotSupportedError)) or status == 404:
            return (NotThere if isinstance(error, FileNotFoundError) or status == 404 else StoreError), ""
        if "builder error" in text:
            return StoreError, "is the endpoint right? plain http must be allowed"
        if status in (408, 409, 425, 429) or status >= 500 or not status:
            return Unavailable, ""
        return StoreError, ""

    # --- opening ---

    def _open(self, url: str) -> Any:
        parts = urlsplit(url)
        prefix = parts.path.strip("/")
        if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
            raise StoreError(
                "open", self.name, "", "not a bucket and a prefix", f"write {parts.scheme}://bucket/prefix"
            )
        if prefix:
            try:
                check_key(prefix)
            except ValueError as error:
                raise StoreError("open", url, "", str(error)) from None
        o = self._options
        client: dict[str, Any] = {
            "timeout": timedelta(seconds=o.timeout_s),
            "connect_timeout": timedelta(seconds=o.connect_timeout_s),
            # object_store asks the environment for this only where it is given no options at all.
            "allow_http": o.allow_http or os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"),
            "user_agent": "tidelog",
        }
        if o.ca_file:
            try:
                client["root_certificate"] = Path(o.ca_file).read_bytes()
            except OSError as error:
                raise StoreError("open", url, "", f"{o.ca_file}: {error.strerror}") from error
        retry = {
            "max_retries": o.retries,
            "retry_timeout": timedelta(seconds=o.retry_timeout_s),
            "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
        }
        from obstore.store import AzureStore, GCSStore, S3Store

        kind, config = {
            "s3": (S3Store, _s3_settings),
            "gs": (GCSStore, _google_settings),
            "az": (AzureStore, _azure_settings),
        }[parts.scheme]
        try:
            return kind(
                parts.netloc,
                prefix=prefix or None,
                config=config(o, parts.netloc),
                client_options=client,
                retry_config=retry,
            )
        except Exception as error:
            raise StoreError("open", url, "", str(error).partition("\n")[0], "look at the settings") from error


def _status(error: BaseException) -> int:
    """The answer's HTTP status; 0 if there was none."""
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else 0


def _is_out_of_range(error: Exception) -> bool:
    """True if a range began behind the object's end: the server says so, or object_store, of what the server sent instead."""
    text = str(error)
    return _status(error) == 416 or "range" in text.partition("\n")[0].lower()


def _given(**settings: str) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value}


def _s3_settings(o: StoreOptions, bucket: str) -> dict[str, str]:
    endpoint = o.endpoint
    if endpoint and not o.path_style:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"  # object_store takes it as it is
    settings = _given(
        endpoint=endpoint,
        virtual_hosted_style_request="" if o.path_style else "true",
        region=o.region,
        access_key_id=o.access_key_id,
        secret_access_key=o.secret_access_key,
        session_token=o.session_token,
    )
    if not o.access_key_id and "AWS_ACCESS_KEY_ID" not in os.environ:
        settings = aws_profile(os.environ) | settings
    return settings


def _google_settings(o: StoreOptions, _bucket: str) -> dict[str, str]:
    return _given(service_account=o.credentials_file)


def _azure_settings(o: StoreOptions, _container: str) -> dict[str, str]:
    return _given(account_name=o.access_key_id, account_key=o.secret_access_key, endpoint=o.endpoint)


def aws_profile(environment: Mapping[str, str]) -> dict[str, str]:
    """Keys and region of AWS's shared files for the profile in AWS_PROFILE (`default`); empty where they have none."""
    home = environment.get("HOME") or os.path.expanduser("~")
    profile = environment.get("AWS_PROFILE") or "default"
    credentials = environment.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/.aws/credentials"
    config = environment.get("AWS_CONFIG_FILE") or f"{home}/.aws/config"
    found: dict[str, str] = {}
    sections = ((config, profile if profile == "default" else f"profile {profile}"), (credentials, profile))
    for path, section in sections:
        parser = configparser.RawConfigParser()
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read(path)
        if parser.has_section(section):
            found |= dict(parser.items(section))
    names = {
        "aws_access_key_id": "access_key_id",
        "aws_secret_access_key": "secret_access_key",
        "aws_session_token": "session_token",
    }
    settings = {ours: found[theirs] for theirs, ours in names.items() if found.get(theirs)}
    if "AWS_REGION" not in environment and "AWS_DEFAULT_REGION" not in environment and found.get("region"):
        settings["region"] = found["region"]
    return settings
