"""Runs `gpudoctor checkpoint`: the child that reads, the child that writes a clean copy, torch that loads it again."""

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor import __version__, cost
from gpudoctor.active import ChildReply, gather, messages, own_module, start, worker
from gpudoctor.checkpoint.examine import FileWish
from gpudoctor.checkpoint.report import CheckpointReport, Fixed
from gpudoctor.checkpoint.unreadable import SWAPPED, BadFile, DamagedFile, UnreadFile, printable
from gpudoctor.knowledge.wording import size
from gpudoctor.lacking import lacking

TORCH_SECONDS = 120.0
"""Importing torch from a cold network file system takes up to a minute."""
COMPUTES_SECONDS = 0.5
"""A child that waits for a file system spends hardly any processor time, one that computes spends all it gets."""
Waiting = Callable[[Sequence[str]], None]


KINDS: dict[object, type[BadFile]] = {kind.status: kind for kind in (BadFile, DamagedFile, UnreadFile)}
"""By the exit status that the reader told."""


def run(wish: FileWish, *, python: str, patience: float, waiting: Waiting | None = None) -> CheckpointReport:
    """Read, and write the clean copy where one is wanted. Raises `BadFile`.

    `patience` is how many seconds there may be without progress.
    """
    started = time.monotonic()
    said = ask("gpudoctor.checkpoint.examine", [encoded(wish)], wish.file, patience, waiting)
    try:
        report = msgspec.convert(said.get("report"), CheckpointReport)
    except msgspec.ValidationError as error:
        raise UnreadFile(f"the reader answered in an unexpected form: {error}") from None
    if wish.out:
        report = msgspec.structs.replace(report, fixed=fixed(wish, report, python, patience, waiting))
    return msgspec.structs.replace(report, gpudoctor=__version__, seconds=round(time.monotonic() - started, 3))


def encoded(wish: FileWish) -> str:
    return json.dumps(msgspec.structs.asdict(wish))  # ASCII: a file's name may be no text


def ask(module: str, arguments: list[str], file: str, patience: float, waiting: Waiting | None) -> dict[str, Any]:
    """What a child of our own says last. It may take as long as it likes while it gets on."""
    try:
        child = start("checkpoint", own_module(module, *arguments), timeout=patience)
    except OSError as error:
        raise UnreadFile(f"no process can be started to read it: {lacking(error, sys.executable)}") from None
    heard = [0, 0.0, 0.0]
    spent = 0.0

    def wait(names: Sequence[str]) -> None:
        nonlocal spent
        spent = max(spent, cost.processor_seconds(child.process.pid))
        if len(child.output) != heard[0]:
            heard[:] = len(child.output), time.monotonic(), spent
            child.timeout = heard[1] - child.started + patience
        if waiting is not None:
            waiting([progress(bytes(child.output[-200:]), file)])

    return concluded(gather([child], wait)["checkpoint"], spent - heard[2])


def progress(said: bytes, file: str) -> str:
    """ "model.pt: 1.2 GiB of 4 GiB"."""
    name = printable(os.path.basename(file) or file, 60)  # noqa: PTH119 - a text as the user gave it
    last = next((message for message in reversed(messages(said)) if "done" in message), None)
    if last is None or not last.get("of"):
        return name
    return f"{name}: {size(int(last['done']))} of {size(int(last['of']))}"


def concluded(reply: ChildReply, computed: float = 0.0) -> dict[str, Any]:
    """Its last message. Raises `BadFile`, which says why there is none.

    `computed`: seconds that its processor has spent since it was last heard of.
    """
    said = messages(reply.output)
    last = said[-1] if said else {}
    if "unreadable" in last:
        raise KINDS.get(last.get("status"), BadFile)(str(last["unreadable"]))
    if "report" in last or "copied" in last:
        return last
    if cost.killed_by_its_bound(reply.return_code):
        raise BadFile(
            "listing it takes more computing than a checkpoint of its size needs: it is made to keep a reader busy; do "
            "not load it"
        )
    if reply.timed_out and computed >= COMPUTES_SECONDS:
        raise BadFile(
            f"listing it got no further for {reply.seconds:.0f} s, though it was computed on ({computed:.1f} s): it is "
            "made to keep a reader busy, or this machine is busy; --timeout SECONDS gives it more"
        )
    if reply.timed_out:
        raise UnreadFile(f"reading it got no further for {reply.seconds:.0f} s; is its file system there?")
    raise UnreadFile(f"it could not be read: {reply.failure or 'its reader ended without an answer'}")


