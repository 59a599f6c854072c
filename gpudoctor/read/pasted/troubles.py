"""Troubles that programs beside the tools speak of: a container's runtime, modprobe, systemctl, a driver in the
kernel's log.

A text that is pasted to have a machine judged holds them as often as a table. The lines are those that `explain` knows
(gpudoctor.symptoms), of those causes only that tell of the machine and not of a job.
"""

from collections.abc import Iterator, Sequence

from gpudoctor.read import nvidia_smi
from gpudoctor.read.pasted.part import LONGEST_LINE
from gpudoctor.snapshot import ToldTrouble
from gpudoctor.sure import LIKELY
from gpudoctor.symptom import Symptom

OF_THE_MACHINE = ("no-gpu-visible", "driver-mismatch", "xid-gpu-lost", "fabric-manager")
SPEAKERS = ("gpu_drivers", "containers", "kernel", "gpu")
MOST = 20
MOST_LINES = 20_000
WORDS = (
    *("modprobe:", "NVRM: ", "amdgpu", "nvidia-fabricmanager", "nvidia-container", "select device driver", "CDI"),
    *("runtime name: nvidia", "platform detected", "strategy detected", "Failed to initialize NVML"),
)
"""Of which a text that tells one holds one: the table of lines is loaded for such texts alone."""


def told_troubles(text: str) -> tuple[ToldTrouble, ...]:
    """Each trouble once, with the line that tells it."""
    if not any(word in text for word in WORDS):
        return ()
    lines = text.split("\n")[:MOST_LINES]
    by_trouble: dict[tuple[str, str], ToldTrouble] = {}
    for trouble in _each(lines, _entries()):
        by_trouble.setdefault((trouble.symptom, trouble.seen), trouble)
    return tuple(by_trouble.values())[:MOST]


def _entries() -> Sequence[Symptom]:
    from importlib import import_module

    every = (entry for name in SPEAKERS for entry in import_module(f"gpudoctor.symptoms.{name}").SYMPTOMS)
    return [
        entry
        for entry in every
        if entry.cause in OF_THE_MACHINE
        and entry.role == "cause"
        and entry.confidence >= LIKELY
        and not entry.id.startswith("xid-")  # the kernel log's own reader has these
    ]


def _each(lines: Sequence[str], entries: Sequence[Symptom]) -> Iterator[ToldTrouble]:
    needles = tuple(needle for entry in entries for needle in entry.needles)
    for raw in lines:
        line = raw[:LONGEST_LINE].strip()
        if not any(needle in line for needle in needles) or nvidia_smi.from_messages(line, is_alone=False) is not None:
            continue
        for entry in entries:
            if any(needle in line for needle in entry.needles) and (values := entry.match(line)) is not None:
                told = {name: value[:200] for name, value in values.items()}
                yield ToldTrouble(entry.id, entry.cause, entry.variant, entry.said(told), told, line)
                break
