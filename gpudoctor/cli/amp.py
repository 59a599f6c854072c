"""`gpudoctor amp`."""

import sys
from typing import Annotated

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    OF_NUMBERS,
    WAITED,
    FromFile,
    Json,
    NoColor,
    Plot,
    Python,
    answer,
    check_plot_of,
    option,
    seconds,
)

INTERRUPTED = 130


def amp(
    dtype: Annotated[str, option("--dtype fp16,bf16,tf32,fp8", OF_NUMBERS)] = defaults.DTYPES,
    device: Annotated[
        str | None,
        option("--device NAMES", "cuda:0, xpu:1, cpu, or all; by default every GPU that torch sees, else the CPU."),
    ] = None,
    timeout: Annotated[float, seconds("--timeout SECONDS", WAITED, least=1)] = defaults.DEVICE_SECONDS,
    tutorials: Annotated[bool, option("--tutorials", "Also what old tutorials write, in today's words.")] = False,
    from_file: FromFile = None,
    json: Json = False,
    plot: Plot = None,
    python: Python = None,
    no_color: NoColor = False,
) -> None:
    from gpudoctor.amp.asked import test
    from gpudoctor.amp.judge import judged_again
    from gpudoctor.amp.report import AmpReport
    from gpudoctor.cli.files import saved_answer
    from gpudoctor.knowledge.wording import counted
    from gpudoctor.render.amp import show_amp, show_old
    from gpudoctor.render.plot import draw_factors
    from gpudoctor.render.progress import Progress

    check_plot_of(plot)
    tested = None
    if from_file is not None:
        report = judged_again(saved_answer(from_file, AmpReport))
    else:
        with Progress(sys.stderr) as progress:
            tested = test(dtype, device, python, timeout, progress.waiting)
        report = tested.report
    status = INTERRUPTED if tested is not None and tested.interrupted else report.exit_status
    show = show_old if tutorials else show_amp
    answer(report, show, json=json, no_color=no_color, status=status)
    if plot is not None:
        draw_factors(report, plot)
    if tested is not None and tested.interrupted:
        done = f"{len(report.devices)} of {counted(tested.wanted, 'device')} tested"
        print(f"gpudoctor: interrupted; {done}", file=sys.stderr)
    raise typer.Exit(status)
