"""Reads and writes the files that commands name."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from gpudoctor import bounded, cost
from gpudoctor.embedded import json_in
from gpudoctor.envelope import Answer, decode, is_answer
from gpudoctor.errors import BadInput, CannotTell
from gpudoctor.lacking import unwritable
from gpudoctor.snapshot import Snapshot, is_cut

A = TypeVar("A", bound=Answer)


def snapshot_from(path: str, option: str = "--from") -> Snapshot:
    """The snapshot in a file (or standard input for "-"). Raises `BadInput` in one line."""
    snapshot = snapshot_or(path, option=option)
    assert isinstance(snapshot, Snapshot)
    return snapshot


def snapshot_or(path: str, *forms: type[A], option: str = "--from") -> Snapshot | A:
    """The snapshot in a file (or standard input for "-"), or an answer of one of these forms that --json has written.

    Raises `BadInput` in one line.
    """
    from gpudoctor.read.file import content, snapshot_of

    cost.spend(bounded.SNAPSHOT)
    try:
        raw = json_in(content(path))
        form = next((form for form in forms if is_answer(raw, form)), None)
        return snapshot_of(raw) if form is None else decode(raw, form)
    except BadInput as error:
        raise type(error)(f"{option} {path}: {error}") from None


def saved_answer(path: str, form: type[A]) -> A:
    """An answer that --json has written (or on standard input for "-"). Raises `BadInput` in one line."""
    raw = saved(path)
    with told(path, raw):
        return decode(raw, form)


def saved(path: str, bound: bounded.Bound = bounded.ANSWER) -> bytes:
    """The content of a file that --from names. Raises `BadInput`, and `CannotTell` for one that is empty."""
    cost.spend(bound)
    try:
        raw = json_in(bounded.contents(path, bound.size))
    except bounded.Refused as error:
        raise BadInput(f"--from {path}: {error}") from None
    if not raw.strip():
        raise CannotTell(f"--from {path}: the file is empty")
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        from gpudoctor.read.file import no_answer

        raise BadInput(f"--from {path}: {no_answer(raw)}")
    return raw


@contextlib.contextmanager
def told(path: str, raw: bytes, otherwise: str = "{}") -> Iterator[None]:
    """Names the file in what is said of it. `otherwise`: what to say of one that is none, around the reason."""
    try:
        yield
    except BadInput as error:
        if is_cut(raw):
            raise CannotTell(f"--from {path}: the file is cut: its JSON ends before it is complete") from None
        raise BadInput(f"--from {path}: {otherwise.format(error)}") from None


def check_writable(path: str, option: str = "-o") -> None:
    """Refuse a file that cannot be written before anything slow is done. Raises `BadInput`."""
    try:
        place = Path(path).absolute()
    except OSError:
        raise BadInput(f"{option} {path}: the folder that this was started in is gone") from None
    if place.is_dir():
        raise BadInput(f"{option} {path}: is a folder; name a file in it")
    if not place.parent.is_dir():
        raise BadInput(f"{option} {path}: the folder {place.parent} does not exist")
    reason = unwritable(place if place.exists() else place.parent)
    if reason:
        raise BadInput(f"{option} {path}: {reason}")


def write(path: str, content: bytes, option: str = "-o") -> None:
    """Write a file whole or not at all: an earlier file of that name survives a failure. Raises `BadInput`."""
    place = Path(path).absolute()
    if place.exists() and not place.is_file():  # /dev/stdout, a FIFO: nothing to replace
        _write_into(place, content, option)
        return
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if place.exists() and place.stat().st_uid == os.stat(temporary).st_uid:  # noqa: PTH116
            # A new one is for its owner alone: it tells much about the machine. Nor does the mode count that somebody
            # else has given a file which he put here beforehand.
            shutil.copymode(place, temporary)
        Path(temporary).replace(place)
    except OSError as error:
        raise BadInput(f"{option} {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - gone already when all went well


def _write_into(place: Path, content: bytes, option: str) -> None:
    """Into a device or FIFO that is there. Raises `BadInput`, also for a FIFO that nobody reads from."""
    try:
        descriptor = os.open(place, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "wb") as file:
            os.set_blocking(descriptor, True)
            file.write(content)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = "a FIFO that nobody reads from" if error.errno == errno.ENXIO else error.strerror or error
        raise BadInput(f"{option} {place}: {reason}") from None
