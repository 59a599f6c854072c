"""The kernel has killed processes because memory ran out.

Why it matters: a rank or loader worker that the kernel kills leaves no traceback: the job ends with "Killed", exit
status 137 or -9, or "DataLoader worker is killed by signal". This says that it happened on this machine since it
started.
"""

import re
from collections import Counter

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.wording import listed
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import read

TRAINING = lazy_re(r"python|torchrun|pt_|ray|deepspeed|accelerate", re.IGNORECASE)  # pt_: PyTorch's own threads


@check("process-killed-by-oom", title="The kernel killed nothing for lack of memory")
def process_killed_by_oom(machine: Snapshot) -> Problems:
    log = machine.host.kernel_log
    killed = Counter(log.value.oom_kills)
    if killed:
        names = listed(name if count == 1 else f"{name} ({count} times)" for name, count in killed.most_common())
        yield Problem(
            severity="warning" if any(TRAINING.match(name) for name in killed) else "info",
            summary=f"The kernel's OOM killer ended {names} since this machine started",
            meaning="Jobs here end with exit status 137 (or -9) and no traceback when they need that much again.",
            evidence=(read(log.source, log.value.oom_kills),),
            fix=Fix(
                "See how much each one held; then give the job more memory, or use fewer loader workers, less "
                "prefetching, and one copy of the checkpoint a machine instead of one a rank.",
                commands=(command("sudo dmesg -T | grep -iE 'out of memory|oom-kill'"),),
            ),
        )
