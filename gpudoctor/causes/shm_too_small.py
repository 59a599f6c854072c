from gpudoctor.cause import Cause, Fix, command
from gpudoctor.remedies import fixes_of

MORE = (
    "(docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with `medium: Memory`, mounted at /dev/shm in that "
    "container, which counts as its memory)"
)
CAUSE = Cause(
    id="shm-too-small",
    title="/dev/shm is too small",
    stages=("communicator", "training"),
    kind="shared-memory",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "What processes share lies in /dev/shm, of which a container is given 64 MiB unless it asks for more. When "
        "it is full, NCCL cannot make its "
        "segments. When it is full, DataLoader workers end by a bus error."
    ),
    like=("native-crash", "host-out-of-memory"),
    fix=Fix(
        f"Give it more {MORE}. Remove segments that dead jobs left.",
        (command("df -h /dev/shm"), command("gpudoctor check host")),
    ),
    variants={
        **fixes_of("shared-memory"),
        "container": (
            "Start the container with `--shm-size={wanted}g` or `--ipc=host`; in Kubernetes, mount an emptyDir with "
            "`medium: Memory` at /dev/shm. From inside it cannot be changed."
        ),
        "bus": Fix(
            f"A page of a mapped file could not be had. Mostly /dev/shm is full: give it more {MORE}; else a file was "
            "cut or replaced while it was mapped, or its disk is full or fails.",
            (command("df -h /dev/shm"), command("gpudoctor check host")),
        ),
        "host": "Remount it larger (it takes memory only as it fills); for good, give the size in /etc/fstab.",
    },
    confirm=("Compare the free space of /dev/shm in the rank's container with what the log asks for."),
    foreseen_by=("shm-too-small", "nccl-segments-left"),
    source=("NCCL misc/shmutils.cc; torch DataLoader; nccl#525"),
)
