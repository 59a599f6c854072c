"""Class, blame and restart by the errno that a text names: by number, by constant, or in the C library's words."""

import errno
import os
from collections.abc import Mapping
from functools import cache

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import (
    ARGUMENT,
    FILE,
    IMPORT,
    LIMITS,
    MEMORY,
    MISMATCH,
    NAME,
    NOBODY,
    PERMISSION,
    ROUTE,
    SHARED_MEMORY,
    STORAGE,
    own,
)
from gpudoctor.lazy import lazy_re

OF_ERRNO: Mapping[int, Judged] = {
    errno.ENOENT: FILE,
    errno.ENOTDIR: FILE,
    errno.EISDIR: FILE,
    errno.EEXIST: FILE,
    errno.ENOEXEC: MISMATCH,
    errno.ENAMETOOLONG: ARGUMENT,
    errno.E2BIG: ARGUMENT,
    errno.ETXTBSY: FILE,
    errno.EACCES: PERMISSION,
    errno.EPERM: PERMISSION,
    errno.EROFS: STORAGE,
    errno.ENOSPC: own("disk-full", "node"),
    errno.EDQUOT: own("quota", "environment"),
    errno.EFBIG: LIMITS,
    errno.ENOMEM: MEMORY,
    errno.EMFILE: LIMITS,
    errno.ENFILE: own("limits", "node"),
    errno.EAGAIN: LIMITS,
    errno.EADDRINUSE: own("port", "environment"),
    errno.EADDRNOTAVAIL: own("route", "environment"),
    errno.ENETUNREACH: own("route", "environment"),
    errno.ENETDOWN: ROUTE,
    errno.EHOSTUNREACH: ROUTE,
    errno.EHOSTDOWN: ROUTE,
    errno.ECONNREFUSED: NOBODY,
    errno.ETIMEDOUT: ROUTE,
    errno.EIO: STORAGE,
    errno.ESTALE: STORAGE,
    errno.ENOTCONN: STORAGE,
    errno.EREMOTEIO: STORAGE,
    errno.EUCLEAN: STORAGE,
    **dict.fromkeys(
        (
            *(errno.ENXIO, errno.ENODEV, errno.EBUSY, errno.ENODATA, errno.ENOLINK, errno.ECOMM, errno.ENOTUNIQ),
            *(errno.ENOMEDIUM, errno.EMEDIUMTYPE, errno.ESHUTDOWN, errno.ECANCELED, errno.EBADMSG, errno.EPROTO),
        ),
        STORAGE,
    ),
    errno.ENOTEMPTY: FILE,
    errno.ELOOP: ARGUMENT,
    errno.EINVAL: ARGUMENT,
    errno.EOVERFLOW: ARGUMENT,
    errno.EOPNOTSUPP: ARGUMENT,
    errno.ENOSYS: MISMATCH,
    **dict.fromkeys((errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.EPROTOTYPE, errno.EDESTADDRREQ), ROUTE),
    errno.EBADF: ARGUMENT,
    **dict.fromkeys((errno.ENOLCK, errno.EUSERS, errno.ENOBUFS), LIMITS),
    **dict.fromkeys((errno.EKEYEXPIRED, errno.EKEYREVOKED, errno.EKEYREJECTED, errno.ENOKEY), PERMISSION),
    **dict.fromkeys((errno.ELIBACC, errno.ELIBBAD, errno.ELIBSCN, errno.ELIBMAX, errno.ELIBEXEC), MISMATCH),
    **dict.fromkeys((errno.ENETRESET, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE), NOBODY),
    errno.ENONET: ROUTE,
    errno.EINTR: own("signal", "program", "not decided"),
}
ERRNO = lazy_re(r"\[Errno (\d{1,3})\]|\(os error (\d{1,3})\)|\berrno:? ?=? ?(\d{1,3})\b")
"""Python's, Rust's (safetensors, tokenizers), and what C programs print."""
ERRNO_NAME = lazy_re(r"\bE[A-Z]{2}[A-Z0-9]{1,12}\b")
"""The constant itself, as libuv, and torch's store with it, print it."""
NUMBERED = lazy_re(r" \d")
"""Behind such words: "invalid argument 2: ..." is torch's of an argument by its number, and no errno's."""
OF_LOADER = "cannot open shared object file"
"""ld.so's words, in front of the errno's: a library is missing, and not a file of the program's."""
OF_SHARED_MEMORY = lazy_re(
    r"(?i)unable to (?:write to file|open shared memory|mmap \d+ bytes)[^\n]{0,80}(?:torch_|/dev/shm)|shm_open|"
    r"shared memory \(shm\)|out of shared memory"
)
OF_RESOLVERS = (
    *("Name or service not known", "Temporary failure in name resolution", "No address associated with hostname"),
    *("Non-recoverable failure in name resolution", "Name does not resolve", "Name has no usable address"),
)
"""gai_strerror(3)'s words of a name, glibc's and musl's."""


@cache
def _errors() -> tuple[tuple[str, Judged], ...]:
    """The C library's words for an errno, and for a name that it cannot resolve. Those that are words of other things
    too are not among them."""
    by_words = {os.strerror(number): judged for number, judged in OF_ERRNO.items()}
    by_words.update(dict.fromkeys(OF_RESOLVERS, NAME))
    return tuple((words, judged) for words, judged in by_words.items() if words != os.strerror(errno.EAGAIN))


def judged_words(text: str) -> Judged | None:
    """By the errno that a text names; None where it names none. The last counts: it is the reason of what stands
    before it."""
    if OF_SHARED_MEMORY.search(text[:1000]):
        return SHARED_MEMORY
    if OF_LOADER in text[:1000]:
        return IMPORT
    if number := ERRNO.search(text[:1000]):
        known = OF_ERRNO.get(int(next(filter(None, number.groups()))))
        if known is not None:
            return known
    for name in ERRNO_NAME.findall(text[:1000]):
        if (known := OF_ERRNO.get(getattr(errno, name, -1))) is not None:
            return known
    lower = text[:1000].lower()
    named = [
        (at, judged)
        for words, judged in _errors()
        if (at := lower.rfind(words.lower())) >= 0 and not NUMBERED.match(lower, at + len(words))
    ]
    return max(named, key=lambda each: each[0])[1] if named else None
