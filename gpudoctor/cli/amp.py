"""`gpudoctor amp`."""

from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import NoColor, Python, finite


def amp(
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="NAMES", help="Of fp16, bf16, tf32, fp8.")
    ] = "fp16,bf16,tf32,fp8",
    device: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option(
            "--device",
            metavar="NAMES",
            help="cuda:0, xpu:1, cpu, or all; by default every GPU that torch sees, else the CPU.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            max=3600,
            callback=finite,
            help="Deadline of each device.",
        ),
    ] = 60.0,
    from_file: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option("--from", metavar="FILE", help="Show a saved answer (--json) again.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    plot: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option("--plot", metavar="FILE", help="The speeds as a picture too: FILE.svg or FILE.png."),
    ] = None,
    python: Python = None,
    no_color: NoColor = False,
) -> None:
    """Which precision really works on each device, proved by running it, and how to ask for it.

    Exit status: 0 what the hardware has works, 1 it does not, 2 no device could be tested.
    """
    from gpudoctor.cli import amp_run

    output = amp_run.Output(json=json, plot=plot, no_color=no_color)
    if from_file is not None:
        raise typer.Exit(amp_run.show_again(from_file, output))
    asked = amp_run.Asked(dtypes=amp_run.dtypes(dtype), devices=amp_run.devices(device), timeout=timeout, python=python)
    raise typer.Exit(amp_run.run(asked, output))
