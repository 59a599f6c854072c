"""`gpudoctor hang`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpudoctor import bounded, defaults
from gpudoctor.cli.options import (
    Exclude,
    FromFile,
    Hostfile,
    Hosts,
    Html,
    Job,
    Json,
    NoColor,
    Nodes,
    Paste,
    Pid,
    Redact,
    RemoteGpudoctor,
    Verbose,
    answer,
    check_html_of,
    exclusive,
    option,
)
from gpudoctor.errors import BadInput, CannotTell

if TYPE_CHECKING:
    from gpudoctor.hang.report import HangReport
    from gpudoctor.snapshot.evidence import Evidence


def hang(
    pid: Pid = None,
    job: Job = None,
    user: Annotated[str | None, option("--user NAME", "The jobs of this user; a name or number.")] = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    nodes: Nodes = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
    dumps: Annotated[str | None, option("--dumps DIR", "Flight-recorder dumps, one file a rank.")] = None,
    from_file: FromFile = None,
    watch: Annotated[bool, option("--watch", "Wait until the job stands still, then report.")] = False,
    interval: Annotated[
        float, option("--interval SECONDS", "From look to look of --watch.", least=2, most=3600)
    ] = defaults.WATCH_SECONDS,
    native: Annotated[bool, option("--native", "Native frames too; stops each process for an instant.")] = False,
    json: Json = False,
    paste: Paste = False,
    html: Html = None,
    redact: Redact = False,
    verbose: Verbose = 0,
    no_color: NoColor = False,
) -> None:
    from gpudoctor.cli.files import saved, told
    from gpudoctor.envelope import decode, is_answer
    from gpudoctor.fleet.where import Where
    from gpudoctor.hang import live
    from gpudoctor.hang.report import HangReport
    from gpudoctor.render.hang import show_hang
    from gpudoctor.render.progress import Progress
    from gpudoctor.snapshot.evidence import Evidence, from_json

    exclusive(json=json, paste=paste)
    check_html_of(html, redact=redact)
    evidence: Evidence | None = None
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
        raw = saved(from_file, bounded.EVIDENCE)
        with told(from_file, raw, "no evidence of a job ({}); `gpudoctor capture --pid P` writes it"):
            if is_answer(raw, HangReport):
                report = decode(raw, HangReport)
            else:
                evidence = from_json(raw)
                report = live.recorded(evidence, job)
        if evidence is None and (paste or redact or job is not None):
            raise BadInput(f"--from {from_file}: it is an answer, which is shown as it is")
        if not report.jobs and not report.lost and not report.unread and not json:
            if job is not None:
                raise BadInput(f"--from {from_file}: it holds no job of the id {job}")
            raise CannotTell(f"--from {from_file}: it holds no job")
    if html is not None:
        _write_page(html, report, evidence, redact=redact)
    if paste and evidence is not None:
        from gpudoctor.render.paste import hang_markdown

        print(hang_markdown(report, evidence))
    else:
        answer(
            report,
            lambda report, screen: show_hang(report, screen, verbose),
            json=json,
            no_color=no_color,
            saved=evidence is None,
        )
    raise typer.Exit(report.exit_status)


def _write_page(path: str, report: "HangReport", evidence: "Evidence | None", *, redact: bool) -> None:
    from gpudoctor.cli.files import write
    from gpudoctor.redact import Pseudonyms
    from gpudoctor.render.html.hang import hang_page

    if redact and evidence is not None:
        report = Pseudonyms(report, evidence).structure(report)
    write(path, hang_page(report, saved=evidence is None, hidden=redact), "--html")
