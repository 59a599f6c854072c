from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="gpu-driver-p2p-bug",
    title="the driver offers peer access that does not work",
    stages=("first collective",),
    kind="peer-access",
    blame="node",
    restart="after a fix",
    hangs_by="together",
    meaning=(
        "Some drivers report peer access on GPUs that cannot do it (GeForce cards of some releases): the first "
        "collective hangs, or moves wrong data."
    ),
    like=("p2p-acs-iommu",),
    fix=Fix(
        "Update the driver; until then export NCCL_P2P_DISABLE=1.",
        (command("nvidia-smi topo -p2p r"), command("export NCCL_P2P_DISABLE=1")),
    ),
    confirm=("With NCCL_P2P_DISABLE=1 the same job runs, and ACS and IOMMU translation are off."),
    source=("NCCL issues on GeForce RTX 4090 and driver 525/535; reports in several public threads"),
)
