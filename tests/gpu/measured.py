"""Writes what a run of the GPU suite measured into a page of docs/measured/: only when it is asked to.

    GPUDOCTOR_MEASURED=docs/measured python -m pytest tests/gpu/test_amp_on_gpu.py -n0 -rs

The folder is named in the environment; without it nothing is written. Every figure comes from the answer of the
`gpudoctor amp` that the suite has run; what the answer lacks is left out.
"""

import os
from datetime import date
from pathlib import Path
from typing import NamedTuple

from gpudoctor.amp.report import AmpDevice, AmpReport, Precision
from gpudoctor.snapshot import Snapshot

FOLDER = "GPUDOCTOR_MEASURED"
MOST_OF_A_DAY = 1000


class Where(NamedTuple):
    """What a reader needs to place the figures."""

    day: date
    driver: str
    cuda_of_driver: str
    cpu: str
    kernel: str


def where(machine: Snapshot, day: date) -> Where:
    """Of a machine that was read; "unknown" for what could not be."""
    cuda = machine.nvidia.cuda_version.value_or(None)
    return Where(
        day,
        machine.nvidia.driver_version.value_or("unknown"),
        "{}.{}".format(*cuda) if cuda else "unknown",
        machine.host.cpu_model.value_or("unknown"),
        machine.host.kernel_release.value_or("unknown"),
    )


def page(report: AmpReport, place: Where, plain_loop: dict[str, float]) -> str:
    """The page, in Markdown. `plain_loop`: device -> TFLOP/s of bf16 products in a plain loop, same run."""
    lines = [f"# gpudoctor amp on {', '.join(dict.fromkeys(each.name for each in report.devices))}", ""]
    lines += [
        f"- date: {place.day.isoformat()}",
        f"- driver {place.driver}, up to CUDA {place.cuda_of_driver}; kernel {place.kernel}; CPU {place.cpu}",
        f"- gpudoctor {report.gpudoctor}, " + ", ".join(f"{name} {text}" for name, text in report.versions.items()),
        "",
        "Written by tests/gpu/measured.py from one run; nothing here is edited by hand.",
    ]
    for device in report.devices:
        lines += ["", *of_device(device, plain_loop.get(device.device))]
    return "\n".join(lines) + "\n"


def of_device(device: AmpDevice, plain: float | None) -> list[str]:
    capability = "compute capability {}.{}".format(*device.capability) if device.capability else "no compute capability"
    lines = [f"## {device.device}: {device.name}, {capability}", "", f"The whole test took {device.seconds:.1f} s.", ""]
    if plain is not None:
        lines += [f"bf16 products in a plain loop of torch, in the same run: {plain:.1f} TFLOP/s.", ""]
    lines += [
        "| dtype | support | result | output error | gradient error | what | size | ms | fp32 ms | factor "
        "| published | TFLOP/s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for precision in device.precisions:
        lines += rows(precision)
    return lines


def rows(precision: Precision) -> list[str]:
    """One row a speed; one without figures where nothing was timed."""
    outputs = [each.output_error for each in precision.compared if each.output_error is not None]
    gradients = [each.gradient_error for each in precision.compared if each.gradient_error is not None]
    head = (
        f"| {precision.dtype} | {precision.support} | {precision.outcome} "
        f"| {figure(max(outputs, default=None), '.1e')} | {figure(max(gradients, default=None), '.1e')} "
    )
    if not precision.speeds:
        return [head + "| | | | | | | |"]
    return [
        head + f"| {speed.what} | {speed.size} | {speed.seconds * 1e3:.4g} | {speed.fp32_seconds * 1e3:.4g} "
        f"| {speed.factor:.2f} | {figure(speed.expected_factor, '.1f')} | {figure(speed.teraflops, '.1f')} |"
        for speed in precision.speeds
    ]


def figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def file_for(folder: Path, report: AmpReport, day: date) -> Path:
    """A new file: amp-h100-80gb-hbm3-2026-05-01.md, with a number where there is one of that day."""
    name = next((each.name for each in report.devices if each.name), "unknown")
    words = "".join(letter.lower() if letter.isascii() and letter.isalnum() else " " for letter in name).split()
    stem = "-".join(["amp", *(word for word in words if word != "nvidia"), day.isoformat()])
    names = [f"{stem}.md", *(f"{stem}-{number}.md" for number in range(2, MOST_OF_A_DAY))]
    return next(folder / each for each in names if not (folder / each).exists())


def record(report: AmpReport, machine: Snapshot, plain_loop: dict[str, float], day: date) -> Path | None:
    """Write the page where the environment asks for it; the file. Raises `OSError`."""
    folder = os.environ.get(FOLDER, "")
    if not folder:
        return None
    file = file_for(Path(folder), report, day)
    file.write_text(page(report, where(machine, day), plain_loop), encoding="utf-8")
    return file
