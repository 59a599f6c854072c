"""The evidence of live jobs as `gpudoctor hang` reads it, for tests: agents on this machine, or a fleet that is given.

Also a script: `python -m tests.hang_evidence [PID]` prints the jobs that run here (of which PID is a part) as JSON.
"""

import sys
from collections.abc import Sequence

from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.reach import reach
from gpudoctor.hang import ask
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.job import Members
from gpudoctor.snapshot.evidence import Evidence, to_json

PATIENCE = 150.0


def jobs_of(fleet: Fleet, *, pid: int | None = None, job: str | None = None) -> tuple[Members, ...]:
    """The jobs on a fleet's nodes: of a process, or whose id has this text in it; all of them without."""
    return tuple(
        each
        for each in find_jobs(ask.processes(fleet).nodes)
        if (pid is None or any(member.process.pid == pid for member in each.members))
        and (job is None or job in each.id)
    )


def evidence_of(
    *,
    hosts: Sequence[str] | None = None,
    fleet: Fleet | None = None,
    seconds: float = 2.5,
    pid: int | None = None,
    job: str | None = None,
    native: bool = False,
    dumps: str = "",
    timeout: float = 20.0,
    connect: bool = True,
) -> Evidence:
    """Both looks at the jobs of this machine, or at those of `fleet` (whose agents have said hello).

    `hosts`: as many agents here, by these names. `pid` and `job` choose, as for `jobs_of`.
    """
    if fleet is None:
        with LocalFleet(hosts) as local:
            reach(local, timeout=PATIENCE)
            return evidence_of(
                connect=hosts is not None,
                fleet=local,
                seconds=seconds,
                pid=pid,
                job=job,
                native=native,
                dumps=dumps,
                timeout=timeout,
            )
    members = jobs_of(fleet, pid=pid, job=job)
    return ask.look(fleet, members, seconds=seconds, native=native, dumps=dumps, timeout=timeout, connect=connect)


if __name__ == "__main__":
    print(to_json(evidence_of(pid=int(sys.argv[1]) if sys.argv[1:] else None)).decode())
