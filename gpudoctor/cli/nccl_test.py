"""`gpudoctor nccl-test`."""

import os
import sys
from typing import Annotated, Literal, Optional

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
from gpudoctor.errors import BadInput

DType = Literal["float32", "float16", "bfloat16"]
Emit = Literal["slurm", "kubernetes"]
TOKEN = "GPUDOCTOR_TOKEN"
"""The join token comes by environment: every user of a machine can read the others' command lines."""


def nccl_test(
    nodes: Nodes = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    exclude: Exclude = None,
    gpus_per_node: GpusPerNode = None,
    collective: Annotated[
        str,
        typer.Option(
            "--collective",
            metavar="NAMES",
            help="Of all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv; or all.",
        ),
    ] = "all_reduce",
    min_bytes: Annotated[str, typer.Option("--min-bytes", metavar="SIZE", help="Smallest size.")] = "8",
    max_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--max-bytes", metavar="SIZE", help="Largest size: 8G; on gloo 64M.", show_default=False),
    ] = None,
    factor: Annotated[int, typer.Option("--factor", metavar="F", min=2, help="From size to size.")] = 2,
    dtype: Annotated[DType, typer.Option("--dtype", help="Type of the elements.")] = "float32",
    warmup: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--warmup", metavar="N", min=0, help="Untimed operations a size: 5.", show_default=False),
    ] = None,
    iters: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--iters", metavar="N", min=1, help="Timed operations a size: 20.", show_default=False),
    ] = None,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Compare every element of the result.")] = True,
    backend: Backend = "auto",
    timeout: Stall = 60.0,
    interface: Interface = None,
    master_addr: MasterAddress = None,
    master_port: MasterPort = None,
    compare: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--compare",
            metavar="NAME=V1,V2",
            help="The same test under each setting; ; between names.",
            show_default=False,
        ),
    ] = None,
    find_slow: Annotated[bool, typer.Option("--find-slow", help="Which node, link or NIC is the slow one.")] = False,
    join: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--join", metavar="HEAD:PORT", help="Take part in the test of that head.", show_default=False),
    ] = None,
    wait: Wait = 600.0,
    emit: Annotated[
        Optional[Emit],  # noqa: UP045
        typer.Option("--emit", help="Print a batch script or manifest that runs this test.", show_default=False),
    ] = None,
    from_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--from", metavar="FILE", help="Show a saved answer (--json) again.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="The rows as CSV.")] = False,
    plot: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--plot", metavar="FILE", help="A picture too: FILE.svg or FILE.png.", show_default=False),
    ] = None,
    keep_logs: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--keep-logs", metavar="DIR", help="Keep NCCL's log of every rank there.", show_default=False),
    ] = None,
    ranks_share_gpu: RanksShareGpu = False,
    remote_gpudoctor: RemoteGpudoctor = None,
    python: Python = None,
    no_color: NoColor = False,
) -> None:
    """Bandwidth of collectives across GPUs and nodes, graded, with the culprit named."""
    from gpudoctor.cli import nccl_run
    from gpudoctor.nccl.wish import Wish

    if json and csv:
        raise BadInput("--json and --csv exclude each other")
    if emit is not None and (join is not None or from_file is not None):
        raise BadInput("--emit excludes --join and --from")
    if join is not None:
        raise typer.Exit(nccl_run.take_part(join, os.environ.get(TOKEN, "")))
    asked = Wish(
        factor=factor,
        dtype=dtype,
        warmup=warmup,
        iterations=iters,
        check=check,
        backend=backend,
        timeout=timeout,
        interface=interface or "",
        master_address=master_addr or "",
        master_port=master_port or 0,
        ranks_per_node=gpus_per_node or 0,
        ranks_share_gpu=ranks_share_gpu,
        python=python or "",
    )
    wish = nccl_run.wish(asked, collective=collective, minimum=min_bytes, maximum=max_bytes)
    output = nccl_run.Output(json=json, csv=csv, plot=plot, keep_logs=keep_logs, no_color=no_color)
    if from_file is not None:
        raise typer.Exit(nccl_run.show_again(from_file, output))
    if emit is not None:
        print(nccl_run.emitted(emit, nodes, gpus_per_node, sys.argv[1:]), end="")
        return
    where = nccl_run.Where(
        nodes=nodes,
        hosts=hosts,
        hostfile=hostfile,
        exclude=exclude or "",
        remote_gpudoctor=remote_gpudoctor or "",
        wait=wait,
    )
    raise typer.Exit(nccl_run.run(wish, where, output, compare=compare, find_slow=find_slow))
