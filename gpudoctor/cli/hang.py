"""`gpudoctor hang`."""

import sys
from typing import Annotated

import typer

from gpudoctor import bounded, defaults
from gpudoctor.cli.options import (
    Exclude,
    Json,
    NamesFile,
    NoColor,
    Paste,
    RemoteGpudoctor,
    SlurmNodes,
    answer,
    exclusive,
    option,
)
from gpudoctor.errors import BadInput


def hang(
    pid: Annotated[int | None, option("--pid P", "The job of this process.", least=1)] = None,
    job: Annotated[str | None, option("--job ID", "A Slurm job, or a job's id as shown here.")] = None,
    user: Annotated[str | None, option("--user NAME", "The jobs of this user; a name or number.")] = None,
    hosts: Annotated[str | None, option("--hosts LIST", "All nodes of the job, by ssh: 'n[01-16]'.")] = None,
    hostfile: NamesFile = None,
    nodes: SlurmNodes = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
    dumps: Annotated[str | None, option("--dumps DIR", "Flight-recorder dumps, one file a rank.")] = None,
    from_file: Annotated[str | None, option("--from FILE", "What `capture --pid` wrote; - is stdin.")] = None,
    watch: Annotated[bool, option("--watch", "Wait until the job stands still, then report.")] = False,
    interval: Annotated[
        float, option("--interval SECONDS", "From look to look of --watch.", least=2, most=3600)
    ] = defaults.WATCH_SECONDS,
    native: Annotated[bool, option("--native", "Native frames too; stops each process for an instant.")] = False,
    json: Json = False,
    paste: Paste = False,
    no_color: NoColor = False,
) -> None:
    """Exit status: 1 when a job hangs or has a fault, 0 when it gets on, 2 when there is none, 3 when that cannot be
    told.
    """
    from gpudoctor.cli.files import saved_answer
    from gpudoctor.fleet.where import Where
    from gpudoctor.hang import live
    from gpudoctor.hang.report import to_json
    from gpudoctor.render.hang import show_hang
    from gpudoctor.render.progress import Progress
    from gpudoctor.snapshot.evidence import from_json

    exclusive(json=json, paste=paste)
    where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor)
    names_nodes = where.is_named or nodes is not None
    if from_file is None:
        if pid is not None and names_nodes:
            raise BadInput("--pid names a process of this machine; with --hosts or --nodes, --job names the job")
        wanted = live.JobsWanted(pid, job, user, dumps, native, interval if watch else None)
        with Progress(sys.stderr) as progress:
            report, evidence = live.hang(where, wanted, progress.waiting)
    else:
        if names_nodes or watch or native or any((pid, user, dumps, exclude, remote_gpudoctor)):
            raise BadInput("--from diagnoses a file; the other options look at a live job")
        evidence = saved_answer(
            from_file,
            from_json,
            bounded.EVIDENCE,
            "no evidence of a job ({}); `gpudoctor capture --pid P` writes it",
        )
        report = live.recorded(evidence, job)
        if not report.jobs and not report.lost and not report.unread and not json:
            of = f" of the id {job}" if job is not None else ""
            raise BadInput(f"--from {from_file}: it holds no job{of}")
    if paste:
        from gpudoctor.render.paste import hang_markdown

        print(hang_markdown(report, evidence))
    else:
        answer(report, to_json if json else None, show_hang, no_color=no_color)
    raise typer.Exit(live.exit_status(report))
