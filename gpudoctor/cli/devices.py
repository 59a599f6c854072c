"""`gpudoctor devices`."""

import sys
from typing import Annotated

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import FromFile, Json, NoColor, Timeout, answer, of_machine, option
from gpudoctor.errors import BadInput, CannotTell


def devices(
    cuda_visible_devices: Annotated[
        str | None,
        option("--cuda-visible-devices VALUE", "Answer for this value instead of the one in the environment."),
    ] = None,
    from_file: FromFile = None,
    json: Json = False,
    timeout: Timeout = defaults.READ_SECONDS,
    no_color: NoColor = False,
) -> None:
    from gpudoctor import library
    from gpudoctor.cli.files import snapshot_or
    from gpudoctor.devices import DevicesAnswer, NoGpus
    from gpudoctor.render.devices import show_devices
    from gpudoctor.render.progress import Progress

    machine = snapshot_or(from_file, DevicesAnswer) if from_file is not None else None
    if isinstance(machine, DevicesAnswer):
        if cuda_visible_devices is not None:
            raise BadInput(f"--from {from_file}: it is an answer for one value; a snapshot can be asked for another")
        seen = machine
    else:
        try:
            with Progress(sys.stderr) as progress:
                seen = library.devices(
                    cuda_visible_devices, snapshot=machine, timeout=timeout, waiting=progress.waiting
                )
        except (BadInput, CannotTell) as error:
            raise type(error)(
                f"--from {from_file}: {error}" if machine and not isinstance(error, NoGpus) else error
            ) from None
        if machine is not None:
            seen = of_machine(seen, machine)
    answer(seen, show_devices, json=json, no_color=no_color, saved=seen is machine)
    raise typer.Exit(seen.exit_status)
