"""What the libraries below NCCL and MPI say of a fabric: aws-ofi-nccl on libfabric, UCX.

Texts as in aws-ofi-nccl (nccl_ofi_rdma, nccl_ofi_sendrecv, nccl_ofi_net; its warnings begin with "NET/OFI ") of 1.7 to
1.17, and in UCX src/uct/ib/mlx5/ib_mlx5_log.c, ucp/core/ucp_context.c, ucp/wireup/select.c, uct/tcp/tcp_cm.c.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom

NODE = "ip-10-4-0-7:3311:3390 [2] "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "port-initializing",
        pattern=(
            r"(?:^|\s)State: Initializing\s{0,4}$",
            r"\bstate:\s{1,20}PORT_INIT \(2\)",
            r"\blink (?P<device>\w{1,40}/\d{1,2}) [^\n]{0,80}\bstate INIT physical_state LINK_UP\b",
        ),
        cause="ib-link-down",
        variant="no subnet manager",
        confidence=LIKELY,
        seen=(
            "the port {device} is only initializing: no subnet manager has given it an address",
            "an InfiniBand port is only initializing: no subnet manager has given it an address (LID)",
        ),
        source="rdma-core infiniband-diags ibstat.c, ibv_devinfo.c; iproute2 rdma/link.c",
        sample=(
            "\t\tState: Initializing",
            "\t\tstate:\t\t\tPORT_INIT (2)",
            "link mlx5_2/1 subnet_prefix fe80:0000:0000:0000 lid 65535 state INIT physical_state LINK_UP",
        ),
        counter=("\t\tState: Active", "State: Initializing the model"),
    ),
    Symptom(
        "ofi-transfer-failed",
        pattern=(
            r"Request (?:0x\w{1,20} )?(?:seq \d+ )?completed with error\. RC: \d+\.(?: Flags: \d+\.)? Error: "
            r"(?P<error>\d+) \((?P<reason>[^\n)]{1,160})",
            r"Request 0x\w{1,20} \([^)\n]{1,60}\) completed with error: err: (?P<error>\d+), [^\n]{0,80}?strerror: "
            r"(?P<reason>[^\n,]{1,160})",
            r"Remote write completed with error\. RC: \d+\. Flags: \d+\. Error: (?P<error>\d+) "
            r"\((?P<reason>[^\n)]{1,160})",
        ),
        cause="rdma-peer-lost",
        variant="efa",
        role="connection",
        confidence=LIKELY,
        seen="a transfer over libfabric failed: {reason} ({error})",
        versions="three wordings",
        source="aws-ofi-nccl nccl_ofi_sendrecv.c, nccl_ofi_rdma.cpp, nccl_ofi_platform.h",
        sample=(
            NODE + "NCCL WARN NET/OFI Request 0x7f21 completed with error. RC: 103. Error: 15 (local ep destroyed). "
            "Completed length: 0, Request: { dev: 1 }",
            NODE + "NCCL WARN NET/OFI Request 0x7f21 (send) completed with error: err: 110, flags: 2, prov_errno: 4, "
            "strerror: unresponsive peer, len: 0",
        ),
        counter=NODE + "NCCL INFO NET/OFI Request completed",
    ),
    Symptom(
        "ofi-peer-not-inserted",
        needle="NET/OFI Unable to insert remote address into address vector",
        cause="rdma-peer-lost",
        variant="efa",
        role="connection",
        confidence=LIKELY,
        seen="libfabric has no way to the address of another node",
        source="aws-ofi-nccl nccl_ofi_sendrecv.c, nccl_ofi_rdma.cpp (fi_av_insert)",
        sample=NODE + "NCCL WARN NET/OFI Unable to insert remote address into address vector for device 1. RC: 0",
        counter=NODE + "NCCL INFO NET/OFI inserted the remote address",
    ),
    Symptom(
        "ofi-no-provider",
        needle=(
            "NET/OFI Unable to find a protocol that worked",
            "NET/OFI OFI fi_getinfo() call failed",
            "NET/OFI aws-ofi-nccl initialization failed",
        ),
        cause="rdma-unused",
        variant="no-provider",
        confidence=POSSIBLE,
        seen="the network plugin found no fabric that libfabric can use",
        source="aws-ofi-nccl nccl_ofi_net.cpp, nccl_ofi_ofiutils.cpp",
        sample=(
            NODE + "NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization.",
            NODE + "NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available",
        ),
        counter=NODE + "NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)",
    ),
    Symptom(
        "ucx-retries-exceeded",
        pattern=r"(?P<what>Transport|Receive-no-ready) retry count exceeded on (?P<device>[\w.:-]{1,40})/\w{1,8}",
        cause="rdma-peer-lost",
        role="connection",
        confidence=LIKELY,
        seen="RDMA packets over {device} were not acknowledged ({what} retry count exceeded)",
        source="UCX src/uct/ib/mlx5/ib_mlx5_log.c",
        sample="[n31:7100:0:7100] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_2:1/IB (synd 0x15 vend "
        "0x81 hw_synd 0/0)",
        counter="retry count 7",
    ),
    Symptom(
        "ucx-no-transport",
        pattern=(
            r"no usable transports/devices \(asked (?P<asked>[^)\n]{1,120})\)",
            r"UCX +ERROR +no (?P<asked>[\w -]{1,40}) transport to [^\n]{1,80}: ",
        ),
        cause="nccl-settings",
        variant="ucx",
        confidence=LIKELY,
        seen="UCX has no transport that reaches the other end ({asked})",
        source="UCX src/ucp/core/ucp_context.c, src/ucp/wireup/select.c",
        sample=(
            "ucp_context.c:1112 UCX  ERROR no usable transports/devices (asked rc_x on mlx5_9:1)",
            "select.c:629  UCX  ERROR no active messages transport to <no debug data>: self/memory - Destination is "
            "unreachable",
        ),
        counter="UCX  INFO  ep_cfg[2]: tag(rc_mlx5/mlx5_2:1)",
    ),
    Symptom(
        "ucx-connect-gave-up",
        pattern=r"tcp_ep 0x\w{1,20}: reached maximum number of connection retries",
        cause="firewall-ephemeral-ports",
        role="connection",
        seen="UCX gave up connecting over TCP",
        source="UCX src/uct/tcp/tcp_cm.c",
        sample="tcp_cm.c:779  UCX  ERROR tcp_ep 0x55d0: reached maximum number of connection retries (25) for "
        "connection establishment",
        counter="tcp_ep 0x55d0: connected",
    ),
)
