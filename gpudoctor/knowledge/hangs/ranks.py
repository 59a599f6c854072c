"""What happens to single ranks: they die, stop, wait for storage or a lock; and how jobs fail to end."""

from gpudoctor.command import command
from gpudoctor.knowledge.hangs.cause import HangCause

RANKS: tuple[HangCause, ...] = (
    HangCause(
        name="rank-died",
        title="a rank has died",
        stages=("rendezvous", "communicator", "first collective", "training"),
        meaning="A rank ended by an exception, a signal or the kernel's OOM killer. The others wait for it in their "
        "next collective until a time-out, and their messages name the wrong rank.",
        fix="Repair what ended that rank: its own log has the exception; after an OOM kill give more memory or start "
        "fewer DataLoader workers.",
        commands=(command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill|segfault|Xid'"),),
        confirm="Look at the exit status of every rank, at memory.events of the cgroup and at the kernel's log.",
        source="waitpid(2); torchrun's failure table; kernel mm/oom_kill.c",
    ),
    HangCause(
        name="slow-rank-timeout",
        title="a rank is busy elsewhere for longer than the others wait",
        stages=("rendezvous", "communicator", "first collective", "training"),
        meaning="One rank downloads, prepares data, compiles, evaluates or saves, while the others wait in a barrier "
        "or collective. They give up after their time-out though nothing is broken.",
        fix="Do the long work before the group is made, or on all ranks, or give the group a longer timeout "
        "(init_process_group(timeout=...)).",
        confirm="The busy rank's stack moves between two looks, and it comes to the collective in the end.",
        source="torch documentation of init_process_group(timeout); torchtune#2059, litgpt#1819",
    ),
    HangCause(
        name="storage-stall",
        title="storage does not answer",
        stages=("rendezvous", "communicator", "first collective", "training", "end"),
        meaning="A rank waits in the kernel for a file system (NFS, Lustre, FUSE, a pipe), where no signal and no "
        "time-out reaches it. The others wait for this rank.",
        fix="Repair or remount the storage; keep data sets, checkpoints in progress and caches on local disks.",
        commands=(command("gpudoctor check host"), command("mount | grep -E 'nfs|lustre|fuse|gpfs|beegfs'")),
        confirm="The process is in state D, or stat on the mount does not return within seconds.",
        source="proc(5); kernel hung_task",
    ),
    HangCause(
        name="dataloader-fork-deadlock",
        title="a DataLoader worker was forked while a lock was held",
        stages=("training",),
        meaning="fork copies memory with locks as they are, and not the threads that would release them. The worker "
        "waits for such a lock for ever, and its rank waits for data.",
        fix="Start workers by spawn or forkserver (multiprocessing_context='forkserver'), or fork before threads and "
        "CUDA are used.",
        confirm="With num_workers=0, or with spawn, the same job runs.",
        source="fork(2), Python's multiprocessing documentation; torch DataLoader",
    ),
    HangCause(
        name="gil-deadlock",
        title="a thread holds Python's lock and waits for one that needs it",
        stages=("training", "end"),
        meaning="Native code keeps the GIL while it waits. Another thread of the same rank, which would end that wait, "
        "needs the GIL: neither goes on, and the rank never comes to the next collective.",
        fix="Release the GIL around waiting calls in the extension, or update the library; do not take locks in "
        "destructors.",
        confirm="In two looks the same thread owns the GIL in a native call, and others wait to take it.",
        source="Python C API (Py_BEGIN_ALLOW_THREADS); horovod#3352; torch's heartbeat monitor",
    ),
    HangCause(
        name="xid-gpu-lost",
        title="a GPU failed",
        stages=("communicator", "first collective", "training"),
        meaning="The driver reported an error of the GPU or lost it. Kernels on it never end, and all ranks that talk "
        "to it wait.",
        fix="Reset the GPU or reboot the node, and take it out of service when the fault comes again.",
        commands=(command("gpudoctor check gpu driver"), command("sudo dmesg --ctime | grep -iE 'Xid|AER'")),
        confirm="The kernel's log holds an Xid of that GPU from this time; nvidia-smi fails or does not list it.",
        source="NVIDIA Xid catalog",
    ),
    HangCause(
        name="straggler",
        title="a rank is slow, and all wait for it in every step",
        stages=("training",),
        meaning="The job is not hung: one rank takes longer (a GPU that throttles, a busy or misplaced CPU, slow "
        "storage), and collectives go at the pace of the slowest.",
        fix="Look at clocks, temperature and power of that rank's GPU, at other processes on its node, and at its CPU "
        "binding.",
        commands=(command("gpudoctor check gpu host"),),
        confirm="In three looks the counters move, and the same rank comes last every time.",
        source="reports in several public threads",
    ),
    HangCause(
        name="stopped-rank",
        title="a rank is stopped",
        stages=("rendezvous", "communicator", "first collective", "training", "end"),
        meaning="A process was stopped by a signal (Ctrl-Z, SIGSTOP), a debugger, a frozen cgroup, or waits for "
        "somebody to type (breakpoint, pdb). It does not go on by itself, and the others wait.",
        fix="Continue the process (kill -CONT with its PID), leave the debugger, or take the breakpoint out.",
        confirm="Its state in /proc/PID/status is T or t, or its stack stands in pdb or input.",
        source="proc(5), signal(7), cgroup-v2 freezer",
    ),
    HangCause(
        name="teardown-deadlock",
        title="the job is done, and its ranks hang while they end",
        stages=("end",),
        meaning="Ranks leave in different order, or one destroys its process group while another is still in a "
        "collective. destroy_process_group or the interpreter's exit then waits.",
        fix="Call destroy_process_group() on all ranks at the end of the successful path, after a barrier, and not in "
        "finally or in a destructor.",
        confirm="Results are written, and the stacks stand in destroy_process_group, atexit or the interpreter's exit.",
        source="torch ProcessGroupNCCL.cpp (shutdown, heartbeat monitor)",
    ),
    HangCause(
        name="store-host-exit",
        title="the process that serves the store has ended first",
        stages=("end",),
        meaning="Rank 0 or its launcher holds the TCPStore. When it ends before the others, their connections break, "
        "with warnings after a run that was in order, or an error where they still needed it.",
        fix="Let all ranks pass a barrier before rank 0 ends. Where every exit status is 0 there is nothing to repair.",
        confirm="Look at the exit status of every rank: all 0 means that only the warnings are left.",
        source="torch TCPStore.cpp, torchrun's exit barrier",
    ),
)
