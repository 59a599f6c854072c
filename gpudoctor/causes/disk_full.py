"""The disk or its quota is full."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.symptom import Symptom

CAUSE = Cause(
    id="disk-full",
    title="the disk or its quota is full",
    stages=("training",),
    blame="node",
    hangs_by="gone",
    meaning=("A rank cannot write its checkpoint, log or cache, and ends by an exception. The others wait for it."),
    like=("program-error", "checkpoint-race"),
    fix=Fix("Make room, or write elsewhere; the message before names the path.", (command("df -h"), command("df -i"))),
    confirm="df shows no space or no inodes left on the node of that rank, or quota does.",
    foreseen_by=("disk-space-low", "inodes-low"),
    symptoms=(
        Symptom(
            "disk-full",
            needle=(
                "[Errno 28] No space left on device",
                "[Errno 122] Disk quota exceeded",
                "PytorchStreamWriter failed writing file",
            ),
            seen="a rank could not write: the disk or its quota is full",
            source="Python's OSError; torch caffe2/serialize/inline_container.cc",
            sample=(
                "OSError: [Errno 28] No space left on device",
                "RuntimeError: PytorchStreamWriter failed writing file data/117: file write failed",
            ),
            counter="Error: failed to extend /dev/shm/nccl-a to 1 bytes, error: No space left on device (28)",
        ),
    ),
    source="write(2), ENOSPC and EDQUOT",
)
