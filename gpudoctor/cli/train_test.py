"""`gpudoctor train-test`."""

from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import (
    Backend,
    Exclude,
    GpusPerNode,
    Hostfile,
    Hosts,
    Interface,
    MasterAddress,
    MasterPort,
    NoColor,
    Nodes,
    Python,
    RanksShareGpu,
    RemoteGpudoctor,
    Stall,
    Wait,
)


def train_test(
    nodes: Nodes = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    exclude: Exclude = None,
    gpus_per_node: GpusPerNode = None,
    strategy: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option(
            "--strategy",
            metavar="NAMES",
            help="Of single, dp, ddp, no_sync, spawn, fsdp, split (these by default), lightning, lightning_spawn, "
            "accelerate, xla; or all.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", metavar="NAMES", help="Of fp32, bf16, fp16; or all.")
    ] = "fp32,bf16",
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=5, max=10_000, help="Training steps a cell.")] = 20,
    backend: Backend = "auto",
    timeout: Stall = 60.0,
    interface: Interface = None,
    master_addr: MasterAddress = None,
    master_port: MasterPort = None,
    wait: Wait = 600.0,
    from_file: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option("--from", metavar="FILE", help="Show a saved answer (--json) again.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    ranks_share_gpu: RanksShareGpu = False,
    remote_gpudoctor: RemoteGpudoctor = None,
    python: Python = None,
    no_color: NoColor = False,
) -> None:
    """Parallel training in every way people use it, tried with a tiny model and verified rank by rank."""
    from gpudoctor.cli import train_run
    from gpudoctor.cli.fleets import Where
    from gpudoctor.nccl.wish import Wish

    if from_file is not None:
        raise typer.Exit(train_run.show_again(from_file, json=json, no_color=no_color))
    asked = Wish(
        backend=backend,
        timeout=timeout,
        interface=interface or "",
        master_address=master_addr or "",
        master_port=master_port or 0,
        ranks_per_node=gpus_per_node or 0,
        ranks_share_gpu=ranks_share_gpu,
        python=python or "",
    )
    wish = train_run.wish(asked, strategy=strategy, precision=precision, steps=steps)
    where = Where(
        nodes=nodes,
        hosts=hosts,
        hostfile=hostfile,
        exclude=exclude or "",
        remote_gpudoctor=remote_gpudoctor or "",
        wait=wait,
    )
    raise typer.Exit(train_run.run(wish, where, json=json, no_color=no_color))
