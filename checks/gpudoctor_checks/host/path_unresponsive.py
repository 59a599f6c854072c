"""A folder that training writes to does not answer.

Why it matters: a network file system whose server is gone makes every process that touches it wait in the kernel,
where no signal reaches it. The job hangs at its first read, save or import, and cannot be killed.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command


@check("path-unresponsive", title="File systems that training uses answer")
def path_unresponsive(machine: Snapshot) -> Problems:
    for used in machine.host.paths.value:
        if used.space.missing_kind == "timeout":
            yield Problem(
                severity="error",
                summary=f"{used.path} ({used.role}) does not answer: {used.space.reason}",
                meaning="A process that touches it hangs in the kernel and cannot be killed; so will the job.",
                evidence=(machine.host.paths, used.space),
                fix=Fix.of(
                    "Look at the server and the network to it, or point the variable to another disk. These lines read "
                    "tables of the kernel and do not touch the path:",
                    command("cat /proc/self/mounts"),
                    command("sudo dmesg | grep -iE 'nfs|lustre|gpfs|ceph|not responding' | tail"),
                ),
            )
