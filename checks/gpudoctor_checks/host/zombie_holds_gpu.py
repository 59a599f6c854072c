"""A dead process still holds GPU memory.

Why it matters: a process that has ended but was not reaped by its parent is a zombie. When a thread of it still hangs
in the driver, its GPU memory stays taken, and the next job runs out of memory on a GPU that looks idle.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.presence import if_present, read_first
from gpudoctor.knowledge.wording import size
from gpudoctor.snapshot import NotRead, missing


@check("zombie-holds-gpu", title="No dead process holds GPU memory")
def zombie_holds_gpu(machine: Snapshot) -> Problems:
    gpus, processes = machine.nvidia.gpus, machine.host.stuck_processes
    zombies = {process.pid: process for process in processes.value if process.state == "Z"}
    cards = read_first(gpus.value, lambda gpu: gpu.processes)
    for gpu in cards:
        for holder in (if_present(gpu.processes) or ()) if zombies else ():
            if machine.host.private_pid_namespace.value:
                # NVML names the host's pids, /proc this namespace's: equal numbers would mean nothing.
                raise NotRead(missing("/proc and NVML", "this PID namespace's pids cannot be compared with NVML's"))
            dead = zombies.get(holder.pid)
            if dead is not None:
                held = f"holds {size(holder.memory_bytes)}" if holder.memory_bytes else "holds memory"
                yield Problem(
                    severity="error",
                    summary=f"Process {dead.pid} ({dead.name}) is dead and still {held} on GPU {gpu.index}",
                    meaning="Jobs on this GPU run out of memory although nothing seems to use it.",
                    evidence=(processes, gpu.processes),
                    fix=Fix.of(
                        f"Its parent, process {dead.parent_pid}, has to end; when the memory stays taken after that, "
                        f"the driver keeps it, and the GPU needs a reset or the machine a restart.",
                        command("ps -o pid,ppid,stat,etime,args -p {:pid},{:pid}", dead.pid, dead.parent_pid),
                        *((command("kill {:pid}", dead.parent_pid),) if dead.parent_pid > 1 else ()),
                    ),
                    gpus=(gpu.index,),
                )
