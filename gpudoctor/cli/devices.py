"""`gpudoctor devices`."""

import sys
from typing import Annotated

from gpudoctor import defaults
from gpudoctor.cli.options import FromFile, Json, NoColor, Timeout, answer, option
from gpudoctor.errors import BadInput


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
    from gpudoctor.cli.files import snapshot_from
    from gpudoctor.devices import NoGpus, to_json
    from gpudoctor.render.devices import show_devices
    from gpudoctor.render.progress import Progress

    machine = snapshot_from(from_file) if from_file is not None else None
    try:
        with Progress(sys.stderr) as progress:
            seen = library.devices(cuda_visible_devices, snapshot=machine, timeout=timeout, waiting=progress.waiting)
    except BadInput as error:
        raise BadInput(f"--from {from_file}: {error}" if machine and not isinstance(error, NoGpus) else error) from None
    answer(seen, to_json if json else None, show_devices, no_color=no_color)
