"""`gpudoctor devices`."""

import os
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpudoctor.cli.options import FromFile, NoColor, Timeout

if TYPE_CHECKING:
    from gpudoctor.snapshot import CudaAnswer, Reading, Snapshot


def devices(
    cuda_visible_devices: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option(
            "--cuda-visible-devices",
            metavar="VALUE",
            help="Answer for this value instead of the one in the environment.",
            show_default=False,
        ),
    ] = None,
    from_file: FromFile = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    timeout: Timeout = 10.0,
    no_color: NoColor = False,
) -> None:
    """Which GPUs a CUDA program gets, in its own numbering, and what is wrong with CUDA_VISIBLE_DEVICES."""
    if from_file is None:
        machine, value, driver = _live(cuda_visible_devices, timeout)
    else:
        machine, value, driver = _recorded(from_file, cuda_visible_devices)

    from gpudoctor.devices import to_json, what_if
    from gpudoctor.render.words import shown_json

    answer = what_if(machine, value, driver)
    if json:
        print(shown_json(to_json(answer)))
    else:
        from gpudoctor.render.devices import show_devices
        from gpudoctor.render.prose import console

        show_devices(answer, console(no_color=no_color))


def _live(value: Optional[str], timeout: float) -> "tuple[Snapshot, Optional[str], Reading[CudaAnswer]]":  # noqa: UP045
    """This machine, the value to answer for, and the driver's own answer for it."""
    from gpudoctor.cli.live import examine_machine

    if value is None:
        machine = examine_machine(torch=False, timeout=timeout)
        return machine, os.environ.get("CUDA_VISIBLE_DEVICES"), machine.cuda.visible

    from gpudoctor.active import gather, own_module, start
    from gpudoctor.errors import BadInput
    from gpudoctor.read.cuda import assemble

    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": value}
    try:
        child = start("cuda", own_module("gpudoctor.read.libcuda"), environment=environment, timeout=timeout)
    except ValueError as error:  # a value that no environment can hold
        raise BadInput(f"--cuda-visible-devices: {error}") from None
    machine = examine_machine(torch=False, timeout=timeout)
    return machine, value, assemble(gather([child])["cuda"])


def _recorded(path: str, value: Optional[str]) -> "tuple[Snapshot, Optional[str], Reading[CudaAnswer]]":  # noqa: UP045
    """A machine in a file: its own driver's answer holds for its own value only."""
    from gpudoctor.cli.files import snapshot_from
    from gpudoctor.devices import recorded_value
    from gpudoctor.errors import BadInput
    from gpudoctor.snapshot import NotRead, missing

    machine = snapshot_from(path)
    try:
        own = recorded_value(machine)
    except NotRead:
        if value is None:
            raise BadInput(
                f"--from {path}: it does not say what CUDA_VISIBLE_DEVICES was; give --cuda-visible-devices VALUE"
            ) from None
        own = None
    else:
        if value is None or value == own:
            return machine, own, machine.cuda.visible
    return machine, value, missing("libcuda", "the machine is in a file and cannot be asked", "not-asked")
