from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="debug-wrapper-artifact",
    title="TORCH_DISTRIBUTED_DEBUG=DETAIL itself reports or hangs",
    stages=("rendezvous", "communicator", "first collective", "training"),
    kind="config",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The debugging wrapper adds collectives of its own on a gloo group. With some groups and barriers it "
        "sees mismatches that are none, or waits."
    ),
    fix=Fix("Take it out, and use the flight recorder instead.", (command("unset TORCH_DISTRIBUTED_DEBUG"),)),
    variants={
        "some": Fix(
            "Set it for every rank or for none.",
            (command("unset TORCH_DISTRIBUTED_DEBUG"),),
        ),
    },
    confirm=("Without the variable the same job runs."),
    source=("torch ProcessGroupWrapper.cpp"),
)
