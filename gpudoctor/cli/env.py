"""`gpudoctor env`."""

from enum import Enum
from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import FromFile, NoTorch, Python, Timeout


class Format(str, Enum):
    """The forms that gpudoctor/emit/ writes; named here so that --help needs none of it."""

    shell = "shell"
    fish = "fish"
    dotenv = "dotenv"
    slurm = "slurm"
    docker = "docker"
    kubernetes = "kubernetes"
    json = "json"


def env(
    form: Annotated[Format, typer.Option("--format", help="The form to write it in.")] = Format.shell,
    nodes: Annotated[
        Optional[int],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option(
            "--nodes",
            metavar="N",
            min=1,
            help="How many nodes train together; default: what the environment shows, else several.",
            show_default=False,
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Also what to set to look into a failure or hang.")] = False,
    python: Python = None,
    no_torch: NoTorch = False,
    from_file: FromFile = None,
    timeout: Timeout = 10.0,
) -> None:
    """Which NCCL and PyTorch variables this machine needs, each with its reason; only those."""
    from gpudoctor.errors import BadInput

    if from_file is None:
        from gpudoctor.cli.live import examine_machine

        machine = examine_machine(python=python, torch=not no_torch, timeout=timeout)
    elif python is not None:
        raise BadInput("--from answers for a file; --python examines this machine")
    else:
        from gpudoctor.cli.files import snapshot_from

        machine = snapshot_from(from_file)
    from gpudoctor.emit import EMITTERS
    from gpudoctor.emit.comments import CannotExpress
    from gpudoctor.knowledge.suggest.suggestions import suggest

    try:
        text = EMITTERS[form.value](suggest(machine, nodes, debug))
    except CannotExpress as error:
        raise BadInput(f"--format {form.value}: {error}") from None
    print(text, end="")
