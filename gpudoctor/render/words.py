"""Sentences and figures that every renderer shares: the machine in a line, the verdict in words, sizes."""

import json
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from gpudoctor.knowledge.wording import counted, listed, shortened
from gpudoctor.lazy import lazy_re
from gpudoctor.report import Report
from gpudoctor.snapshot import Reading, Snapshot, is_left_out

GIB = 1024**3
LEFT_OUT = "Lines to paste are left out: in a file they are words of whoever wrote it. Run it again for them."
"""Why the fixes of a saved answer have no lines (`check.without_lines`)."""

VENDORS = {
    "0x10de": "NVIDIA",
    "0x1002": "AMD",
    "0x8086": "Intel",
    "0x1ae0": "Google TPU",
    "0x1d0f": "AWS Neuron",
    "0x1da3": "Habana",
}


def safe(text: str, *, lines: bool = False) -> str:
    """Text whose every character shows as itself; with `lines`, line breaks and tabs stay.

    A process or host name must not steer root's terminal: controls, marks that reorder or hide text, separators of
    lines and halves of characters are spelled out.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or (lines and letter in "\t\n") else _spelled(ord(letter)) for letter in text
    )


def shown_json(raw: bytes) -> str:
    """JSON for a terminal: the same value, and no character of it that would not show as itself."""
    text = raw.decode()
    if raw.isascii() and b"\x7f" not in raw:  # JSON spells the other controls itself
        return text
    return "".join(letter if letter == "\n" or letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def gib(size: int) -> str:
    """ "79.6 GiB"."""
    return f"{size / GIB:.1f} GiB"


def verdict(report: Report) -> str:
    """The verdict in words, with its numbers: of a machine, of a choice of checks, or of the part that a file holds."""
    counts, sight = report.counts, report.sight
    counts_told = [
        counted(number, noun) for number, noun in ((counts.error, "error"), (counts.warning, "warning")) if number
    ]
    blind = len(report.could_not_look)
    sight_words = f"; {counted(blind, 'check')} could not look" if blind else ""
    if report.verdict == "not ready":
        return f"Not ready to train: {', '.join(counts_told)}{sight_words}"
    if report.verdict == "cannot tell":
        lacking = "; ".join(sight.lacking) or "nothing could be examined"
        said = (
            f"{lacking[0].upper()}{lacking[1:]}" if lacking.startswith("no accelerator") else f"Cannot tell: {lacking}"
        )
        return said + (f"; {', '.join(counts_told)} so far" if counts_told else "")
    if report.verdict == "nothing wrong":
        of = listed(sight.selected if sight.selected else sight.seen)
        said = f"{of}: " + (f"no error, {', '.join(counts_told)}" if counts_told else "nothing wrong")
        if sight.selected:
            return f"{said}; no other check was asked for"
        left = listed(sight.left_out)
        return f"{said}; {left} {'was' if sight.why_left_out.startswith('not asked') else _are(sight.left_out)} " + (
            sight.why_left_out
        )
    ready = "Ready to train" + (" on the CPU" if sight.on_cpu else "")
    if counts_told:
        return f"{ready}, with {', '.join(counts_told)}{sight_words}"
    return ready + (f", as far as could be seen: {counted(blind, 'check')} could not look" if blind else "")


def _are(parts: Sequence[str]) -> str:
    return "is" if len(parts) == 1 and parts[0] != "GPUs" else "are"


def tally(report: Report) -> str:
    """How many checks ended how."""
    counts = report.counts
    troubled = sum(result.outcome == "problem" for result in report.results)
    parts = [
        f"{counts.ok} ok",
        f"{troubled} with findings" if troubled else "",
        f"{counts.skipped} skipped" if counts.skipped else "",
        f"{counts.crashed} crashed" if counts.crashed else "",
        f"{counts.not_applicable} not applicable" if counts.not_applicable else "",
        f"{counts.not_run} not run" if counts.not_run else "",
    ]
    return f"{counted(len(report.results), 'check')}: " + ", ".join(part for part in parts if part)


def machine_line(snapshot: Snapshot) -> str:
    """The machine in one line: host, accelerators, driver."""
    host = snapshot.host.hostname.value_or("")
    name = f"{host}: " if host else ("" if snapshot.origin == "this machine" else f"{snapshot.origin}: ")
    return name + ", ".join((accelerators(snapshot), *_driver(snapshot)))


def header(snapshot: Snapshot, fabric: str, width: int) -> str:
    """The machine in one line, as much of it as fits: what is left out, -v tells."""
    host = snapshot.host.hostname.value_or("") or ("" if snapshot.origin == "this machine" else snapshot.origin)
    files, torch = snapshot.training.torch_files, snapshot.training.torch
    version = torch.value.version if torch.is_read else files.value.version if files.is_read else ""
    python = snapshot.training.python_version.value_or("")
    line = (f"{host}: " if host else "") + accelerators(snapshot).replace("x NVIDIA ", "x ")
    more = (*_driver(snapshot)[:1], f"torch {version}" if version else "", f"Python {python}" if python else "", fabric)
    for part in filter(None, more):
        if len(line) + len(part) + 2 <= width:
            line += f", {part}"
    return line


_ASIDE = lazy_re(r" \([^()]*\)")
_TAIL = lazy_re(r"(?:; |, (?:which|though|but|while|so) ).*$")


def headline(summary: str, width: int) -> str:
    """A summary in one line where that can be: without asides in parentheses, then without what follows a semicolon."""
    for shorter in (_ASIDE, _TAIL):
        if len(summary) <= width:
            break
        summary = shorter.sub("", summary) or summary
    return summary


def first_clause(text: str) -> str:
    """The first thing that a text says to do, without its period."""
    return re.split(r"[.;:](?:\s|$)", _ASIDE.sub("", text), maxsplit=1)[0]


def _driver(snapshot: Snapshot) -> list[str]:
    parts = []
    driver = snapshot.nvidia.driver_version
    if driver.is_read:
        parts.append(f"driver {driver.value}")
    cuda = snapshot.nvidia.cuda_version
    if cuda.is_read:
        parts.append("up to CUDA {}.{}".format(*cuda.value))
    return parts


def accelerators(snapshot: Snapshot) -> str:
    """ "8x NVIDIA H100 80GB HBM3", "1x AMD (PCI 0x74a1)", "no accelerator", or why that is not known."""
    gpus = snapshot.nvidia.gpus
    models = []
    if gpus.is_read:
        names = Counter(gpu.name.value_or("GPU" if is_left_out(gpu.name) else "unreadable GPU") for gpu in gpus.value)
        models += [f"{number}x {name}" for name, number in names.items()]
    pci = snapshot.accelerators.pci
    if pci.is_read:
        # NVIDIA's devices are NVML's to count, unless NVML could not.
        kinds = Counter(
            (device.vendor, device.model or f"(PCI device {device.device})")
            for device in pci.value
            if not (device.vendor == "0x10de" and (gpus.is_read or not device.device_class.startswith("0x03")))
        )
        models += [
            f"{number}x {VENDORS.get(vendor, 'vendor ' + vendor)} {device}"
            for (vendor, device), number in kinds.items()
        ]
    if models:
        return ", ".join(models)
    if gpus.is_read or gpus.missing_kind == "absent" or (pci.is_read and not pci.value):
        return "no GPU or other accelerator"
    return f"GPUs unknown ({gpus.reason})"


def training_line(snapshot: Snapshot) -> str:
    """The training interpreter and what it could train on."""
    training = snapshot.training
    if not training.python.is_read:
        return f"training interpreter: {training.python.reason}"
    version = training.python_version.value_or("")
    python = f"Python {version + ' ' if version else ''}({training.python.value}, chosen by {training.chosen_by.value})"
    return f"{_torch(snapshot)}, {python}"


def _torch(snapshot: Snapshot) -> str:
    files, torch = snapshot.training.torch_files, snapshot.training.torch
    if torch.is_read:
        facts = torch.value
        usable = []
        if facts.cuda_available:
            usable.append(f"{facts.device_count} {'ROCm' if facts.hip_version else 'CUDA'} device(s)")
        if facts.xpu_available:
            usable.append("Intel XPU")
        if facts.xla_version:
            usable.append(f"torch_xla {facts.xla_version}")
        return f"torch {facts.version} can use {', '.join(usable) or 'the CPU only'}"
    if files.is_read:
        return f"torch {files.value.version} ({torch.reason})"
    return "no torch" if files.missing_kind == "absent" else f"torch unknown ({files.reason})"


def evidence(reading: Reading[object], *, whole: bool = False) -> str:
    """A reading in one line: its source and value, or why there is none; cut where it is long, unless `whole`."""
    if not reading.is_read:
        return f"{reading.source}: {reading.reason}"
    text = figure(reading.value)
    if isinstance(reading.value, int) and "MemoryInfo" in reading.source:
        text = gib(reading.value)
    return f"{reading.source}: {text if whole else shortened(text, LONGEST_EVIDENCE)}"


LONGEST_EVIDENCE = 160
"""Two lines of a terminal; -vv has the rest."""


def _friendly(fields: dict[str, object]) -> dict[str, object]:
    """Fields with sizes in GiB and their unit out of their name."""
    return {
        name.removesuffix("_bytes") if isinstance(item, int) else name: gib(item)
        if name.endswith("_bytes") and isinstance(item, int)
        else item
        for name, item in fields.items()
    }


def figure(value: object) -> str:
    """A fact in words: structures by their fields without what is at its default, lists by their items."""
    if isinstance(value, Reading):
        return figure(value.value) if value.is_read else f"({value.reason})"
    if isinstance(value, msgspec.Struct):
        defaults = {field.name: field.default for field in msgspec.structs.fields(value)}
        shown = {
            name: getattr(value, name) for name in value.__struct_fields__ if getattr(value, name) != defaults[name]
        }
        return ", ".join(f"{name} {figure(item)}" for name, item in _friendly(shown).items())
    if isinstance(value, dict):
        return ", ".join(f"{key}: {figure(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (tuple, list)):
        return ("; " if value and isinstance(value[0], msgspec.Struct) else ", ").join(map(figure, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split())
