"""Users out of Kafka's `sasl.jaas.config`: `…PlainLoginModule required user_alice="secret" user_bob="other";`.

Only options that name users count; a broker's own name and password there are for connections to other brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s=;"']+)|([=;]))""", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}


def users_of(text: str | None, mechanism: str) -> Mapping[str, str]:
    """User → password, as the entry lists them; empty for an empty entry, and for mechanisms with tokens.

    ValueError says what can't be read.
    """
    if not text or not text.strip():
        return {}
    options = options_of(text, mechanism).items() if mechanism != "OAUTHBEARER" else ()
    return {name.removeprefix("user_"): value for name, value in options if name.startswith("user_")}


def options_of(text: str, mechanism: str) -> Mapping[str, str]:
    """All options of the entry, by name. ValueError says which part can't be read."""
    words = _words(text)
    if len(words) < 2 or words[-1] != ";":
        raise ValueError("sasl.jaas.config is not `MODULE required NAME=VALUE …;`: a semicolon ends it")
    module, flag = words[0], words[1]
    if not module.endswith(f".{_MODULES[mechanism]}") or flag.lower() not in _FLAGS:
        # The text there is not quoted: on a malformed line it may be the password.
        raise ValueError(f"sasl.jaas.config of {mechanism} does not begin with …{_MODULES[mechanism]} required")
    rest = words[2:-1]
    if len(rest) % 3 or any(equals != "=" for equals in rest[1::3]):
        raise ValueError("sasl.jaas.config has an option that is not NAME=VALUE")
    return dict(zip(rest[::3], rest[2::3], strict=True))


def _words(text: str) -> list[str]:
    words: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("sasl.jaas.config has a quote that nothing ends")
        position = match.end()
        quoted = match[1] if match[1] is not None else match[2]
        words.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else match[3] or match[4])
    return words
