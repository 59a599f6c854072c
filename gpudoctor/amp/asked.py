"""Precisions and devices as they are asked for, tested one device after the other. All raise `BadInput`."""

import os
import re
from typing import NamedTuple

from msgspec.structs import replace

from gpudoctor.active import Waiting
from gpudoctor.amp.judge import judge
from gpudoctor.amp.patient import ALL, look
from gpudoctor.amp.report import AmpDevice, AmpReport
from gpudoctor.amp.run import examine
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.precision.support import DTYPES, Dtype
from gpudoctor.lazy import lazy_re
from gpudoctor.read.interpreter import choose

_SAME = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float8": "fp8"}
_DEVICE = lazy_re(r"cpu|(cuda|xpu):\d{1,3}", re.ASCII)


class Tested(NamedTuple):
    report: AmpReport
    wanted: int
    """So many devices were to be tested."""
    interrupted: bool
    """By Ctrl-C, after the first of them."""


def dtypes(text: str) -> tuple[Dtype, ...]:
    """The dtypes that "fp16,bf16" names, in their order here."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    names = [_SAME.get(word, word) for word in words]
    if names == [ALL]:
        return DTYPES
    unknown = [name for name in names if name not in DTYPES]
    if unknown or not names:
        raise BadInput(f"--dtype {(unknown or [text])[0][:60]!r}: choose of {', '.join(DTYPES)}, or all")
    return tuple(dtype for dtype in DTYPES if dtype in names)


def devices(text: str | None) -> tuple[str, ...]:
    """The devices that "cuda:0,cpu" names; () for None."""
    if text is None:
        return ()
    names = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    unknown = [name for name in names if name != ALL and not _DEVICE.fullmatch(name)]
    if unknown or not names:
        raise BadInput(f"--device {(unknown or [text])[0][:60]!r}: write cuda:0, xpu:0, cpu, or all")
    return names


def test(
    wanted_dtypes: str, wanted_devices: str | None, python: str | None, timeout: float, waiting: Waiting
) -> Tested:
    """Ctrl-C gives the devices that were done."""
    of, on = dtypes(wanted_dtypes), devices(wanted_devices)
    interpreter = choose(python, os.environ)
    patient = look(interpreter, on, timeout, waiting)
    done: list[AmpDevice] = []
    interrupted = False
    for device in patient.devices:
        try:
            done += examine([device], of, interpreter.path, timeout, waiting)
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
            break
    report = replace(judge(done, patient.versions), versions=patient.versions, why_devices=patient.why)
    return Tested(report, len(patient.devices), interrupted)
