from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="open-files-limit",
    title="the limit of open files was reached",
    stages=("communicator", "first collective", "training"),
    kind="limits",
    blame="environment",
    restart="after a fix",
    hangs_by="gone",
    meaning=("Every file, connection and shared descriptor of a process counts. At the limit the next one is refused."),
    like=("program-error",),
    fix=Fix(
        "Raise the limit of open files to 65536 or more before the ranks start. Where tensors of DataLoader workers "
        "hold them: torch.multiprocessing.set_sharing_strategy('file_system'), or fewer workers.",
        (command("ulimit -n 65536"),),
    ),
    variants={
        "processes": Fix(
            "Raise the limit of processes and threads (ulimit -u, the container's or the login node's pids.max), end "
            "what an earlier run left behind, or start fewer workers and threads (OMP_NUM_THREADS).",
            (command("ulimit -u"),),
        ),
    },
    meanings={
        "processes": "Each worker and each thread counts; at the limit the next one is refused.",
    },
    confirm="Read Max open files in /proc/PID/limits of a rank, and count /proc/PID/fd.",
    foreseen_by=("open-files-limit-low",),
    source="getrlimit(2), EMFILE; NCCL os/linux.cc",
)
