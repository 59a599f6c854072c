from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="rdma-unused",
    title="NCCL does not use the RDMA devices of a node",
    stages=("communicator", "training"),
    kind="rdma",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    slows=True,
    meaning=(
        "A node has RDMA ports, and NCCL may not or cannot use them: it ends, or goes over TCP, many times slower, "
        "and all ranks at that node's pace."
    ),
    like=("ib-link-down",),
    fix=Fix("See which ports there are, and which condition fails.", (command("gpudoctor check network nccl"),)),
    variants={
        "no-device": Fix(
            "No port is ACTIVE, NCCL_IB_HCA matches none, or the container lacks /dev/infiniband. See which ports "
            "there are, and hand /dev/infiniband to the container.",
            (command("gpudoctor check network nccl"), command("ls -l /dev/infiniband /sys/class/infiniband")),
        ),
        "not-opened": Fix(
            "This process may not open /dev/infiniband/uverbs*: hand the devices to the container (docker: "
            "--device=/dev/infiniband; Kubernetes: the resource of the RDMA device plugin), and give the user "
            "access.",
            (command("ls -l /dev/infiniband"),),
        ),
        "no-provider": Fix(
            "libfabric finds no provider that the plugin can use: `fi_info -l` and `fi_info -p efa` in the same "
            "container show what it sees. A container has to be given the devices (/dev/infiniband; a pod asks for "
            "vpc.amazonaws.com/efa), and libfabric and plugin have to be of releases that go together.",
            (command("fi_info -l"), command("ls -l /dev/infiniband")),
        ),
        "one-side": Fix(
            "Some nodes use RDMA and others TCP, and NCCL cannot mix the two. See on each node what it takes and what "
            "keeps it from RDMA: settings that differ, a port that is down, a container without /dev/infiniband.",
            (command("gpudoctor check network nccl"), command("env | grep ^NCCL_")),
        ),
        "no-verbs": Fix(
            "rdma-core is not in the image, so NCCL cannot use RDMA: install it where the ranks run.",
            (command("sudo apt-get install --yes libibverbs1 ibverbs-providers"),),
        ),
    },
    confirm="NCCL's log says NET/IB on the nodes that are well, and NET/Socket on this one.",
    foreseen_by=("rdma-devices-unusable", "rdma-library-missing", "nccl-ib-disabled", "nccl-hca-matches-nothing"),
    source="NCCL net_ib/init.cc, misc/ibvsymbols.cc; nccl#451, nccl#952",
)
