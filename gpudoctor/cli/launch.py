"""`gpudoctor launch`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    COMPUTED_IN,
    OUTPUT,
    SHARED_BY,
    VERIFIED,
    FrameworkVersion,
    GpusPerNode,
    Hostfile,
    Hosts,
    Json,
    MasterAddress,
    MasterPort,
    NoColor,
    Nodes,
    Python,
    RemoteGpudoctor,
    Timeout,
    Verbose,
    argument,
    option,
)
from gpudoctor.errors import BadInput
from gpudoctor.launcher import registry

if TYPE_CHECKING:
    Framework = str
else:
    Framework = Literal[tuple(registry.frameworks())]
STARTED_BY = f"What starts the ranks: {', '.join(registry.frameworks())}."


def launch(
    program: Annotated[
        list[str] | None, argument("-- SCRIPT [ARGUMENTS]", "As after `python`; default: train.py.")
    ] = None,
    nodes: Nodes = None,
    gpus_per_node: GpusPerNode = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    master_addr: MasterAddress = None,
    master_port: MasterPort = None,
    framework: Annotated[Framework, option("--framework NAME", STARTED_BY)] = "torchrun",
    framework_version: FrameworkVersion = None,
    strategy: Annotated[str | None, option("--strategy ddp|fsdp|...", SHARED_BY)] = None,
    precision: Annotated[Literal["fp32", "fp16", "bf16"] | None, option("--precision", COMPUTED_IN)] = None,
    elastic: Annotated[str | None, option("--elastic MIN:MAX", "Nodes may come and go (torchrun).")] = None,
    check: Annotated[bool, option("--check", VERIFIED)] = False,
    json: Json = False,
    output: Annotated[str | None, option("-o --output DIR", OUTPUT)] = None,
    remote_gpudoctor: RemoteGpudoctor = None,
    python: Python = None,
    timeout: Timeout = defaults.READ_SECONDS,
    verbose: Verbose = 0,
    no_color: NoColor = False,
) -> None:
    from gpudoctor.fleet.where import Where
    from gpudoctor.launch import planned
    from gpudoctor.launch.plan import LaunchWish
    from gpudoctor.launch.text import LaunchAnswer, text, written
    from gpudoctor.render.launch import remarks
    from gpudoctor.render.progress import Progress
    from gpudoctor.render.prose import console

    if output is not None and not output.strip():
        raise BadInput("-o: no folder is named")
    if output is not None and Path(output).exists() and not Path(output).is_dir():
        raise BadInput(f"-o {output}: is a file; name a folder")
    words, own_python = planned.split_program(program or [])
    wish = LaunchWish(
        framework=framework,
        nodes=nodes or 0,
        gpus_per_node=gpus_per_node or 0,
        master_address=master_addr or "",
        master_port=master_port or 0,
        strategy=planned.plain("--strategy", strategy),
        precision=precision or "",
        python=python or own_python,
        elastic=planned.elastic_range(elastic),
        program=words,
        framework_version=planned.version_of(framework_version),
    )
    if master_addr is not None and not master_addr.strip():
        raise BadInput("--master-addr: no address is given")
    where = Where(nodes, hosts, hostfile, remote_gpudoctor=remote_gpudoctor)
    with Progress(sys.stderr) as progress:
        plan, emission, verified = planned.planned(wish, where, progress.waiting, timeout=timeout, check=check)
    paths = written(emission, output) if output is not None else ()
    seen = LaunchAnswer(plan=plan, emission=emission, text=text(emission), verified=verified)
    if json:
        from gpudoctor.envelope import encode

        print(encode(seen).decode())
    else:
        screen = console(no_color=no_color, file=sys.stderr)
        said = [] if program else ["train.py stands for your script: gpudoctor launch ... -- SCRIPT ARGUMENTS."]
        if plan.leftovers and registry.frameworks()[plan.framework].in_this_shell:
            said.append(
                f"{', '.join(plan.leftovers)} {'is' if len(plan.leftovers) == 1 else 'are'} set in this shell, of "
                "another job as it seems, and taken out for the command or replaced."
            )
        remarks(
            plan,
            emission,
            screen,
            verified=verified or (),
            said=said,
            was_checked=verified is not None,
            verbosity=verbose,
        )
        sys.stderr.flush()
        print("".join(f"{path}\n" for path in paths) or seen.text, end="")
    raise typer.Exit(seen.exit_status)
