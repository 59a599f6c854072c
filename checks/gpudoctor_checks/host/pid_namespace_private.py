"""Processes on the GPUs cannot be named, because this container has a PID namespace of its own.

Why it matters: NVML reports the host's process numbers. From inside a container with its own PID namespace they
cannot be traced to a user or a command, so a GPU that somebody else fills shows only a number.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.presence import if_present, read_first
from gpudoctor.knowledge.wording import counted, gpus


@check("pid-namespace-private", title="Processes on the GPUs can be named")
def pid_namespace_private(machine: Snapshot) -> Problems:
    namespace = machine.host.private_pid_namespace
    if not namespace.value:
        return
    nameless: dict[int, list[int]] = {}
    for gpu in read_first(machine.nvidia.gpus.value, lambda gpu: gpu.processes):
        unnamed = [process.pid for process in if_present(gpu.processes) or () if not process.command.is_read]
        if unnamed:
            nameless[gpu.index] = unnamed
    if nameless:
        pids = sorted({pid for namespace in nameless.values() for pid in namespace})
        listing = ",".join(map(str, pids))
        yield Problem(
            severity="info",
            summary=f"{counted(len(pids), 'process', 'processes')} on "
            f"{gpus(sorted(nameless))} cannot be named from this PID namespace",
            meaning="Who holds these GPUs shows on the host only; the numbers are the host's.",
            evidence=(namespace,),
            fix=Fix(
                "Ask on the host (the line is for there), or start the container with `--pid=host`.",
                commands=(command("ps -o pid,user,etime,args -p {:numbers}", listing),),
            ),
            gpus=tuple(sorted(nameless)),
        )
