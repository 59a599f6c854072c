from gpudoctor.cause import POSSIBLE, Cause, Fix, Symptom, command

CAUSE = Cause(
    id="mtu-mismatch",
    title="the ports of the path have different MTUs",
    stages=("first collective",),
    kind="route",
    blame="fabric",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "Small messages pass, and large ones vanish or are refused, since one port sends packets that another "
        "does not take."
    ),
    like=("ib-link-down", "firewall-ephemeral-ports"),
    fix=Fix(
        "Set the same MTU on all hosts and on the switches between.",
        (command("ip -details link show"), command("ibv_devinfo -v")),
    ),
    variants={
        "length": Fix(
            "What came was longer than what this end waits for: ranks call the operation with unlike sizes (print the "
            "shapes on both), NCCL or its settings differ between the nodes, or ports of the path have unlike MTUs.",
            (command("export NCCL_DEBUG=INFO"), command("ibv_devinfo -v")),
        ),
    },
    confirm=("Send a packet of the full size that may not be divided: ping -M do -s 8972 to a peer for MTU 9000."),
    foreseen_by=("mtu-differs-between-nics", "rdma-mtu-small"),
    symptoms=(
        Symptom(
            "rdma-length-error",
            pattern=r"completion from peer (?P<address>\S+) with (?:error "
            r"|status=)(?:IBV_WC_LOC_LEN_ERR\()?(?P<status>1)\b",
            confidence=POSSIBLE,
            variant="length",
            seen="what came from {address} by RDMA was longer than this end takes (local length error)",
            source="enum ibv_wc_status; NCCL PR 2135",
            sample=(
                "n07:81422:81733 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer "
                "10.4.0.9<40112> with status=1 opcode=129 len=0 vendor err 105 (Recv) hca mlx5_4",
                "n07:81422:81733 [2] transport/net_ib/p2p.cc:310 NCCL WARN NET/IB: Got completion from peer "
                "10.4.0.9<40112> with status=IBV_WC_LOC_LEN_ERR(1) opcode=IBV_WC_RECV(128) vendor_err=105 hca mlx5_4",
            ),
            counter="NET/IB: Got completion from peer 10.4.0.9<40112> with error 12, opcode 0, len 0, vendor err 129",
        ),
        Symptom(
            "rdma-access-event",
            pattern=r"NET/IB : (?P<device>[^\s:]+):(?P<port>\d+) (?:async fatal|Got async)[^:\n]*: "
            r"local access violation work queue error",
            confidence=POSSIBLE,
            seen="{device} port {port} refused what a peer sent (local access violation)",
            source="ibv_event_type_str(3); NCCL net_ib (ncclIbAsyncThreadMain), nccl#1524",
            sample=(
                "n07:81422:81733 [2] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : local "
                "access violation work queue error",
                "n07:81422:81733 [2] transport/net_ib.cc:180 NCCL WARN NET/IB : mlx5_ib0:1 async fatal event on QP "
                "(0x7f69f01519a8): local access violation work queue error",
            ),
            counter="n07:81422:81733 [2] NCCL WARN NET/IB : mlx5_0:1 Got async event : GID table change",
        ),
    ),
    source=("NCCL troubleshooting; enum ibv_wc_status"),
)
