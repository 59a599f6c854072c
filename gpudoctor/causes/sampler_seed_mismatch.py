from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="sampler-seed-mismatch",
    title="the ranks shuffle their data differently",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "Samplers that shuffle by their own seed divide different lists. Counts of batches differ where they "
        "depend on the order (buckets by length), and samples are seen twice or never."
    ),
    like=("uneven-inputs",),
    fix=Fix("Give all ranks the same seed for the sampler and call set_epoch; nothing unseeded may choose the order."),
    confirm=("Print a hash of the epoch's list of indices on every rank, before it is divided."),
    source=("torch DistributedSampler; LongLive#71, torchaudio#3068"),
)
