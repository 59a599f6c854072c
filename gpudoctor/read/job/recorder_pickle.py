"""The bytes of a flight recorder's dump as plain values: a pickle that nothing can be run from, or JSON.

A dump comes from a job that may be somebody else's, so `pickle.loads` is out of the question. Refusing globals alone is
not enough either (`read.pickled` says why): its instructions are followed one by one, for the values that a recorder
has. What torch itself writes uses few instructions, in an order that one regular expression can check; such a dump is
then given to the C unpickler, which together takes a fifth of the time.
"""

import gc
import pickle
import re
import struct
from collections.abc import Callable
from io import BufferedReader, BytesIO
from typing import Any, TypeVar

import msgspec

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pickled import PickleMachine, handlers

MOST_BYTES = 32 * 1024 * 1024
"""2,000 entries with their stacks take 0.3 to 3 MB, with C++ stacks some 15 MB."""
MOST_CONTAINERS = 1_500_000
"""Lists and dictionaries in one dump; 2,000 entries have 16,000."""
T = TypeVar("T")


class UnreadableDump(Exception):
    """Not a flight recorder's dump, or only a part of one. The text says in what way."""


class RefusedDump(UnreadableDump):
    """It asks for something to be run, which no recorder's dump does. The text names what."""


def plain(raw: bytes) -> object:
    """The value that a dump holds, of None, bool, int, float, str, list, tuple and dict.

    Raises `RefusedDump` and `UnreadableDump`, nothing else.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadableDump(f"it has more than {MOST_BYTES // 1024 // 1024} MiB")
    if not raw:
        raise UnreadableDump("it is empty")
    if raw.lstrip()[:1] in (b"{", b"["):
        return _json(raw)
    try:
        if _as_torch_writes(raw):
            return _Unpickler(BufferedReader(BytesIO(raw), 1 << 20)).load()
        return DumpMachine(raw).run()
    except UnreadableDump:
        raise
    except (IndexError, EOFError, struct.error):
        raise UnreadableDump("it ends in the middle; the job may still be writing it") from None
    except MemoryError:
        raise UnreadableDump("it asks for more memory than there is") from None
    except Exception as error:  # every way in which a pickle can be broken has an exception of its own
        raise UnreadableDump(f"it is a broken pickle: {str(error)[:200] or type(error).__name__}") from None


def _json(raw: bytes) -> object:
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS:
        raise UnreadableDump("it has more lists than a flight recorder")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise UnreadableDump(f"it is broken JSON: {str(error)[:200]}") from None


# ---------------------------------------------------------------- what torch writes

_GET = rb"(?:h.|j..[\x00-\x1f]\x00)"
_PUT = rb"(?:q.|r..[\x00-\x1f]\x00)"
_PAIR = rb"(?:" + _GET + rb"\x86(?![qr\x94]))"
_NUMBER = rb"(?:K.|M..|J....)"
_FRAME = rb"\}\(h.h.h.h.h." + _NUMBER + rb"u"
_AFTER_KEY = _PAIR + rb"|\](?:\(h.e|\(\]\(" + _NUMBER + rb"+ee)|h.(?:" + _PAIR + rb"|\x8a\x08.{8})?"
_RUN = lazy_re(
    rb"(?:"
    + _FRAME
    + rb"|h.(?:"
    + _AFTER_KEY
    + rb")?|K.|[Nasue\x88\x89]|\((?![eu])|\](?:(?:"
    + _PUT
    + rb")?\(e)?|\}(?:(?:"
    + _PUT
    + rb")?\(u)?|j..[\x00-\x1f]\x00"
    + _PAIR
    + rb"?|"
    + _PUT
    + rb"|M..|J....|\x8a(?:\x08.{8}|\x05.{5}|\x06.{6}|\x07.{7}|\x04.{4}|\x03...|\x02..|\x01.|\x00)|G.{8}){0,4000}",
    re.DOTALL,
)
"""Instructions of known length, in any number: a value said before, an empty list or dictionary, an entry of one, a
number, and a pair of two values said before. A pair is not kept for later, so that none can hold another. The first
two alternatives are others in a row, as frames and the values of an entry have them: half of the time goes there."""
_AFTER_TEXT = lazy_re(_PUT + rb"?(\x86(?![qr\x94]))?", re.DOTALL)
MOST_PAIRS_OF_TEXT = 1000
"""A pair whose second value is a new text could hold a pair: their depth is bounded."""


def _as_torch_writes(raw: bytes) -> bool:
    """Whether every instruction is one of those that torch's own pickler uses for a recorder, in the forms above."""
    if raw[:2] != b"\x80\x02" or raw.count(b"]") + raw.count(b"}") > MOST_CONTAINERS:
        return False
    at, end, pairs = 2, len(raw), 0
    while True:
        if match := _RUN.match(raw, at):
            moved = match.end() > at
            at = match.end()
        if at >= end:
            return False
        code = raw[at]
        if code == 0x58:  # BINUNICODE
            at += 5 + int.from_bytes(raw[at + 1 : at + 5], "little")
            after = _AFTER_TEXT.match(raw, at) if at < end else None
            if after is None:
                return False
            pairs += after[1] is not None
            if pairs > MOST_PAIRS_OF_TEXT:
                return False
            at = after.end()
        elif code == 0x2E:  # STOP
            return True
        elif not moved:
            return False


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise RefusedDump(f"it wants to load {_printable(module)}.{_printable(name)}")

    def persistent_load(self, pid: Any) -> Any:
        raise RefusedDump("it wants a persistent object")


# ---------------------------------------------------------------- everything else that a pickle may say

_RUNS_SOMETHING = {
    "to call something": "R",
    "to set up an object": "b",
    "to make an object": "o\x81\x92",
    "a persistent object": "PQ",
    "an extension's object": "\x82\x83\x84",
    "a buffer of another program": "\x97\x98",
}


class DumpMachine(PickleMachine):
    """Makes plain values only."""

    Broken = UnreadableDump
    most_instructions = 4_000_000
    """Some two seconds; 2,000 entries have 200,000."""
    handlers = handlers({})

    def refused(self, code: int) -> Exception:
        letter = chr(code)
        if letter in ("c", "i"):
            module, name = (_printable(self.line().decode("utf-8", "replace")) for _ in range(2))
            return RefusedDump(f"it wants to load {module}.{name}")
        if letter == "\x93":
            module, name = (_printable(str(part)) for part in [None, None, *self.stack][-2:])
            return RefusedDump(f"it wants to load {module}.{name}")
        for what, letters in _RUNS_SOMETHING.items():
            if letter in letters:
                return RefusedDump(f"it wants {what}")
        return UnreadableDump(f"it is no pickle, or none of a flight recorder (byte {code:#04x} at {self.at - 1})")

    def key(self, key: Any) -> Any:
        if key is not None and type(key) not in (str, int, bool, float):
            raise UnreadableDump("it is none of a flight recorder: a key is neither text nor number")
        return super().key(key)


def _printable(text: str) -> str:
    """A name out of a foreign file, for a message."""
    return "".join(letter if letter.isprintable() and letter.isascii() else "?" for letter in text[:80])


def without_collection(run: Callable[[], T]) -> T:
    """Run it without the cycle collector, which looks at every list of a dump again and again while it is made."""
    was = gc.isenabled()
    gc.disable()
    try:
        return run()
    finally:
        if was:
            gc.enable()
