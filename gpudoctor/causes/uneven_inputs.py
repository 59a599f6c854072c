from gpudoctor.cause import PROVED, Cause, Fix, Symptom

CAUSE = Cause(
    id="uneven-inputs",
    title="some ranks have fewer batches than others",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "A rank whose data ends earlier leaves the loop, while the others wait for it in the all_reduce of "
        "their next step."
    ),
    like=("rank-divergent-decision", "slow-rank-timeout"),
    fix=Fix(
        "Give all ranks the same number of batches: DistributedSampler, drop_last=True, equal shards of an "
        "iterable; or wrap the loop in torch.distributed.algorithms.join.Join."
    ),
    confirm=("Print len(loader), or count the steps, on every rank: the numbers differ."),
    symptoms=(
        Symptom(
            "inputs-exhausted",
            pattern=r"(?:rank that exhausted inputs\. Throwing across all ranks|Rank (?P<rank>\d+) exhausted all "
            r"inputs)",
            confidence=PROVED,
            seen="a rank had no more batches while others had",
            source="torch distributed/algorithms/join.py",
            sample=(
                "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.",
                "RuntimeError: Rank 2 exhausted all inputs.",
            ),
            counter="all ranks exhausted inputs",
        ),
    ),
    source=("torch documentation, Join and DistributedDataParallel"),
)
