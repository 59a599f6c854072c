"""A process may open few files at once (RLIMIT_NOFILE).

Why it matters: every tensor that a data-loader worker hands over, every socket of NCCL and every shard of a data
set is an open file. Over the limit the job dies with "Too many open files", often hours into the run.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count

# The kernel's own default (INR_OPEN_CUR), which most logins keep: less is somebody's mistake, and exactly it is
# what "Too many open files" is reported with (PyTorch's multiprocessing notes: file_descriptor strategy).
KERNEL_DEFAULT = 1024
WANTED = 65536  # what our fix asks for; far below fs.nr_open (1048576)


@check("open-files-limit-low", title="A process may open enough files")
def open_files_limit_low(machine: Snapshot) -> Problems:
    limits = machine.host.limits
    soft, hard = limits.value.open_files_soft, limits.value.open_files_hard
    if soft is None or soft > KERNEL_DEFAULT:
        return
    gpus = gpu_count(machine)
    if soft == KERNEL_DEFAULT and gpus < 2:
        return
    reachable = WANTED if hard is None else min(WANTED, hard)
    if reachable > soft:
        fix = Fix(
            "Raise it in the shell or script that starts the job.",
            commands=(command("ulimit -n {:number}", reachable),),
        )
    else:
        fix = Fix(
            f"The hard limit is {hard} too: raise it in /etc/security/limits.conf (nofile), in the service's unit "
            f"(LimitNOFILE={WANTED}), or with `--ulimit nofile={WANTED}` on the container."
        )
    yield Problem(
        severity="warning" if soft < KERNEL_DEFAULT else "info",
        summary=f"A process may open {soft} files; {WANTED} are wanted for data loaders and NCCL",
        meaning='Jobs with many loader workers, data shards or peers die with "Too many open files".',
        evidence=(limits,),
        fix=fix,
    )
