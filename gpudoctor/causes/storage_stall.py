from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="storage-stall",
    title="storage does not answer",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="storage",
    blame="node",
    restart="not decided",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank waits in the kernel for a file system (NFS, Lustre, FUSE, a pipe), where no signal and no "
        "time-out reaches it. The others wait for this rank."
    ),
    like=("stopped-rank", "slow-rank-timeout"),
    fix=Fix(
        "Repair or remount the storage; keep data sets, checkpoints in progress and caches on local disks.",
        (command("gpudoctor check host"), command("mount | grep -E 'nfs|lustre|fuse|gpfs|beegfs'")),
    ),
    variants={
        "refused": Fix(
            "What reads or writes there gets an error at once: see whether the mount still answers (df, ls), and mount "
            "it anew; of a FUSE mount (s3fs, gcsfuse, goofys) the program behind it has ended, and its own log or the "
            "OOM killer's says why.",
            (command("mount | grep -E 'nfs|lustre|fuse|gpfs|beegfs'"), command("sudo dmesg --ctime | tail -n 40")),
        ),
        "error": Fix(
            "Look at that device in the kernel's log and by smartctl: behind such errors the kernel mounts a "
            "file system read-only, until it is checked (fsck) and mounted again. Start elsewhere until then, and keep "
            "nothing there that is not somewhere else too.",
            (
                command("sudo dmesg --ctime | grep -iE 'I/O error|EXT4-fs|XFS|remount'"),
                command("findmnt -o TARGET,SOURCE,OPTIONS"),
            ),
        ),
    },
    meanings={
        "error": (
            "The kernel got an error from a disk or a file system: what is read from there fails, and what is "
            "written is refused."
        ),
    },
    confirm=("The process is in state D, or stat on the mount does not return within seconds."),
    foreseen_by=("path-unresponsive",),
    source=("proc(5); kernel hung_task"),
)
