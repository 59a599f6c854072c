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
    variants={
        "nodes": Fix(
            "Start all nodes with the same number: {right}, if the nodes seen are all of them. End the "
            "launchers that wait, then start again, on {wrong} with {option} {right}.",
        ),
        "more nodes": Fix(
            "Start all nodes with the same number of nodes, and as many of them; most were told {right}.",
        ),
        "node ranks": Fix(
            "Give every node a rank of its own, 0 to {last}. End all launchers, for those that wait have "
            "counted the wrong one already, and start {surplus} with the free one.",
        ),
        "world sizes": Fix(
            "Start every rank with the same WORLD_SIZE, the number of all ranks together; most were told {usual}.",
        ),
        "ranks": Fix(
            "Start every process with a RANK of its own, 0 to {last}: on each node, the node's number "
            "times the ranks a node, plus the local rank.",
        ),
        "absent nodes": Fix(
            "Start the job on {which} too, towards the same address, or start all nodes with --nnodes {there}.",
        ),
        "absent ranks": Fix(
            "Start as many processes as the world size says: with SLURM by srun with --ntasks-per-node of "
            "the ranks a node, else by torchrun on each node, which sets RANK and WORLD_SIZE itself.",
        ),
        "absent head": Fix(
            "Start rank 0's node, {head}, as well; if it was started, its own output says why it ended.",
        ),
    },
    confirm=(
        "Count the ranks on all nodes: their RANKs are 0 to WORLD_SIZE - 1, each once. In SLURM compare "
        "SLURM_NTASKS with nodes times devices."
    ),
    source=("torch rendezvous.py and TCPStore (waitForWorkers); Lightning#6206"),
)
