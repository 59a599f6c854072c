from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="p2p-acs-iommu",
    title="peer access between GPUs is broken by ACS or the IOMMU",
    stages=("first collective",),
    kind="peer-access",
    blame="node",
    restart="after a fix",
    hangs_by="together",
    meaning=(
        "PCIe access control or IOMMU translation sends peer traffic up to the CPU or nowhere. Communicators "
        "are made, and the first collective spins on all GPUs for ever."
    ),
    like=("gpu-driver-p2p-bug",),
    fix=Fix(
        "Turn ACS and IOMMU translation off on bare metal (BIOS, intel_iommu=off or iommu=pt). Until then "
        "NCCL_P2P_DISABLE=1 goes through host memory, slower.",
        (command("gpudoctor check host driver"), command("export NCCL_P2P_DISABLE=1")),
    ),
    variants={
        "zeros": Fix(
            "What one GPU sent never arrived in the other. Try without peer access first; where that helps, turn ACS "
            "and IOMMU translation off on bare metal, or update the driver.",
            (command("export NCCL_P2P_DISABLE=1"), command("gpudoctor check host driver")),
        ),
        "refused": Fix(
            "The driver promised peer access and refused it: go through host memory (NCCL_P2P_DISABLE=1; where NCCL's "
            "line is of transport/shm.cc, NCCL_CUMEM_HOST_ENABLE=0 too), turn IOMMU translation off on bare metal, and "
            "start containers of one node with one IPC namespace (docker: --ipc=host; Kubernetes: hostIPC: true).",
            (command("gpudoctor check host driver"), command("export NCCL_CUMEM_HOST_ENABLE=0")),
        ),
        "not-mapped": Fix(
            "A rank could not map the memory of another rank's GPU: give all ranks of a node the same "
            "NCCL_CUMEM_ENABLE, start containers of one node with --ipc=host and --pid=host, and else go through host "
            "memory.",
            (command("gpudoctor check host driver"), command("export NCCL_P2P_DISABLE=1")),
        ),
    },
    confirm=("With NCCL_P2P_DISABLE=1 the same job runs; gpudoctor check host names ACS or IOMMU."),
    foreseen_by=("acs-redirects-peer-traffic", "iommu-translation-on"),
    source=("NCCL documentation, troubleshooting (GPU-to-GPU communication, ACS)"),
)
