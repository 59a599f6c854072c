"""A rank is busy elsewhere for longer than the others wait."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="slow-rank-timeout",
    title="a rank is busy elsewhere for longer than the others wait",
    stages=("rendezvous", "communicator", "first collective", "training"),
    blame="rank",
    hangs_by="elsewhere",
    slows=True,
    meaning=(
        "One rank downloads, prepares data, compiles, evaluates or saves, while the others wait in a barrier "
        "or collective. They give up after their time-out though nothing is broken."
    ),
    like=("rank-died", "storage-stall"),
    fix=Fix(
        "Do the long work before the group is made, or on all ranks, or give the group a longer timeout "
        "(init_process_group(timeout=...))."
    ),
    confirm=("The busy rank's stack moves between two looks, and it comes to the collective in the end."),
    source=("torch documentation of init_process_group(timeout); torchtune#2059, litgpt#1819"),
)
