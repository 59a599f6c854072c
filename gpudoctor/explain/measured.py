"""Fixes made from the numbers and paths of the case: who holds a GPU's memory, how many GPUs the ranks of a node see,
which folder a checkpoint was written to.

Each is told only where the log gives every value that it names; else the cause's own fix stands.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from gpudoctor.cause import Fix
from gpudoctor.causes import CAUSES
from gpudoctor.command import command
from gpudoctor.explain.device_memory import held, of_memory
from gpudoctor.explain.report import LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.writers import unprefixed, writer
from gpudoctor.lazy import lazy_re

Ends = Mapping[str, Sequence[tuple[int, str]]]
ORDINAL = lazy_re(r"invalid device ordinal")
FAILED = lazy_re(r"failed \(exitcode: 1\) local_rank: (?P<first>\d{1,3})\b|\(local_rank: (?P<row>\d{1,3})\)")
CLOSED = lazy_re(r"Sending process \d{1,9} closing signal")
VISIBLE = lazy_re(r"\bCUDA_VISIBLE_DEVICES=[\"']?(?P<list>\d{1,2}(?:,\d{1,2}){0,15})\b")
BY_ACCELERATE = lazy_re(r"\baccelerate(?:\.commands\.|[/\\ -])launch\b|\baccelerate[/\\]commands")
SAVING = lazy_re(
    r"(?i)\bsav(?:ing|e)\b[^\n]{0,80}?\b(?:to|in|at|Torch\]) ?(?:Saving )?[\"'`]?(?P<path>[.~]{0,2}/?[\w.@+=-]{1,80}"
    r"(?:/[\w.@+=-]{1,80}){1,12})"
)
NEAR = 80
"""Lines before a write that failed in which its target is looked for (our rule of thumb)."""


def measured(cause: LogCause, ends: Ends) -> LogCause | None:
    """The cause with such a fix; None where the log does not give its values."""
    known = CAUSES[cause.cause]
    told = None
    if cause.cause == "gpu-out-of-memory" and cause.fix.text in (known.fix.text, known.fix_for("program").text):
        told = _of_memory(cause, ends)
    elif cause.cause == "duplicate-gpu" and any(ORDINAL.search(line.text) for line in cause.evidence):
        told = _of_ordinals(ends)
    elif cause.cause == "disk-full" and cause.fix == known.fix:
        told = _of_target(cause, ends)
    return structs.replace(cause, fix=told, meaning="", confirm="") if told else None


def _of_memory(cause: LogCause, ends: Ends) -> Fix | None:
    numbers = {(line.file, line.line) for line in cause.evidence}
    texts = [text for file, lines in ends.items() for number, text in lines if (file, number) in numbers]
    seen = next((found for text in texts if (found := held(text))), None)
    if seen is None:
        return None
    place = next((line.text for line in cause.evidence if 'File "' in line.text), "")
    ranks = {
        writer(text).rank
        for lines in ends.values()
        for _, text in lines
        if (other := held(text)) and other.gpu == seen.gpu
    } - {None}
    return of_memory(seen, _texts(ends), place, shared=len(ranks) > 1)


def _texts(ends: Ends) -> list[str]:
    return [text for lines in ends.values() for _, text in lines]


def _of_ordinals(ends: Ends) -> Fix | None:
    """The first local rank that has no GPU counts those that are visible."""
    texts = _texts(ends)
    failed = {int(at["first"] or at["row"]) for text in texts for at in FAILED.finditer(text)}
    closed = sum(bool(CLOSED.search(text)) for text in texts)
    if not failed or not closed or (visible := min(failed)) < 1 or closed < visible:
        return None  # those below it were alive, or it is not the first
    started = max(len(failed) + closed, max(failed) + 1)
    lists = {at["list"] for text in texts for at in VISIBLE.finditer(text)}
    if len(lists) == 1 and len(next(iter(lists)).split(",")) != visible:
        return None
    named = f" (CUDA_VISIBLE_DEVICES={next(iter(lists))})" if lists else ""
    accelerate = any(BY_ACCELERATE.search(text) for text in texts)
    option = f"--num_processes {visible} (times the nodes)" if accelerate else f"--nproc-per-node={visible}"
    return Fix(
        f"{started} ranks were started on that node, and local rank {visible} is the first for which there is no GPU: "
        f"the ranks see {visible}{named}. Start as many: {option}"
        + (", or name more GPUs in CUDA_VISIBLE_DEVICES." if lists else "."),
        (command("nvidia-smi -L"),),
    )


def _of_target(cause: LogCause, ends: Ends) -> Fix | None:
    at = cause.evidence[0] if cause.evidence else None
    near = [text for number, text in ends.get(at.file, ()) if at.line - NEAR <= number < at.line] if at else []
    path = next((m["path"] for text in reversed(near) if (m := SAVING.search(unprefixed(clean(text))))), "")
    folder, _, name = path.rstrip(".").rpartition("/")
    path = folder or "." if "." in name else path.rstrip(".")  # a file that is to be made is not there yet
    lines = (command("df -h {:path}", path), command("df -i {:path}", path)) if path else ()
    if not path or not all(lines):
        return None
    return Fix(
        f"Make room on the file system of {path}, to which it was writing (older checkpoints there, as a rule), or "
        "save elsewhere. Where df shows room, the quota is full (quota -s).",
        lines,
    )


__all__ = ["measured"]
