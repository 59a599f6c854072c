"""DistributedDataParallel: processes by mp.spawn, samplers, seeds."""

from tests.tutorials.row import Row, Title

TITLE: Title = "DistributedDataParallel, mp.spawn and samplers"

ROWS = (
    Row(
        id="launch-spawn",
        title=TITLE,
        about="A start of two nodes with four GPUs each, by mp.spawn",
        line="spawn",
        command="gpudoctor launch --framework LINE --nodes 2 --gpus-per-node 4",
        status=0,
        told=("mp.spawn(worker, nprocs=PROCESSES)", "* PROCESSES + local_rank", "NODE_RANK=1"),
        today="The rank is node_rank * nprocs + the process's own number, and the world has nodes * nprocs of them.",
    ),
)
