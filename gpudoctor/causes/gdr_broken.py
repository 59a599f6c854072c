from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="gdr-broken",
    title="GPUDirect RDMA does not work as promised",
    stages=("first collective",),
    kind="rdma",
    blame="node",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The NIC is to read and write GPU memory and gets errors: nvidia-peermem or DMA-BUF does not fit the "
        "drivers, or ACS and an IOMMU stand between NIC and GPU."
    ),
    like=("p2p-acs-iommu",),
    fix=Fix(
        "Load nvidia-peermem in the driver's version, and turn ACS and IOMMU translation off on the switches "
        "between. NCCL_NET_GDR_LEVEL=LOC does without until then.",
        (command("gpudoctor check host network"), command("export NCCL_NET_GDR_LEVEL=LOC")),
    ),
    variants={
        "dma-buf": Fix(
            "The kernel or the NIC's driver does not serve DMA-BUF: load nvidia-peermem, or take NCCL off DMA-BUF.",
            (command("sudo modprobe nvidia-peermem"), command("export NCCL_DMABUF_ENABLE=0")),
        ),
    },
    confirm=("With NCCL_NET_GDR_LEVEL=LOC the same job runs."),
    foreseen_by=("gpu-direct-rdma-off", "peermem-not-loaded", "acs-redirects-peer-traffic", "iommu-translation-on"),
    source=("enum ibv_wc_status 4 and 10; NCCL documentation, GPUDirect RDMA"),
)
