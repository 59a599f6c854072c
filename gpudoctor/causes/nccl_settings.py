from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="nccl-settings",
    title="NCCL's settings leave it no way",
    stages=("communicator", "first collective"),
    kind="nccl-setting",
    blame="environment",
    restart="after a fix",
    judged={
        "comm-id-name": Judged("name-resolution", "environment", "after a fix"),
        "ucx": Judged("rdma", "environment", "after a fix"),
    },
    hangs_by="start",
    meaning=(
        "Variables of NCCL forbid every algorithm, protocol or network that could do the work, or name one that is "
        "not there. NCCL ends with an error instead of choosing another one."
    ),
    like=("version-mismatch",),
    fix=Fix(
        "Take the variables of NCCL out that somebody set once, and set again only those that a measurement wants.",
        (command("env | grep ^NCCL_"), command("gpudoctor check nccl")),
    ),
    variants={
        "algorithms": Fix(
            "NCCL_ALGO or NCCL_PROTO forbids all that could do it; since 2.24 NCCL no longer falls back to rings: "
            "take both out.",
            (command("unset NCCL_ALGO NCCL_PROTO"),),
        ),
        "words": Fix(
            "NCCL does not know a word of NCCL_ALGO or NCCL_PROTO: take both out, or write ring, tree, LL or Simple.",
            (command("unset NCCL_ALGO NCCL_PROTO"),),
        ),
        "transports": Fix(
            "NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET_DISABLE_INTRA leave GPUs of one node no way: take them "
            "out.",
            (command("unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_NET_DISABLE_INTRA"),),
        ),
        "file": Fix(
            "NCCL_TOPO_FILE or NCCL_GRAPH_FILE names a file that this node or container does not have: take it out.",
            (command("unset NCCL_TOPO_FILE NCCL_GRAPH_FILE"),),
        ),
        "file-text": Fix(
            "NCCL_TOPO_FILE or NCCL_GRAPH_FILE names a file that is cut off or of another format: take it out, or "
            "have this NCCL write one anew. Without them look at /var/run/nvidia-topologyd/virtualTopology.xml.",
            (command("unset NCCL_TOPO_FILE NCCL_GRAPH_FILE"), command("export NCCL_TOPO_DUMP_FILE=topology.xml")),
        ),
        "comm-id": Fix(
            "NCCL_COMM_ID is for programs without a launcher, and wants ADDRESS:PORT: take it out where torchrun or "
            "srun starts the ranks.",
            (command("unset NCCL_COMM_ID"),),
        ),
        "comm-id-name": Fix(
            "NCCL_COMM_ID holds a name that this node cannot resolve: give the address, or write the name into DNS or "
            "/etc/hosts.",
            (command("env | grep ^NCCL_COMM_ID"),),
        ),
        "ucx": Fix(
            "UCX_TLS or UCX_NET_DEVICES names what is not there or does not reach the other node: take both out.",
            (command("unset UCX_TLS UCX_NET_DEVICES"), command("ucx_info -d")),
        ),
        "network": Fix(
            "NCCL_NET names a network that is not there, a plugin that is not installed, or IB on a node without "
            "RDMA: take it out, or install what it names.",
            (command("unset NCCL_NET NCCL_NET_PLUGIN"),),
        ),
    },
    confirm="Without the variables the same job runs.",
    foreseen_by=("nccl-algorithm-forced", "nccl-plugin-missing", "nccl-net-socket-left", "nccl-path-missing"),
    source="NCCL enqueue.cc, plugin/net.cc",
)
