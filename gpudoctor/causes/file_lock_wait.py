from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="file-lock-wait",
    title="a rank waits for a lock on a file",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank wants a file lock (filelock, fcntl.flock, a lock file of torch's extension builds, a "
        "database) that somebody else holds, or that a run which was killed has left behind. It never comes "
        "to the collective in which the others wait."
    ),
    like=(
        "storage-stall",
        "slow-rank-timeout",
    ),
    fix=Fix(
        "Find who holds the lock; keep collectives out of the code that holds it, and give the lock a "
        "timeout (FileLock(..., timeout=...))."
    ),
    variants={
        "left": (
            "A lock file alone is the lock (SoftFileLock, FileBaton): what was killed has left it behind. See "
            "that nobody uses it, then remove it, and start again."
        ),
        "rank": (
            "A rank of this job holds the lock while it waits in a collective: take the collective out of the "
            "block under the lock."
        ),
        "database": (
            "Another connection has the database's lock: commit before the collective, and write from one rank only."
        ),
    },
    confirm="The file of the lock is there, and its holder is in /proc/locks or has ended.",
    source="flock(2), fcntl(2); documentation of filelock; torch/utils/file_baton.py",
)
