from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="store-key-missing",
    title="a key of the store is waited for that nobody has set",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "Store.get and Store.wait return once a rank has set the key. A rank that waits for one which no "
        "other sets (another spelling, a rank that has skipped it) waits until its time-out."
    ),
    like=("rendezvous-incomplete",),
    fix=Fix(
        "Compare the key with the ones that are set: prefix, spelling, step and rank in it; set it on "
        "every way through the code, also where a step is skipped."
    ),
    confirm="Store.check([key]) is false on every rank.",
    source="torch documentation of torch.distributed.Store",
)
