"""`gpudoctor hang`."""

from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import Exclude, NoColor, RemoteGpudoctor
from gpudoctor.errors import BadInput


def hang(
    pid: Annotated[
        Optional[int],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option("--pid", metavar="P", min=1, help="The job of this process.", show_default=False),
    ] = None,
    job: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--job", metavar="ID", help="A Slurm job, or a job's id as shown here.", show_default=False),
    ] = None,
    user: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--user", metavar="NAME", help="The jobs of this user; a name or number.", show_default=False),
    ] = None,
    hosts: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--hosts", metavar="LIST", help="All nodes of the job, by ssh: 'n[01-16]'.", show_default=False),
    ] = None,
    hostfile: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--hostfile", metavar="FILE", help="The nodes that a file names, one a line.", show_default=False),
    ] = None,
    nodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--nodes", metavar="N", min=1, help="So many nodes of the Slurm allocation.", show_default=False),
    ] = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
    dumps: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--dumps", metavar="DIR", help="Flight-recorder dumps, one file a rank.", show_default=False),
    ] = None,
    from_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--from", metavar="FILE", help="What `capture --pid` wrote; - is stdin.", show_default=False),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Wait until the job stands still, then report.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=2, max=3600, help="From look to look of --watch.")
    ] = 30.0,
    native: Annotated[
        bool, typer.Option("--native", help="Native frames too; stops each process for an instant.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    paste: Annotated[bool, typer.Option("--paste", help="For an issue: markdown, private names hidden.")] = False,
    no_color: NoColor = False,
) -> None:
    """Why is this job stuck? Reads a live job without stopping it, and names rank, line and fix.

    Exit status: 1 when a job hangs or has a fault, 0 when it gets on, 2 when there is none, 3 when that cannot be told.
    """
    from gpudoctor.cli.fleets import Where
    from gpudoctor.cli.hang_run import Asked, Output, run, run_file

    if json and paste:
        raise BadInput("--json and --paste exclude each other")
    output = Output(json=json, paste=paste, no_color=no_color)
    where = Where(
        nodes=nodes, hosts=hosts, hostfile=hostfile, exclude=exclude or "", remote_gpudoctor=remote_gpudoctor or ""
    )
    live = where.is_named or nodes is not None or watch or native or pid is not None
    live |= user is not None
    if from_file is not None:
        if live or dumps is not None or exclude is not None or remote_gpudoctor is not None:
            raise BadInput("--from diagnoses a file; the other options look at a live job")
        raise typer.Exit(run_file(from_file, job, output))
    if pid is not None and (where.is_named or nodes is not None):
        raise BadInput("--pid names a process of this machine; with --hosts or --nodes, --job names the job")
    asked = Asked(pid=pid, job=job, user=user, dumps=dumps, native=native, interval=interval if watch else None)
    raise typer.Exit(run(where, asked, output))
