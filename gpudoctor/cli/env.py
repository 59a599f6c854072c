"""`gpudoctor env`."""

from typing import Annotated, Literal

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    FORM,
    FromFile,
    Json,
    Nodes,
    NoTorch,
    Python,
    Timeout,
    machine_from,
    of_machine,
    option,
)
from gpudoctor.errors import BadInput

Format = Literal["shell", "fish", "dotenv", "slurm", "docker", "kubernetes", "json"]
"""The forms that gpudoctor/emit/ writes; named here so that --help needs none of it."""


def env(
    form: Annotated[Format, option("--format", FORM)] = "shell",
    nodes: Nodes = None,
    debug: Annotated[bool, option("--debug", "Also what to set to look into a failure or hang.")] = False,
    json: Json = False,
    python: Python = None,
    no_torch: NoTorch = False,
    from_file: FromFile = None,
    timeout: Timeout = defaults.READ_SECONDS,
) -> None:
    if from_file is not None and python is not None:
        raise BadInput("--from answers for a file; --python examines this machine")
    form = "json" if json else form
    from gpudoctor.emit import EMITTERS
    from gpudoctor.emit.comments import CannotExpress
    from gpudoctor.knowledge.suggest.advice import Advice

    machine = machine_from(from_file, Advice, python=python, torch=not no_torch, timeout=timeout)
    if isinstance(machine, Advice):
        if nodes is not None or debug:
            raise BadInput(f"--from {from_file}: it is an answer, which is shown as it is")
        advice = machine
    else:
        from gpudoctor.knowledge.suggest.suggestions import suggest

        advice = of_machine(suggest(machine, nodes, debug), machine)
    try:
        text = EMITTERS[form](advice)
    except CannotExpress as error:
        raise BadInput(f"--format {form}: {error}") from None
    print(text, end="", flush=True)
    raise typer.Exit(advice.exit_status)
