"""The ranks that were started are not the world that they were told."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="launcher-world-mismatch",
    title="the ranks that were started are not the world that they were told",
    stages=("rendezvous",),
    blame="environment",
    hangs_by="start",
    meaning=(
        "Each rank waits until as many ranks as WORLD_SIZE have joined. Where fewer were started, or two have "
        "the same number, the group is never complete, and all wait until the rendezvous times out."
    ),
    fix=Fix(
        "Give the same number of nodes and of processes per node on every node, and another node rank on each. "
        "Under SLURM start by srun with as many tasks per node as devices.",
        (command("env | grep -E '^(RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|SLURM_NTASKS|SLURM_PROCID)='"),),
    ),
    confirm=(
        "Count the ranks on all nodes: their RANKs are 0 to WORLD_SIZE - 1, each once. In SLURM compare "
        "SLURM_NTASKS with nodes times devices."
    ),
    source=("torch rendezvous.py and TCPStore (waitForWorkers); Lightning#6206"),
)
