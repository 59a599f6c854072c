from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="roce-gid-index",
    title="RoCE uses a GID that the peer cannot answer",
    stages=("first collective",),
    kind="rdma",
    blame="environment",
    restart="after a fix",
    judged={"index": Judged("nccl-setting", "environment", "after a fix")},
    hangs_by="start",
    meaning=(
        "The chosen GID is empty, of RoCE version 1, or of an IPv6 address that is not routed: connections are "
        "refused, or the first data is never acknowledged."
    ),
    like=("ib-link-down",),
    fix=Fix(
        "Take NCCL_IB_GID_INDEX out with NCCL 2.21 and later, which find it; with older ones name the index of "
        "RoCE v2 over IPv4.",
        (command("unset NCCL_IB_GID_INDEX"), command("gpudoctor check network")),
    ),
    variants={
        "index": (
            "NCCL_IB_GID_INDEX names an index that this port does not have: take it out, or name one that it has on "
            "every node."
        ),
        "hidden": Fix(
            "The container hides the types of the GIDs: mount /sys into it (docker: --volume /sys:/sys:ro), or give "
            "the index by hand.",
            (command("gpudoctor env"),),
        ),
    },
    confirm=(
        "Compare the index of the log with /sys/class/infiniband/*/ports/*/gid_attrs/types: it is RoCE v2, and "
        "its address is the port's IPv4."
    ),
    foreseen_by=("roce-gid-index-wrong", "roce-without-v2-gid", "nccl-gid-index-set"),
    source=("NCCL documentation of NCCL_IB_GID_INDEX; nccl#426"),
)
