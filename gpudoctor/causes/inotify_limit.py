from gpudoctor.cause import LIKELY, Cause, Fix, Symptom, command

CAUSE = Cause(
    id="inotify-limit",
    title="the kernel gives no more inotify watches",
    stages=("training",),
    kind="limits",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning="A library watches files for changes. The kernel's limit of watches is used up, and the rank that asks ends.",
    fix=Fix(
        "Lift the limit of watches on the node, or let the library poll.",
        (command("cat /proc/sys/fs/inotify/max_user_watches"),),
    ),
    confirm="/proc/sys/fs/inotify/max_user_watches is small, and the job's processes hold many inotify descriptors.",
    symptoms=(
        Symptom(
            "inotify-limit",
            needle="inotify watch limit reached",
            confidence=LIKELY,
            seen="the kernel's limit of inotify watches is used up",
            source="watchdog, inotify_c.py: OSError(errno.ENOSPC, 'inotify watch limit reached')",
            sample="OSError: [Errno 28] inotify watch limit reached",
            counter="INFO inotify watches: 12 of 65536",
        ),
    ),
    source="inotify(7), watchdog",
)
