from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="gpu-stuck",
    title="a rank's GPU does not end what the GPUs of its peers have ended",
    stages=("training", "first collective"),
    kind="device-lost",
    blame="node",
    restart="elsewhere",
    hangs_by="elsewhere",
    meaning=(
        "The rank has issued an operation, and all its peers have ended theirs: so data went through, and its own GPU, "
        "its driver or the thread that watches them has stopped. Its Python program is not where it stands."
    ),
    like=("xid-gpu-lost", "gpu-program-fault", "nccl-bug"),
    fix=Fix(
        "Look at that GPU and its node before it is used again: errors of the driver, its links, its power.",
        (command("gpudoctor check gpu driver"), command("sudo dmesg --ctime | grep -iE 'Xid|AER|NVRM'")),
    ),
    confirm=(
        "The kernel log of that node names an Xid, or a test of that GPU fails; a kernel of the program that never "
        "ends looks the same, and comes again on another GPU."
    ),
    source=("torch FlightRecorder: a state is read from CUDA events; a kernel behind a failed one never ends"),
)
