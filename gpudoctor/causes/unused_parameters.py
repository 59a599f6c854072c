"""Parameters took no part in the loss."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="unused-parameters",
    title="parameters took no part in the loss",
    stages=("training",),
    blame="program",
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "DistributedDataParallel waits for the gradient of every parameter. One that the loss does not use "
        "never gets one: an error in the next step, or a wait where only some ranks skip it."
    ),
    fix=Fix(
        "Use all outputs in the loss, freeze what is not trained before wrapping, or pass find_unused_parameters=True.",
        (command("export TORCH_DISTRIBUTED_DEBUG=INFO"),),
    ),
    confirm=("With TORCH_DISTRIBUTED_DEBUG=INFO the error lists the parameters."),
    source=("torch documentation, DistributedDataParallel; c10d reducer.cpp"),
)