def fixed(wish: FileWish, report: CheckpointReport, python: str, patience: float, waiting: Waiting | None) -> Fixed:
    """Write the copy, have it read again, and give it its name. Raises `BadFile`; then nothing is left."""
    try:
        place = Path(wish.out).absolute()
    except OSError:
        raise BadFile(f"--fix {printable(wish.out, 300)}: the folder that this was started in is gone") from None
    temporary, number = "", -1
    try:
        try:
            # The same ending: torch and safetensors need none, and a reader of the folder sees what it is.
            number, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.stem[:100]}.", suffix=place.suffix)
        except OSError as error:
            raise BadFile(f"--fix {printable(wish.out, 300)}: {error.strerror or error}") from None
        about = os.fstat(number)
        identity = f"{about.st_dev}:{about.st_ino}"
        said = ask("gpudoctor.checkpoint.fix", [encoded(wish), temporary, identity], wish.out, patience, waiting)
        copied = said["copied"]
        reloaded = reload(temporary, wish.out, copied, python, patience, waiting)
        umask = os.umask(0)
        os.umask(umask)
        # As any file that a program writes; mkstemp's is for its owner alone. By its descriptor, for in a folder of
        # somebody else the name may be another file's by now.
        if hasattr(os, "fchmod"):
            os.fchmod(number, 0o666 & ~umask)
        name_it(temporary, place, number)
    finally:
        if number >= 0:
            os.close(number)
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - gone already when all went well
    return Fixed(
        path=wish.out,
        size_bytes=copied["size_bytes"],
        tensors=copied["tensors"],
        renamed=copied["renamed"],
        dropped=tuple(printable(name, 300) for name in copied["dropped"]),
        compared="every byte with the original",
        reloaded=reloaded,
        remarks=remarks(wish, report, copied["shared"]),
    )


def remarks(wish: FileWish, report: CheckpointReport, shared: int) -> tuple[str, ...]:
    sentences = []
    if any(problem.id == "values-not-finite" for problem in report.problems):
        sentences.append("NaN and infinity were copied as they are")
    if any(problem.id == "damaged-record" for problem in report.problems):
        sentences.append("the tensors whose checksum fails were copied as they are, and their checksums are new")
    if shared and wish.out.endswith(".safetensors"):
        sentences.append(
            f"safetensors knows no shared tensors: {shared} tensors that share numbers were written one by one; a "
            "model that ties them does so again when it is built"
        )
    return tuple(sentences)


def name_it(temporary: str, place: Path, number: int) -> None:
    """Give the finished copy, the open file `number`, its name: never over another file, and no other file's bytes."""
    meanwhile = BadFile(f"--fix {place}: somebody else has made it meanwhile; name a new file")
    if not os.path.samestat(os.fstat(number), os.lstat(temporary)):
        raise BadFile(SWAPPED)
    try:
        os.link(temporary, place, follow_symlinks=False)
    except FileExistsError:
        raise meanwhile from None
    except (OSError, NotImplementedError):  # a file system without hard links
        if os.path.lexists(place):
            raise meanwhile from None
        try:
            Path(temporary).rename(place)
        except OSError as error:
            raise BadFile(f"--fix {place}: {error.strerror or error}") from None
    if not os.path.samestat(os.fstat(number), os.lstat(place)):
        raise BadFile(SWAPPED)


def reload(
    temporary: str, out: str, said: dict[str, Any], python: str, patience: float, waiting: Waiting | None
) -> str:
    """ "torch 2.13.0, weights_only=True" when torch reads the same tensors; else why it was not asked.

    Raises `BadFile` when torch reads something else.
    """
    kind = "safetensors" if out.endswith(".safetensors") else "torch"
    try:
        child = start("torch", worker(python, "checkpoint", temporary, kind), timeout=max(TORCH_SECONDS, patience))
    except OSError as error:
        return f"not reloaded by torch: {python} cannot be run: {error.strerror or error}"
    reply = gather([child], waiting)["torch"]
    heard: dict[str, Any] = {}
    for message in messages(reply.output):
        heard.update(message)
    if "torch" not in heard:
        return f"not reloaded by torch: {reply.failure or 'it cannot be imported'}"[:300]
    if "absent" in heard:
        return f"not reloaded by torch: {heard['absent']}"[:300]
    if "listing" not in heard:
        raise BadFile(
            f"--fix: torch {heard['torch']} does not load the copy, which was thrown away: {reply.failure}"[:400]
        )
    if heard["listing"] != said["listing"]:
        raise BadFile(f"--fix: torch {heard['torch']} reads other tensors in the copy, which was thrown away")
    how = f"safetensors {heard['safetensors']}" if "safetensors" in heard else "weights_only=True"
    return f"torch {heard['torch']}, {how}"
