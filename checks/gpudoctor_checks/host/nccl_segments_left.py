"""Shared memory segments of NCCL jobs that have ended still lie in /dev/shm.

Why it matters: a job that was killed leaves its /dev/shm/nccl-* files behind. They hold memory until somebody
removes them or the machine restarts, and after enough crashes the next job finds no room in /dev/shm.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.wording import GIB, counted, size
from gpudoctor.lazy import lazy_re

# The room that one GPU wants in /dev/shm (shm-too-small); less than that is untidy and nothing more.
MUCH = 1 * GIB
SAFE_NAME = lazy_re(r"nccl-[A-Za-z0-9._-]+")
NAMES_A_LINE = 16


@check("nccl-segments-left", title="/dev/shm holds no leftovers of NCCL jobs")
def nccl_segments_left(machine: Snapshot) -> Problems:
    segments = machine.host.nccl_segments
    held = sum(amount for _, amount in segments.value)
    if segments.value:
        # Names and never a pattern: /dev/shm/nccl-* would take the segments of a job that is starting.
        names = [f"/dev/shm/{name}" for name, _ in segments.value if SAFE_NAME.fullmatch(name)]
        yield Problem(
            severity="warning" if held >= MUCH else "info",
            summary=f"{counted(len(segments.value), 'NCCL segment')} without a process, of {size(held)}, in /dev/shm",
            meaning="That memory is lost to the next job, which fails when /dev/shm is full.",
            evidence=(segments,),
            fix=Fix(
                "Remove them when no job runs on this machine; jobs in other containers are not visible from here.",
                commands=tuple(
                    command("rm -f {:paths}", names[start : start + NAMES_A_LINE])
                    for start in range(0, len(names), NAMES_A_LINE)
                ),
            ),
        )
