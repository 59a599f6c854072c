"""Some ranks have fewer batches than others."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="uneven-inputs",
    title="some ranks have fewer batches than others",
    stages=("training",),
    blame="program",
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "A rank whose data ends earlier leaves the loop, while the others wait for it in the all_reduce of "
        "their next step."
    ),
    fix=Fix(
        "Give all ranks the same number of batches: DistributedSampler, drop_last=True, equal shards of an "
        "iterable; or wrap the loop in torch.distributed.algorithms.join.Join."
    ),
    confirm=("Print len(loader), or count the steps, on every rank: the numbers differ."),
    source=("torch documentation, Join and DistributedDataParallel"),
)
