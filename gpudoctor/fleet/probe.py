"""How two agents prove to one another that a port leads to the other, and that large packets get through.

The caller sends one line (a nonce, its proof, the number of bytes that follow) and so many bytes; the listener answers
with its own proof as soon as it has the line, and with as many bytes once it has them all. Who lacks the secret of this
test gets nothing, so that an open listener is of no use to others.
"""

import hmac

from gpudoctor.lazy import lazy_re

MAXIMUM_PAYLOAD = 1 << 20
MAXIMUM_HEADER = 256
ANSWER_BYTES = 65
"""64 hexadecimal digits and a line feed."""

_HEADER = lazy_re(rb"gpudoctor-probe 1 ([0-9a-f]{32}) ([0-9a-f]{64}) ([0-9]{1,7})\n")


def proof(secret: str, role: str, nonce: str) -> bytes:
    """What only somebody who has the secret can say: 64 hexadecimal digits. `role` is "caller" or "listener"."""
    return hmac.new(secret.encode(), f"{role} {nonce}".encode(), "sha256").hexdigest().encode()


def header(secret: str, nonce: str, payload: int) -> bytes:
    """The caller's line."""
    return b"gpudoctor-probe 1 %s %s %d\n" % (nonce.encode(), proof(secret, "caller", nonce), payload)


def answer(secret: str, nonce: str) -> bytes:
    """The listener's line."""
    return proof(secret, "listener", nonce) + b"\n"


class RefusedProbe(Exception):
    """The caller is not one of ours."""


def understood(secret: str, line: bytes) -> tuple[str, int]:
    """(nonce, bytes that follow) of a caller's line with its line feed. Raises `Refused`."""
    match = _HEADER.fullmatch(line)
    if match is None:
        raise RefusedProbe("not a probe")
    nonce = match[1].decode()
    if not hmac.compare_digest(match[2], proof(secret, "caller", nonce)):
        raise RefusedProbe("not a probe of this test")
    size = int(match[3])
    if size > MAXIMUM_PAYLOAD:
        raise RefusedProbe("too large a payload")
    return nonce, size
