from gpudoctor.cause import Cause, Fix, Judged, Symptom, command
from gpudoctor.remedies import fixes_of

CAUSE = Cause(
    id="disk-full",
    title="the disk or its quota is full",
    stages=("training",),
    kind="disk-full",
    blame="node",
    restart="after a fix",
    judged={
        "evicted-node": Judged("disk-full", "node", "elsewhere"),
        "quota": Judged("quota", "environment", "after a fix"),
    },
    hangs_by="gone",
    meaning=("What is to be written there fails until there is room. Where a rank ends by it, the others wait for it."),
    like=("program-error", "checkpoint-race"),
    fix=Fix(
        "Make room on that disk, or write elsewhere; df shows which is full.",
        (command("df -h"), command("df -i")),
    ),
    variants={
        **fixes_of("disk-full"),
        "path": Fix("Make room on the file system of {path}: {how}.", (command("df -h"), command("df -i"))),
        "evicted": Fix(
            "Write data, caches and checkpoints to a volume instead of the container's own disk, or ask for more "
            "ephemeral-storage.",
            (command("df -h"),),
        ),
        "evicted-node": Fix(
            "The node's own disk ran low, by images, logs and other pods too: remove images there (crictl rmi --prune) "
            "or give the nodes a larger disk; a request for ephemeral-storage places the pod where there is room.",
            (command("df -h"),),
        ),
        "volume": "Raise sizeLimit of that volume, or write less into it: one in memory (/dev/shm) counts as memory.",
        "quota": Fix(
            "Remove or move files of the user or project, or have the quota raised.",
            (command("quota -s"), command("df -i")),
        ),
    },
    confirm="df shows no space or no inodes left on the node of that rank, or quota does.",
    foreseen_by=("disk-space-low", "inodes-low"),
    symptoms=(
        Symptom(
            "disk-full",
            needle=(
                "[Errno 28] No space left on device",
                "PytorchStreamWriter failed writing file",
                'message: "No space left on device" }',
            ),
            pattern=(
                r'message: "No space left on device" \}',
                r"\[Errno 28\] No space left on device(?:: (?P<path>[\"'][^\"'\n]{1,300}[\"']))?",
                r"PytorchStreamWriter failed writing file",
            ),
            seen="a rank could not write: the disk or its quota is full",
            source="Python's OSError; torch caffe2/serialize/inline_container.cc; Rust's std::io::Error (Debug)",
            sample=(
                "OSError: [Errno 28] No space left on device",
                "RuntimeError: PytorchStreamWriter failed writing file data/117: file write failed",
                'IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })',
            ),
            counter="Error: failed to extend /dev/shm/nccl-a to 1 bytes, error: No space left on device (28)",
        ),
        Symptom(
            "quota-exceeded",
            needle=(
                "[Errno 122] Disk quota exceeded",
                ": Disk quota exceeded",
                'message: "Disk quota exceeded" }',
            ),
            cause="disk-full",
            variant="quota",
            seen="a quota of the file system was used up",
            source="write(2), EDQUOT",
            sample=(
                "OSError: [Errno 122] Disk quota exceeded: '/home/mara/a.pt'",
                "cp: a.pt: Disk quota exceeded",
                'IoError(Os { code: 122, kind: FilesystemQuotaExceeded, message: "Disk quota exceeded" })',
            ),
            counter="Disk quotas for user mara: none",
        ),
    ),
    source="write(2), ENOSPC and EDQUOT",
)
