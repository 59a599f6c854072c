"""Symptoms of RDMA: devices that do not open, connections, completions with an error, GPUDirect.

Texts as in NCCL's transport/net_ib, misc/ibvwrap.cc and graph/topo.cc from 2.18.3 to 2.30.7. A completion's status is
the number of enum ibv_wc_status; before 2.20 it is worded "with error N", up to 2.27 "status=N", since 2.28.9
"status=NAME(N)". The HINT lines of 2.30 are not read: it prints all of them, whatever the cause.
"""

from gpudoctor.command import command
from gpudoctor.knowledge.nccl.symptom import Rule

PEER = r"completion from peer (?P<address>\S+) with (?:error |status=)(?:\w+\()?"


def _completion(*statuses: int) -> tuple[str, ...]:
    numbers = "|".join(map(str, statuses))
    # The HCA stands at the end of the line, in releases that name it.
    return (
        PEER + rf"(?P<status>{numbers})\b[^\n]* hca (?P<device>\S+)",
        PEER + rf"(?P<status>{numbers})\b",
    )


NEEDLES = ("Got completion from peer",)

RDMA: tuple[Rule, ...] = (
    Rule(
        "rdma-retries-exceeded",
        *_completion(12),
        needles=NEEDLES,
        seen="RDMA packets to {address} were not acknowledged (status {status}, retries exceeded)",
        cause="The way between two ports is broken: cable or port down, wrong GID, no route between rails, packets "
        "lost without flow control, or UDP port 4791 filtered.",
        fix="Look at the port's error counters and its GID on both ends; on rails without a common spine, keep NCCL on "
        "one rail (NCCL_CROSS_NIC=0).",
        commands=(command("gpudoctor check network"), command("rdma statistic show")),
        source="enum ibv_wc_status; nccl#426, nccl#902, nccl#1664, nccl#1814",
    ),
    Rule(
        "rdma-memory-refused",
        *_completion(4, 10),
        needles=NEEDLES,
        seen="an RDMA access to GPU memory failed (status {status}) with {address}",
        cause="GPUDirect RDMA does not work as promised: ACS or an IOMMU in the way, or drivers that do not fit "
        "together.",
        fix="Turn ACS and IOMMU translation off on bare metal. Without GPUDirect the run is slower and tells whether "
        "it is the cause.",
        commands=(command("gpudoctor check host network"), command("export NCCL_NET_GDR_LEVEL=LOC")),
        source="enum ibv_wc_status; NCCL net_ib/p2p.cc of 2.30.7",
    ),
    Rule(
        "rdma-receiver-not-ready",
        *_completion(13),
        needles=NEEDLES,
        seen="the receiver at {address} was not ready (status {status})",
        cause="The peer is very slow, stopped or dead.",
        fix="Look at the log and the stack of the peer.",
        weight="consequence",
        source="enum ibv_wc_status",
    ),
    Rule(
        "rdma-flushed",
        *_completion(5),
        needles=NEEDLES,
        seen="work to {address} was flushed (status {status}) because its queue had failed",
        cause="The queue went into its error state before; this says nothing about why.",
        fix="Look for the first completion with a status other than 5, on this node or its peer.",
        weight="consequence",
        source="enum ibv_wc_status",
    ),
    Rule(
        "no-rdma-device",
        needles=("NET/IB : No device found", "NET/IB: No device found"),
        seen="NCCL found no RDMA device",
        cause="No port is ACTIVE, NCCL_IB_HCA matches none, or the container lacks /dev/infiniband. On a node without "
        "RDMA this is normal.",
        fix="See which ports there are, and hand /dev/infiniband to the container.",
        commands=(command("gpudoctor check network nccl"), command("ls -l /dev/infiniband /sys/class/infiniband")),
        weight="note",
        source="NCCL net_ib/init.cc; nccl#952, nccl#941",
    ),
    Rule(
        "rdma-device-not-opened",
        r"NET/IB : Unable to open device (?P<device>\S+)",
        r"Call to ibv_open_device failed",
        needles=("Unable to open device", "Call to ibv_open_device failed"),
        seen="the RDMA device {device} could not be opened",
        cause="This process may not open /dev/infiniband/uverbs*: permissions, or the container's device list.",
        fix="Hand the devices to the container (docker's --device=/dev/infiniband), and give the user access.",
        commands=(command("ls -l /dev/infiniband"),),
        source="NCCL net_ib/init.cc; nccl#451",
    ),
    Rule(
        "verbs-library-missing",
        r"Failed to open (?P<library>libibverbs\.so[.\d]*)",
        needles=("Failed to open libibverbs",),
        seen="{library} could not be loaded",
        cause="rdma-core is not in the image, so NCCL cannot use RDMA and takes TCP.",
        fix="Install rdma-core where the ranks run; a node without RDMA does not need it.",
        commands=(command("sudo apt-get install --yes libibverbs1 ibverbs-providers"),),
        weight="note",
        source="NCCL misc/ibvsymbols.cc",
    ),
    Rule(
        "rdma-peer-unreachable",
        r"ibv_modify_qp failed with error (?P<errno>Connection timed out|No route to host)",
        r"ibv_modify_qp failed with (?:110|113) (?P<errno>[^,\n]*),[^\n]*local GID index (?P<gid>\d+)",
        r"ibv_modify_qp failed with (?:110|113) (?P<errno>[^,\n]*)",
        needles=("ibv_modify_qp failed",),
        seen="an RDMA connection could not be made: {errno}",
        cause="The peer's GID cannot be reached: another rail, subnet or VLAN, or no answer to ARP. A storage or "
        "management port that NCCL takes as well does this too.",
        fix="Name the ports of the compute fabric in NCCL_IB_HCA; on rails without a common spine set "
        "NCCL_CROSS_NIC=0.",
        commands=(command("gpudoctor env"),),
        versions="2.23 and older name no number; since 2.24 the number comes first",
        source="NCCL misc/ibvwrap.cc; nccl-tests#227, nccl#2013",
    ),
    Rule(
        "rdma-gid-refused",
        r"ibv_modify_qp failed with error (?P<errno>Invalid argument)",
        r"ibv_modify_qp failed with 22 (?P<errno>[^,\n]*),[^\n]*local GID index (?P<gid>\d+)",
        r"ibv_modify_qp failed with 22 (?P<errno>[^,\n]*)",
        needles=("ibv_modify_qp failed",),
        seen="an RDMA connection was refused by the local device: {errno}",
        cause="The GID index is empty or of another RoCE version than the peer's, or the MTUs do not fit.",
        fix="Take NCCL_IB_GID_INDEX out: NCCL 2.21 and later find the index by themselves.",
        commands=(command("unset NCCL_IB_GID_INDEX"), command("gpudoctor check network")),
        source="NCCL misc/ibvwrap.cc, its documentation of NCCL_IB_GID_INDEX",
    ),
    Rule(
        "rdma-netdev-gone",
        r"ibv_modify_qp failed with error (?P<errno>No such device|Network is unreachable)",
        r"ibv_modify_qp failed with (?:19|101) (?P<errno>[^,\n]*)",
        needles=("ibv_modify_qp failed",),
        seen="the network interface behind an RDMA port cannot be used: {errno}",
        cause="The interface that the GID belongs to is down, or in another network namespace (a pod's).",
        fix="Use the host's network in the container, or a plugin that moves interface and device together.",
        commands=(command("ip -brief address"), command("rdma link show")),
        source="NCCL misc/ibvwrap.cc; nccl#925, nccl-tests#185",
    ),
    Rule(
        "locked-memory-limit",
        r"(?P<call>ibv_reg_mr\w*)(?:\(\))? failed with error (?P<errno>Cannot allocate memory)",
        r"Call to (?P<call>ibv_create_(?:qp|cq)) failed",
        r"(?P<call>ibv_reg_mr\w*|ibv_create_(?:qp|cq)) failed with (?:error )?(?P<errno>[^\n]*Cannot allocate memory)",
        needles=("ibv_reg_mr", "ibv_create_qp", "ibv_create_cq"),
        seen="{call} failed: memory could not be locked for RDMA",
        cause="The limit of locked memory (ulimit -l) is too low.",
        fix="Lift the limit for the ranks: docker's --ulimit memlock=-1, SLURM's, or /etc/security/limits.conf.",
        commands=(command("ulimit -l unlimited"),),
        source="NCCL misc/ibvwrap.cc; nccl-tests#206",
    ),
    Rule(
        "dma-buf-refused",
        r"ibv_reg_dmabuf_mr failed[^\n]*(?P<errno>Operation not supported|Protocol not supported)",
        needles=("ibv_reg_dmabuf_mr",),
        seen="GPU memory could not be registered by DMA-BUF: {errno}",
        cause="The kernel or the NIC's driver does not serve DMA-BUF.",
        fix="Load nvidia-peermem, or take NCCL off DMA-BUF.",
        commands=(command("sudo modprobe nvidia-peermem"), command("export NCCL_DMABUF_ENABLE=0")),
        source="nccl#778",
    ),
    Rule(
        "rdma-port-event",
        r"NET/IB : (?P<device>[^\s:]+):(?P<port>\d+) (?:async fatal|Got async)[^:\n]*: (?P<event>[^\n]*)",
        needles=("async fatal event", "Got async"),
        seen="{device} port {port} reported {event}",
        cause="The port lost its link, or the device failed, while the job was running.",
        fix="Look at the cable and the optics of this port, and at its counters.",
        commands=(command("gpudoctor check network"), command("rdma statistic show")),
        source="NCCL net_ib",
    ),
    Rule(
        "gpu-direct-off-for-adapter",
        r"GPU Direct RDMA Disabled for HCA (?P<index>\d+) '(?P<device>[^'\n]*)'",
        needles=("GPU Direct RDMA Disabled for HCA",),
        seen="NCCL does not use GPUDirect RDMA with {device}",
        cause="nvidia-peermem is not loaded, and DMA-BUF is not there in its place.",
        fix="Load the module, and have it loaded at boot.",
        commands=(command("sudo modprobe nvidia-peermem"),),
        weight="note",
        source="NCCL graph/topo.cc; nccl#1510, nccl#1537, nccl#1939",
    ),
    Rule(
        "gpu-direct-off-for-gpu",
        r"GPU Direct RDMA Disabled for GPU (?P<gpu>\w+) / HCA (?P<hca>\w+) \(distance (?P<distance>\d+)",
        r"GPU Direct RDMA Disabled for (?P<gpu>[^\n]*)",
        needles=("GPU Direct RDMA Disabled for GPU",),
        seen="NCCL does not use GPUDirect RDMA between GPU {gpu} and a NIC: they are too far apart",
        cause="The NIC is not below the same PCIe switch as the GPU. With another NIC near it this is normal.",
        fix="Put NIC and GPU below one switch, or measure with a wider NCCL_NET_GDR_LEVEL.",
        commands=(
            command("gpudoctor topology"),
            command("gpudoctor nccl-test --compare NCCL_NET_GDR_LEVEL=PXB,PHB,SYS"),
        ),
        weight="note",
        versions="2.29.7 and older; later releases say it in TRACE builds only",
        source="NCCL graph/paths.cc",
    ),
    Rule(
        "network-without-gpu-direct",
        r"\[send\] via NET/IB/\d+(?:\(\d+\))?(?:/Shared)?\s*$",
        needles=("[send] via NET/IB/",),
        unless="/GDRDMA",
        seen="data to other nodes goes through host memory: NET/IB without GPUDirect RDMA",
        cause="The module is missing, the GPU does not offer it, or GPU and NIC are too far apart.",
        fix="See which condition fails.",
        commands=(command("gpudoctor check network"),),
        weight="note",
        source="NCCL transport/net.cc",
    ),
    Rule(
        "adapters-incompatible",
        r"Attempted to merge incompatible devices: \[\d+\](?P<device>[^:\s]+):\d+/\w+ and \[\d+\](?P<other>[^:\s]+):",
        needles=("Attempted to merge incompatible devices",),
        seen="NCCL cannot use {device} and {other} as one NIC: one is InfiniBand, the other Ethernet",
        cause="A card with ports of both kinds, both ACTIVE.",
        fix="Name the ports of one kind in NCCL_IB_HCA.",
        commands=(command("gpudoctor env"),),
        source="NCCL net_ib/init.cc",
    ),
    Rule(
        "gid-types-unreadable",
        r"NET/IB: (?:open|read) failed in ncclIbRoceGetVersionNum: (?P<errno>[^\n]*)",
        needles=("failed in ncclIbRoceGetVersionNum",),
        seen="NCCL could not read the types of the RoCE GIDs: {errno}",
        cause="The container hides /sys/class/infiniband/*/ports/*/gid_attrs.",
        fix="Mount /sys into the container (docker's --volume /sys:/sys:ro), or give the index by hand.",
        commands=(command("gpudoctor env"),),
        source="NCCL net_ib",
    ),
    Rule(
        "adapter-counts-differ",
        r"Detected mixed local Net device counts across ranks \(min (?P<least>\d+), max (?P<most>\d+)\)",
        needles=("Detected mixed local Net device counts",),
        seen="some ranks have {least} network devices and others {most}",
        cause="A node has lost a port, or hides it from the container.",
        fix="Find the node whose port is not ACTIVE.",
        commands=(command("gpudoctor check network"),),
        versions="2.30 and later",
        source="NCCL init.cc",
    ),
)
