"""What `gpudoctor amp` does with its options: the devices, one after the other, then the answer."""

import os
import re
import sys
from typing import NamedTuple

import msgspec

from gpudoctor.amp.judge import judge, judged_again
from gpudoctor.amp.patient import ALL, NothingToTest, look
from gpudoctor.amp.report import AmpDevice, AmpReport, UnreadableAmpReport, from_json, to_json
from gpudoctor.amp.run import examine
from gpudoctor.cli.files import saved_answer
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.precision.support import DTYPES, Dtype
from gpudoctor.knowledge.wording import counted
from gpudoctor.read.interpreter import NoSuchInterpreter, choose
from gpudoctor.render.amp import show_amp
from gpudoctor.render.plot import NoPlot, check_plot, draw_factors
from gpudoctor.render.progress import Progress
from gpudoctor.render.prose import console
from gpudoctor.render.words import shown_json

INTERRUPTED = 130
_SAME = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float8": "fp8"}
_DEVICE = re.compile(r"cpu|(cuda|xpu):\d{1,3}", re.ASCII)


class Output(NamedTuple):
    """Where the answer goes."""

    json: bool
    plot: str | None
    no_color: bool


class Asked(NamedTuple):
    dtypes: tuple[Dtype, ...]
    devices: tuple[str, ...]
    """() for every GPU that torch sees, else the CPU."""
    timeout: float
    """Seconds a device."""
    python: str | None


def dtypes(text: str) -> tuple[Dtype, ...]:
    """The dtypes that "fp16,bf16" names, in their order here. Raises `BadInput`."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    names = [_SAME.get(word, word) for word in words]
    if names == [ALL]:
        return DTYPES
    unknown = [name for name in names if name not in DTYPES]
    if unknown or not names:
        raise BadInput(f"--dtype {(unknown or [text])[0][:60]!r}: choose of {', '.join(DTYPES)}, or all")
    return tuple(dtype for dtype in DTYPES if dtype in names)


def devices(text: str | None) -> tuple[str, ...]:
    """The devices that "cuda:0,cpu" names; () for None. Raises `BadInput`."""
    if text is None:
        return ()
    names = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    unknown = [name for name in names if name != ALL and not _DEVICE.fullmatch(name)]
    if unknown or not names:
        raise BadInput(f"--device {(unknown or [text])[0][:60]!r}: write cuda:0, xpu:0, cpu, or all")
    return names


def run(asked: Asked, output: Output) -> int:
    """The whole command; its exit status. Ctrl-C gives the devices that were done."""
    _check_output(output)
    try:
        interpreter = choose(asked.python, os.environ)
        with Progress(sys.stderr) as progress:
            patient = look(interpreter, asked.devices, asked.timeout, progress.waiting)
    except (NoSuchInterpreter, NothingToTest) as error:
        raise BadInput(str(error)) from None
    done: list[AmpDevice] = []
    interrupted = False
    for device in patient.devices:
        try:
            with Progress(sys.stderr) as progress:
                done += examine([device], asked.dtypes, interpreter.path, asked.timeout, progress.waiting)
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
            break
    report = msgspec.structs.replace(judge(done, patient.versions), versions=patient.versions, why_devices=patient.why)
    _print(report, output)
    if interrupted:
        tested = f"{len(done)} of {counted(len(patient.devices), 'device')} tested"
        print(f"gpudoctor: interrupted; {tested}", file=sys.stderr)
        return INTERRUPTED
    return report.exit_status


def show_again(path: str, output: Output) -> int:
    """`--from FILE`: an answer that was saved with --json; its exit status."""
    _check_output(output)
    report = judged_again(saved_answer(path, from_json, UnreadableAmpReport))
    _print(report, output)
    return report.exit_status


def _check_output(output: Output) -> None:
    """Say before the test what would fail after it."""
    if output.plot is not None:
        try:
            check_plot(output.plot)
        except NoPlot as error:
            raise BadInput(str(error)) from None


def _print(report: AmpReport, output: Output) -> None:
    if output.json:
        print(shown_json(to_json(report)))
    else:
        show_amp(report, console(no_color=output.no_color))
    sys.stdout.flush()
    if output.plot is not None:
        draw_factors(report, output.plot)
