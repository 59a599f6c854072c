from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="rdma-peer-lost",
    title="a transfer to another node failed",
    stages=("communicator", "first collective", "training"),
    kind="rdma",
    blame="fabric",
    restart="elsewhere",
    judged={"efa": Judged("rdma", "fabric", "not decided")},
    hangs_by="start",
    meaning=(
        "The network below NCCL or MPI gave up on a peer: its process has ended, its node is gone, or packets between "
        "the two are lost."
    ),
    like=("ib-link-down", "rank-died", "node-lost"),
    fix=Fix(
        "See whether that peer ended first: its own log says why. Else look at ports and error counters of both nodes.",
        (command("gpudoctor check network"), command("rdma statistic show")),
    ),
    variants={
        "efa": Fix(
            "See whether the peer ended first. Else the security group of EFA must allow all traffic to and from "
            "itself, and both nodes lie in one subnet.",
            (command("fi_info -p efa"),),
        ),
    },
    confirm="The peer's own log ends before this line, or fi_pingpong or ib_write_bw between the two nodes fails too.",
    source="aws-ofi-nccl; UCX src/uct/ib",
)
