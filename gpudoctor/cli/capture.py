"""`gpudoctor capture`."""

import sys
from typing import Annotated

from gpudoctor import defaults
from gpudoctor.cli.options import OUTPUT, Deep, Hosts, Job, NoTorch, Pid, Python, Redact, Timeout, exclusive, option
from gpudoctor.errors import BadInput


def capture(
    output: Annotated[str | None, option("-o --output FILE", OUTPUT)] = None,
    redact: Redact = False,
    deep: Deep = False,
    python: Python = None,
    no_torch: NoTorch = False,
    timeout: Timeout = defaults.READ_SECONDS,
    pid: Pid = None,
    job: Job = None,
    hosts: Hosts = None,
) -> None:
    """With --pid or --job (and --hosts: its nodes): what was read of a stuck job, for `hang --from`."""
    from gpudoctor.cli.files import check_writable, write
    from gpudoctor.render.progress import Progress

    of_job = pid is not None or job is not None
    if of_job and (deep or python is not None or no_torch):
        raise BadInput("--pid and --job read a job; --deep, --python and --no-torch examine the machine")
    if hosts is not None and job is None:
        raise BadInput("--hosts goes with --job")
    exclusive(pid=pid is not None, job=job is not None)
    if output is not None and output != "-":
        check_writable(output)
    with Progress(sys.stderr) as progress:
        if of_job:
            from gpudoctor.fleet.where import Where
            from gpudoctor.hang.live import JobsWanted, examine
            from gpudoctor.snapshot.evidence import to_json as job_to_json

            evidence = examine(Where(hosts=hosts), JobsWanted(pid=pid, job=job), progress.waiting)
            if redact:
                from gpudoctor.redact import Pseudonyms

                evidence = Pseudonyms(evidence).structure(evidence)
            content = job_to_json(evidence) + b"\n"
        else:
            from gpudoctor.examination import examine_machine

            snapshot = examine_machine(
                python=python, torch=not no_torch, deep=deep, timeout=timeout, waiting=progress.waiting
            )
            if redact:
                from gpudoctor.redact import redact as hide

                snapshot = hide(snapshot)
            from gpudoctor.snapshot import to_json

            content = to_json(snapshot, indent=2) + b"\n"
    if output is None or output == "-":
        from gpudoctor.render.words import shown_json

        print(shown_json(content), end="")
    else:
        write(output, content)
