"""The machine is swapping: swap is in use and memory has run short.

Why it matters: a data loader or an optimizer state that lies in swap makes every step wait for the disk, and one
slow rank holds up all others. Swap that is in use while memory is free is harmless, and not reported.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.wording import GIB, size

# Both at once, our rule of thumb: Linux moves idle pages to swap on any healthy machine.
USED = 1 * GIB
AVAILABLE_SHARE = 0.10


@check("swap-in-use", title="The machine does not swap")
def swap_in_use(machine: Snapshot) -> Problems:
    used, available = machine.host.swap_used_bytes, machine.host.memory_available_bytes
    total = machine.host.memory_total_bytes
    if used.value >= USED and available.value < total.value * AVAILABLE_SHARE:
        yield Problem(
            severity="warning",
            summary=f"{size(used.value)} lie in swap, and {size(available.value)} of {size(total.value)} of memory "
            f"are available",
            meaning="Steps wait for the disk, and one slow rank slows all of them.",
            evidence=(used, available),
            fix=Fix(
                "End what is not needed; the largest processes and the running swap traffic (columns si and so):",
                commands=(command("ps -eo rss,pid,user,args --sort=-rss | head"), command("vmstat 1 5")),
            ),
        )
