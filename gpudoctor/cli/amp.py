"""`gpudoctor amp`."""

import sys
from typing import Annotated

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import Json, NoColor, Python, Saved, answer, check_plot_of, option, seconds

INTERRUPTED = 130


def amp(
    dtype: Annotated[str, option("--dtype NAMES", "Of fp16, bf16, tf32, fp8.")] = defaults.DTYPES,
    device: Annotated[
        str | None,
        option("--device NAMES", "cuda:0, xpu:1, cpu, or all; by default every GPU that torch sees, else the CPU."),
    ] = None,
    timeout: Annotated[
        float, seconds("--timeout SECONDS", "Deadline of each device.", least=1)
    ] = defaults.DEVICE_SECONDS,
    from_file: Saved = None,
    json: Json = False,
    plot: Annotated[str | None, option("--plot FILE", "The speeds as a picture too: FILE.svg or FILE.png.")] = None,
    python: Python = None,
    no_color: NoColor = False,
) -> None:
    """Exit status: 0 what the hardware has works, 1 it does not, 2 no device could be tested."""
    from gpudoctor.amp.asked import test
    from gpudoctor.amp.judge import judged_again
    from gpudoctor.amp.report import from_json, to_json
    from gpudoctor.cli.files import saved_answer
    from gpudoctor.knowledge.wording import counted
    from gpudoctor.render.amp import show_amp
    from gpudoctor.render.plot import draw_factors
    from gpudoctor.render.progress import Progress

    check_plot_of(plot)
    tested = None
    if from_file is not None:
        report = judged_again(saved_answer(from_file, from_json))
    else:
        with Progress(sys.stderr) as progress:
            tested = test(dtype, device, python, timeout, progress.waiting)
        report = tested.report
    answer(report, to_json if json else None, show_amp, no_color=no_color)
    if plot is not None:
        draw_factors(report, plot)
    if tested is not None and tested.interrupted:
        done = f"{len(report.devices)} of {counted(tested.wanted, 'device')} tested"
        print(f"gpudoctor: interrupted; {done}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(report.exit_status)
