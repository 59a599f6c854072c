"""There is no swap.

Why it matters: without swap, the kernel ends a rank at the first moment that the data loaders need more memory
than there is, and the other ranks hang until their timeout.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command


@check("swap-too-small", title="There is some swap")
def swap_too_small(machine: Snapshot) -> Problems:
    swap = machine.host.swap_total_bytes
    if swap.value == 0:
        yield Problem(
            severity="info",
            summary="swap is 0 bytes; a little gives the kernel room",
            meaning="A short peak of the data loaders ends a rank instead of slowing it down.",
            evidence=(swap,),
            fix=Fix.of(
                "Add a swap file; it is gone after a restart unless /etc/fstab names it.",
                command("sudo fallocate -l 8G /swapfile && sudo chmod 600 /swapfile"),
                command("sudo mkswap /swapfile && sudo swapon /swapfile"),
            ),
        )
