"""Made-up SCRAM credentials for unknown users, so much like real ones that a client can't tell which users exist.

Before a proof a client sees of a credential its salt and its iterations. For a name without one they come out of a secret that
`metadata.db` keeps, the mechanism and the name: the same on each listener and after each start, and for each mechanism others,
as users have them. Iterations, and the kind of salt, are drawn by the same secret from those that users have, each as often as
it is among them; where a user is added or goes, few strangers change. Pure functions of these; any thread.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Iterable

from ..credentials import HASHES, KAFKAS, Credential, Shape

SECRET = "scram-disguise"  # noqa: S105 (its name)
"""Name of the secret in `metadata.db`."""
_KAFKAS_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Disguise:
    """Credentials of users that do not exist."""

    def __init__(
        self, secret: bytes, shapes: Callable[[str], Iterable[tuple[Shape, int]]] = lambda mechanism: ()
    ) -> None:
        """`shapes`: shapes of a mechanism's credentials, and the number of users with each; none: as `tidelog users
        create` makes them.
        """
        self._secret = secret
        self._shapes = shapes

    def credential(self, mechanism: str, name: str) -> Credential:
        """The credential to show for this name. Its keys are zeros, which no proof matches."""
        seed = hmac.digest(self._secret, f"{mechanism}\0{name}".encode(), "sha512")
        shape = self._drawn(mechanism, seed)
        stream = hashlib.shake_256(seed + repr(tuple(shape)).encode())
        if shape.salt_bytes == KAFKAS:
            salt = _base_36(int.from_bytes(stream.digest(32), "big") >> (256 - _KAFKAS_BITS)).encode()
        else:
            salt = stream.digest(shape.salt_bytes)
        keys = bytes(hashlib.new(HASHES[mechanism]).digest_size)
        return Credential(salt, keys, keys, shape.iterations)

    def _drawn(self, mechanism: str, seed: bytes) -> Shape:
        """Draw a shape by weighted rendezvous hashing: each shape has a score of its own, which changes of others leave
        alone; the highest wins.
        """
        best, drawn = 0.0, Shape()
        for shape, users in self._shapes(mechanism):
            number = int.from_bytes(hmac.digest(seed, repr(tuple(shape)).encode(), "sha256")[:7], "big")
            lot = -users / math.log((number + 0.5) / (1 << 56))
            if lot > best:
                best, drawn = lot, shape
        return drawn


def _base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
