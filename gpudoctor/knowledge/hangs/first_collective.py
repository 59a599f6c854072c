"""What goes wrong when data moves for the first time: peer access, RDMA, kernels, and NCCL itself."""

from gpudoctor.command import command
from gpudoctor.knowledge.hangs.cause import HangCause

FIRST_COLLECTIVE: tuple[HangCause, ...] = (
    HangCause(
        name="p2p-acs-iommu",
        title="peer access between GPUs is broken by ACS or the IOMMU",
        stages=("first collective",),
        meaning="PCIe access control or IOMMU translation sends peer traffic up to the CPU or nowhere. Communicators "
        "are made, and the first collective spins on all GPUs for ever.",
        fix="Turn ACS and IOMMU translation off on bare metal (BIOS, intel_iommu=off or iommu=pt). Until then "
        "NCCL_P2P_DISABLE=1 goes through host memory, slower.",
        commands=(command("gpudoctor check host driver"), command("export NCCL_P2P_DISABLE=1")),
        confirm="With NCCL_P2P_DISABLE=1 the same job runs; gpudoctor check host names ACS or IOMMU.",
        source="NCCL documentation, troubleshooting (GPU-to-GPU communication, ACS)",
    ),
    HangCause(
        name="gpu-driver-p2p-bug",
        title="the driver offers peer access that does not work",
        stages=("first collective",),
        meaning="Some drivers report peer access on GPUs that cannot do it (GeForce cards of some releases): the first "
        "collective hangs, or moves wrong data.",
        fix="Update the driver; until then export NCCL_P2P_DISABLE=1.",
        commands=(command("nvidia-smi topo -p2p r"), command("export NCCL_P2P_DISABLE=1")),
        confirm="With NCCL_P2P_DISABLE=1 the same job runs, and ACS and IOMMU translation are off.",
        source="NCCL issues on GeForce RTX 4090 and driver 525/535; reports in several public threads",
    ),
    HangCause(
        name="gdr-broken",
        title="GPUDirect RDMA does not work as promised",
        stages=("first collective",),
        meaning="The NIC is to read and write GPU memory and gets errors: nvidia-peermem or DMA-BUF does not fit the "
        "drivers, or ACS and an IOMMU stand between NIC and GPU.",
        fix="Load nvidia-peermem in the driver's version, and turn ACS and IOMMU translation off on the switches "
        "between. NCCL_NET_GDR_LEVEL=LOC does without until then.",
        commands=(command("gpudoctor check host network"), command("export NCCL_NET_GDR_LEVEL=LOC")),
        confirm="With NCCL_NET_GDR_LEVEL=LOC the same job runs.",
        source="enum ibv_wc_status 4 and 10; NCCL documentation, GPUDirect RDMA",
    ),
    HangCause(
        name="roce-gid-index",
        title="RoCE uses a GID that the peer cannot answer",
        stages=("first collective",),
        meaning="The chosen GID is empty, of RoCE version 1, or of an IPv6 address that is not routed: connections are "
        "refused, or the first data is never acknowledged.",
        fix="Take NCCL_IB_GID_INDEX out with NCCL 2.21 and later, which find it; with older ones name the index of "
        "RoCE v2 over IPv4.",
        commands=(command("unset NCCL_IB_GID_INDEX"), command("gpudoctor check network")),
        confirm="Compare the index of the log with /sys/class/infiniband/*/ports/*/gid_attrs/types: it is RoCE v2, and "
        "its address is the port's IPv4.",
        source="NCCL documentation of NCCL_IB_GID_INDEX; nccl#426",
    ),
    HangCause(
        name="mtu-mismatch",
        title="the ports of the path have different MTUs",
        stages=("first collective",),
        meaning="Small messages pass, and large ones vanish or are refused, since one port sends packets that another "
        "does not take.",
        fix="Set the same MTU on all hosts and on the switches between.",
        commands=(command("ip -details link show"), command("ibv_devinfo -v")),
        confirm="Send a packet of the full size that may not be divided: ping -M do -s 8972 to a peer for MTU 9000.",
        source="NCCL troubleshooting; enum ibv_wc_status",
    ),
    HangCause(
        name="ib-link-down",
        title="an RDMA port is down or loses its link",
        stages=("first collective", "training"),
        meaning="Packets over this port are not acknowledged. Retries run out, or the job stands until they do. A port "
        "that stays in INIT has no subnet manager.",
        fix="Exchange cable or optics, or leave the port out of NCCL_IB_HCA; start the subnet manager where the state "
        "is INIT.",
        commands=(command("rdma link show"), command("gpudoctor check network")),
        confirm="Look at state and counters of the port twice: it is not ACTIVE, or link_downed grows.",
        source="InfiniBand port states; NCCL net_ib (async events); nccl#905",
    ),
    HangCause(
        name="rail-cross-nic",
        title="NICs of different rails try to talk to each other",
        stages=("first collective",),
        meaning="On rail-optimised networks without a common spine, a NIC reaches only the same NIC of other nodes. "
        "NCCL that crosses rails makes connections that time out.",
        fix="Keep NCCL on one rail, and name the compute ports only.",
        commands=(command("export NCCL_CROSS_NIC=0"),),
        confirm="A test on one port per node (NCCL_IB_HCA with one name) works, and with all ports it fails.",
        source="NCCL documentation of NCCL_CROSS_NIC; nccl-tests#227",
    ),
    HangCause(
        name="launch-blocking-env",
        title="CUDA_LAUNCH_BLOCKING is set",
        stages=("first collective", "training"),
        meaning="Every kernel launch then waits for its end. A collective waits for kernels that the same thread would "
        "have to launch later, and never ends.",
        fix="Take it out.",
        commands=(command("unset CUDA_LAUNCH_BLOCKING"),),
        confirm="Without the variable the same job runs.",
        source="CUDA programming guide; NCCL documentation (group calls)",
    ),
    HangCause(
        name="cuda-lazy-loading",
        title="a kernel is loaded while another communicator spins",
        stages=("first collective",),
        meaning="CUDA loads a kernel at its first use, and may wait for the GPU to be idle. A running collective that "
        "waits for this rank is never idle.",
        fix="Load kernels at the start, or run each operation once before the communicators are used together.",
        commands=(command("export CUDA_MODULE_LOADING=EAGER"),),
        confirm="With CUDA_MODULE_LOADING=EAGER the same job runs.",
        source="CUDA programming guide, lazy loading (concurrent execution)",
    ),
    HangCause(
        name="nccl-bug",
        title="NCCL itself fails in this release",
        stages=("communicator", "first collective", "training"),
        meaning="All ranks launched the same collective and it does not end; known releases do so on certain machines "
        "or layouts.",
        fix="Install a newer NCCL beside torch, and report what remains.",
        commands=(command("pip install --upgrade nvidia-nccl-cu12"),),
        confirm="Run the same job with another NCCL: by pip, or by LD_PRELOAD of its libnccl.so.2.",
        source="NCCL release notes; nccl#2385, marin#7344",
    ),
)
