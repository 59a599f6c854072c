"""`gpudoctor slow`."""

import sys
from typing import Annotated

import typer

from gpudoctor import bounded
from gpudoctor.cli.options import (
    Exclude,
    FromFile,
    Hostfile,
    Hosts,
    Job,
    Json,
    NoColor,
    Nodes,
    Pid,
    RemoteGpudoctor,
    Verbose,
    answer,
    option,
)
from gpudoctor.errors import BadInput, CannotTell


def slow(
    pid: Pid = None,
    job: Job = None,
    user: Annotated[str | None, option("--user NAME", "The jobs of this user; a name or number.")] = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    nodes: Nodes = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
    seconds: Annotated[
        float | None,
        option("--seconds SECONDS", "How long to look where a late rank stands.", least=3, most=58),
    ] = None,
    from_file: FromFile = None,
    json: Json = False,
    verbose: Verbose = 0,
    no_color: NoColor = False,
) -> None:
    """Steps take as long on every rank, for all wait for the last one: who comes late to the collectives is slow. Asks
    armed ranks (`gpudoctor run`, or gpudoctor.arm() in the script) for their flight recorders; stops nobody.
    """
    from gpudoctor.cli.files import saved, told
    from gpudoctor.envelope import decode
    from gpudoctor.fleet.where import Where
    from gpudoctor.render.progress import Progress
    from gpudoctor.render.slow import show_slow
    from gpudoctor.slow.live import SlowWanted, slow as looked_at
    from gpudoctor.slow.report import SlowReport

    where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor)
    names_nodes = where.is_named or nodes is not None
    if from_file is not None:
        if names_nodes or any((pid, job, user, exclude, remote_gpudoctor, seconds)):
            raise BadInput("--from shows a file; the other options look at a live job")
        raw = saved(from_file, bounded.EVIDENCE)
        with told(from_file, raw, "no answer of `gpudoctor slow --json` ({})"):
            report = decode(raw, SlowReport)
        if not report.paces and not report.lost:
            raise CannotTell(f"--from {from_file}: it holds no job")
    else:
        if pid is not None and names_nodes:
            raise BadInput("--pid names a process of this machine; with --hosts or --nodes, --job names the job")
        with Progress(sys.stderr) as progress:
            report = looked_at(where, SlowWanted(pid, job, user, seconds), progress.waiting)
    answer(
        report,
        lambda report, screen: show_slow(report, screen, verbose),
        json=json,
        no_color=no_color,
        saved=from_file is not None,
    )
    raise typer.Exit(report.exit_status)
