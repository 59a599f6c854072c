"""Symptoms of RDMA: devices that do not open, connections, completions with an error, GPUDirect.

Texts as in NCCL's transport/net_ib, misc/ibvwrap.cc and graph/topo.cc from 2.18.3 to 2.30.7. A completion's status is
the number of enum ibv_wc_status; before 2.20 it is worded "with error N", up to 2.27 "status=N", since 2.28.9
"status=NAME(N)". The HINT lines of 2.30 are not read: it prints all of them, whatever the cause.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom

NODE = "n07:81422:81733 [2] "
INFO, WARN = NODE + "NCCL INFO ", NODE + "misc/socket.cc:118 NCCL WARN "
COMPLETION = "NET/IB: Got completion from peer 10.4.0.9<40112> with "
MODIFY = "Call to ibv_modify_qp failed with "
PEER = r"completion from peer (?P<address>\S+) with (?:error |status=)(?:\w+\()?"


def completion(*statuses: int) -> tuple[str, ...]:
    numbers = "|".join(map(str, statuses))
    # The HCA stands at the end of the line, in releases that name it.
    return (
        PEER + rf"(?P<status>{numbers})\b[^\n]* hca (?P<device>\S+)",
        PEER + rf"(?P<status>{numbers})\b",
        rf"Got completion with error (?P<status>{numbers}), opcode",
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "rdma-retries-exceeded",
        pattern=completion(12),
        cause="ib-link-down",
        variant="retries",
        confidence=LIKELY,
        seen=(
            "RDMA packets to {address} were not acknowledged (status {status}, retries exceeded)",
            "RDMA packets to another node were not acknowledged (status {status}, retries exceeded)",
        ),
        source="enum ibv_wc_status; nccl#426, nccl#902, nccl#1664, nccl#1814",
        sample=(
            WARN + COMPLETION + "error 12, opcode 0, len 0, vendor err 129",
            WARN + COMPLETION + "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_4",
        ),
        counter=WARN + COMPLETION + "error 5, opcode 0, len 0, vendor err 249",
    ),
    Symptom(
        "rdma-memory-refused",
        pattern=completion(4, 10),
        cause="gdr-broken",
        seen=(
            "an RDMA access to GPU memory failed (status {status}) with {address}",
            "an RDMA access to GPU memory failed (status {status}: local protection, or remote access)",
        ),
        source="enum ibv_wc_status; NCCL net_ib/p2p.cc of 2.30.7",
        sample=WARN + COMPLETION + "status=4 opcode=1 len=32768 vendor err 81 (Recv) hca mlx5_4",
        counter=WARN + COMPLETION + "status=5 opcode=1 len=32768 vendor err 249 (Recv) hca mlx5_4",
    ),
    Symptom(
        "rdma-receiver-not-ready",
        pattern=completion(13),
        role="consequence",
        seen=(
            "the receiver at {address} was not ready (status {status})",
            "a receiver was not ready (status {status})",
        ),
        source="enum ibv_wc_status",
        sample=WARN + COMPLETION + "error 13, opcode 0, len 0, vendor err 135",
        counter=WARN + COMPLETION + "error 130, opcode 0",
    ),
    Symptom(
        "rdma-flushed",
        pattern=completion(5),
        role="consequence",
        seen=(
            "work to {address} was flushed (status {status}) because its queue had failed",
            "work was flushed (status {status}) because its queue had failed",
        ),
        source="enum ibv_wc_status",
        sample=WARN + COMPLETION + "error 5, opcode 0, len 0, vendor err 249",
        counter=WARN + COMPLETION + "error 12, opcode 0, len 0, vendor err 129",
    ),
    Symptom(
        "no-rdma-device",
        needle="NET/IB : No device found",
        role="context",
        seen="NCCL found no RDMA device",
        source="NCCL net_ib/init.cc; nccl#952, nccl#941",
        sample=INFO + "NET/IB : No device found.",
        counter=INFO + "NET/IB : Using [0]mlx5_2:1/RoCE [RO]",
    ),
    Symptom(
        "rdma-device-not-opened",
        pattern=(
            r"NET/IB : Unable to open device (?P<device>\S+)",
            r"Call to ibv_open_device failed",
        ),
        cause="rdma-unused",
        variant="not-opened",
        confidence=POSSIBLE,
        seen=("the RDMA device {device} could not be opened", "an RDMA device could not be opened"),
        source="NCCL net_ib/init.cc; nccl#451",
        sample=WARN + "NET/IB : Unable to open device mlx5_6",
        counter=INFO + "NET/IB : Using [0]mlx5_6:1/IB",
    ),
    Symptom(
        "verbs-library-missing",
        pattern=r"Failed to open (?P<library>libibverbs\.so[.\d]*)",
        role="context",
        seen="{library} could not be loaded",
        source="NCCL misc/ibvsymbols.cc",
        sample=INFO + "Failed to open libibverbs.so[.1]",
        counter=INFO + "Successfully opened libibverbs.so.1",
    ),
    Symptom(
        "rdma-peer-unreachable",
        pattern=(
            r"ibv_modify_qp failed with error (?P<errno>Connection timed out|No route to host)",
            r"ibv_modify_qp failed with (?:110|113) (?P<errno>[^,\n]*),[^\n]*local GID index (?P<gid>\d+)",
            r"ibv_modify_qp failed with (?:110|113) (?P<errno>[^,\n]*)",
        ),
        unless=", retrying ",
        cause="rail-cross-nic",
        variant="unanswered",
        confidence=LIKELY,
        seen="an RDMA connection could not be made: {errno}",
        versions="nccl 2.23 and older name no number; since 2.24 the number comes first",
        source="NCCL misc/ibvwrap.cc; nccl-tests#227, nccl#2013",
        sample=(
            WARN + MODIFY + "error Connection timed out errno 110",
            WARN + MODIFY + "113 No route to host, on dev mlx5_4:1, curr state INIT, local GID index 3, local GID x",
        ),
        counter=WARN + MODIFY + "error Invalid argument errno 22",
    ),
    Symptom(
        "rdma-gid-refused",
        pattern=(
            r"ibv_modify_qp failed with error (?P<errno>Invalid argument)",
            r"ibv_modify_qp failed with 22 (?P<errno>[^,\n]*),[^\n]*local GID index (?P<gid>\d+)",
            r"ibv_modify_qp failed with 22 (?P<errno>[^,\n]*)",
        ),
        unless=", retrying ",
        cause="roce-gid-index",
        confidence=LIKELY,
        seen="an RDMA connection was refused by the local device: {errno}",
        source="NCCL misc/ibvwrap.cc, its documentation of NCCL_IB_GID_INDEX",
        sample=WARN
        + MODIFY
        + "22 Invalid argument, on dev mlx5_4:1, curr state INIT, next state RTR, local GID index 1",
        counter=WARN + MODIFY + "error Connection timed out errno 110",
    ),
    Symptom(
        "rdma-netdev-gone",
        pattern=(
            r"ibv_modify_qp failed with error (?P<errno>No such device|Network is unreachable)",
            r"ibv_modify_qp failed with (?:19|101) (?P<errno>[^,\n]*)",
        ),
        unless=", retrying ",
        cause="ib-link-down",
        variant="namespace",
        confidence=POSSIBLE,
        seen="the network interface behind an RDMA port cannot be used: {errno}",
        source="NCCL misc/ibvwrap.cc; nccl#925, nccl-tests#185",
        sample=WARN + MODIFY + "19 No such device, on dev mlx5_4:1",
        counter=WARN + MODIFY + "error Invalid argument errno 22",
    ),
    Symptom(
        "memlock-limit",
        needle=("ibv_reg_mr", "ibv_create_qp", "ibv_create_cq"),
        pattern=(
            r"(?P<call>ibv_reg_mr\w*)(?:\(\))? failed with error (?P<errno>Cannot allocate memory)",
            r"(?P<call>ibv_(?:reg_mr\w{0,10}|create_(?:cq|qp|srq)))(?:\([^)\n]{0,80}\))? failed: (?P<errno>Cannot "
            r"allocate memory)",
            r"Call to (?P<call>ibv_create_(?:qp|cq)) failed",
            r"(?P<call>ibv_reg_mr\w*|ibv_create_(?:qp|cq)) failed with (?:error )?(?P<errno>[^\n]*Cannot allocate "
            r"memory)",
        ),
        cause="memlock-limit",
        seen="{call} failed: memory could not be locked for RDMA",
        source="NCCL misc/ibvwrap.cc; nccl-tests#206; UCX src/uct/ib/base/ib_iface.c",
        sample=(
            WARN + "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            WARN + "Call to ibv_create_cq failed",
            "ib_iface.c:1018 UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory",
        ),
        counter=WARN + "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
    ),
    Symptom(
        "dma-buf-refused",
        pattern=r"ibv_reg_dmabuf_mr failed[^\n]*(?P<errno>Operation not supported|Protocol not supported)",
        cause="gdr-broken",
        variant="dma-buf",
        confidence=LIKELY,
        seen="GPU memory could not be registered by DMA-BUF: {errno}",
        source="nccl#778",
        sample=WARN + "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
        counter=INFO + "DMA-BUF is available on GPU device 2",
    ),
    Symptom(
        "rdma-port-event",
        needle=("async fatal event", "Got async", "Got non-fatal async"),
        # NCCL logs harmless events of a port in the same words: a changed GID table, a client that registers again.
        pattern=(
            r"NET/IB : (?P<device>[^\s:]+):(?P<port>\d+) (?:async fatal|Got (?:non-fatal )?async)[^:\n]*: "
            r"(?P<event>(?i:port error|local catastrophic error|fatal error|device fatal|QP fatal|fatal)[^\n]*)",
        ),
        cause="ib-link-down",
        seen="{device} port {port} reported {event}",
        source="NCCL net_ib",
        versions="nccl 2.30 and later call a lost link a non-fatal event",
        sample=(
            WARN + "NET/IB : mlx5_4:1 Got async error event: port error",
            WARN + "NET/IB : mlx5_4:1 Got non-fatal async event: port error(10)",
        ),
        counter=WARN + "NET/IB : mlx5_4:1 Got async non-fatal event: GID table change (18)",
    ),
    Symptom(
        "gpu-direct-off-for-adapter",
        pattern=r"GPU Direct RDMA Disabled for HCA (?P<index>\d+) '(?P<device>[^'\n]*)'",
        role="context",
        seen="NCCL does not use GPUDirect RDMA with {device}",
        source="NCCL graph/topo.cc; nccl#1510, nccl#1537, nccl#1939",
        sample=INFO + "NET/IB : GPU Direct RDMA Disabled for HCA 3 'mlx5_4'",
        counter=INFO + "GPU Direct RDMA Enabled for HCA",
    ),
    Symptom(
        "gpu-direct-off-for-gpu",
        pattern=(
            r"GPU Direct RDMA Disabled for GPU (?P<gpu>\w+) / HCA (?P<hca>\w+) \(distance (?P<distance>\d+)",
            r"GPU Direct RDMA Disabled for (?P<gpu>[^\n]*)",
        ),
        role="context",
        seen="NCCL does not use GPUDirect RDMA between GPU {gpu} and a NIC: they are too far apart",
        versions="nccl 2.29.7 and older; later releases say it in TRACE builds only",
        source="NCCL graph/paths.cc",
        sample=INFO + "NET/IB : GPU Direct RDMA Disabled for GPU 3d000 / HCA 3 (distance 7 > 4)",
        counter=INFO + "NET/IB : GPU Direct RDMA Enabled for GPU 3d000 / HCA 3 (distance 4 <= 4), read 1",
    ),
    Symptom(
        "network-without-gpu-direct",
        pattern=r"\[send\] via NET/IB/\d+(?:\(\d+\))?(?:/Shared)?\s*$",
        unless="/GDRDMA",
        role="context",
        seen="data to other nodes goes through host memory: NET/IB without GPUDirect RDMA",
        source="NCCL transport/net.cc",
        sample=INFO + "Channel 01/0 : 3[3] -> 11[3] [send] via NET/IB/4",
        counter=INFO + "Channel 01/0 : 3[3] -> 11[3] [send] via NET/IB/4/GDRDMA",
    ),
    Symptom(
        "adapters-incompatible",
        pattern=r"Attempted to merge incompatible devices: \[\d+\](?P<device>[^:\s]+):\d+/\w+ and "
        r"\[\d+\](?P<other>[^:\s]+):",
        cause="wrong-nic",
        variant="kinds",
        confidence=LIKELY,
        seen="NCCL cannot use {device} and {other} as one NIC: one is InfiniBand, the other Ethernet",
        source="NCCL net_ib/init.cc",
        sample=WARN
        + "NET/IB : Attempted to merge incompatible devices: [2]mlx5_4:1/IB and [3]mlx5_5:1/RoCE. Try selecting",
        counter=INFO + "NET/IB : Made virtual device [4] name=mlx5_4+mlx5_5",
    ),
    Symptom(
        "adapters-of-two-kinds",
        pattern=(
            r"NET/IB : Remote (?P<kind>\w+) device is incompatible with the local "
            r"\[\d+\](?P<device>[^:\s]+):\d+/(?P<own>\w+)",
            r"Attempted to connect incompatible devices: \[\d+\](?P<device>[^:\s]+):\d+/(?P<own>\w+) and "
            r"\[\d+\][^:\s]+:\d+/(?P<kind>\w+)",
        ),
        cause="wrong-nic",
        variant="sides",
        seen="{device} is {own} and the other node's adapter is {kind}: they cannot talk to each other",
        versions="nccl 2.26 and later",
        source="NCCL transport/net_ib/connect.cc",
        sample=(
            WARN
            + "NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_0:1/IB. Try selecting NICs of only "
            "one link type using NCCL_IB_HCA",
            WARN + "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE. Try "
            "selecting NICs of only one link type using NCCL_IB_HCA",
        ),
        counter=INFO + "NET/IB : Using [0]mlx5_0:1/IB [RO]",
    ),
    Symptom(
        "gid-index-not-there",
        pattern=r"Call to ibv_query_gid failed(?: with error (?P<errno>[^\n]*?)(?: errno \d+)?$)?",
        cause="roce-gid-index",
        variant="index",
        seen="the adapter has no GID of the index that NCCL asked for: {errno}",
        source="NCCL misc/ibvwrap.cc (wrap_ibv_query_gid)",
        sample=WARN + "Call to ibv_query_gid failed with error Invalid argument errno 22",
        counter=WARN + "Call to ibv_query_port failed with error Invalid argument errno 22",
    ),
    Symptom(
        "gid-types-unreadable",
        pattern=r"NET/IB: (?:open|read) failed in ncclIbRoceGetVersionNum: (?P<errno>[^\n]*)",
        cause="roce-gid-index",
        variant="hidden",
        confidence=POSSIBLE,
        seen="NCCL could not read the types of the RoCE GIDs: {errno}",
        source="NCCL net_ib",
        sample=WARN + "NET/IB: open failed in ncclIbRoceGetVersionNum: No such file or directory",
        counter=INFO + "NET/IB: GID index 3 is RoCE v2",
    ),
    Symptom(
        "adapter-counts-differ",
        pattern=r"Detected mixed local Net device counts across ranks \(min (?P<least>\d+), max (?P<most>\d+)\)",
        cause="ib-link-down",
        variant="counts",
        confidence=LIKELY,
        seen="some ranks have {least} network devices and others {most}",
        versions="nccl 2.30 and later",
        source="NCCL init.cc",
        sample=WARN + "Detected mixed local Net device counts across ranks (min 7, max 8)",
        counter=INFO + "8 local Net devices",
    ),
    Symptom(
        "adapter-of-another-rank",
        pattern=(
            r"ncclNetSocketListen dev=(?P<number>\d+) ncclNetIfs=(?P<count>\d+)",
            r": invalid listen device dev=(?P<number>\d+) ncclNetIfs=(?P<count>\d+)",
        ),
        cause="ib-link-down",
        variant="counts",
        confidence=LIKELY,
        seen="NCCL was to use network device {number} here and there are {count}: another rank has more, or other ones",
        versions="nccl 2.24 and later; 2.32 words it anew; torch calls it an internal error",
        source="NCCL transport/net_socket.cc; tests/lab/torch_nccl/over_infiniband.py (port-down)",
        sample=(
            WARN + "NET/Socket : ncclNetSocketListen dev=1 ncclNetIfs=1",
            WARN + "ncclNetSocketListen : invalid listen device dev=1 ncclNetIfs=1",
        ),
        counter=INFO + "NET/Socket : Using [0]eth0:10.4.0.9<0>",
    ),
    Symptom(
        "rdma-peer-asked-again",
        pattern=r"ibv_modify_qp failed with (?P<number>\d+) (?P<errno>[^,\n]*), on dev (?P<device>[\w.-]+):\d+"
        r"[^\n]{0,300}, retrying \d+/",
        cause="roce-gid-index",
        role="context",
        confidence=POSSIBLE,
        seen="the peer of {device} could not be found by its GID ({errno}), and NCCL tried again",
        versions="nccl 2.24 and later",
        source="NCCL misc/ibvwrap.cc",
        sample=INFO
        + "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_4:1, curr state INIT, next "
        "state RTR, local GID index 3, retrying 2/35 after 200 msec of sleep",
        counter=WARN + MODIFY + "110 Connection timed out, on dev mlx5_4:1, curr state INIT",
    ),
    Symptom(
        "rdma-sizes-differ",
        pattern=r"NET/IB[^\n]{0,40} : req \d+/\d+ tag \w+ peer (?P<address>\S+) (?:posted incorrect receive "
        r"info|collective mismatch error)",
        cause="shape-mismatch",
        seen="{address} wants another size than this rank sends: sizes or NCCL's settings differ between ranks",
        source="NCCL net_ib/p2p.cc",
        sample=WARN + "NET/IB : req 0/1 tag 3 peer 10.4.0.9<40112> posted incorrect receive info: size 64 addr 7f00",
        counter=INFO + "NET/IB : Using [0]mlx5_2:1/IB [RO]",
    ),
)
