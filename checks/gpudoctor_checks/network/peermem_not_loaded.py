"""Neither the peer memory module nor DMA-BUF lets the RDMA devices reach GPU memory.

Why it matters: NCCL uses GPUDirect RDMA through nvidia_peermem, or through DMA-BUF where driver, kernel and NIC have
it. With neither, every byte between nodes is copied through the host's memory, at a fraction of the bandwidth, and
nothing but NCCL_DEBUG=INFO says so. (NCCL src/transport/net_ib/gdr.cc and init.cc: nv_mem in all versions,
nvidia_peermem since 2.23.4, DMA-BUF since 2.13.4.)
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import in_container
from gpudoctor.knowledge.nccl.settings import dotted, nccl_version
from gpudoctor.knowledge.network.gpu_direct import MODULE_SINCE, verdicts


@check("peermem-not-loaded", title="RDMA devices can reach GPU memory")
def peermem_not_loaded(machine: Snapshot) -> Problems:
    judged = [verdict for verdict in verdicts(machine) if verdict.condition == "module"]
    if not judged:
        return
    version = nccl_version(machine)
    unseen = [
        name
        for name, since in MODULE_SINCE.items()
        if getattr(machine.network.gpu_direct.value, name) and version < since
    ]
    text = "Load the module, now and at boot; NVIDIA's driver brings it along, built against the installed RDMA stack."
    if unseen:
        text = f"NCCL {dotted(version)} does not look for {unseen[0]}; a newer one does. " + text
    if in_container(machine):
        text = "Do this on the host, not in the container. " + text
    yield Problem(
        severity="warning",
        summary=f"NCCL cannot use GPUDirect RDMA: {judged[0].reason}",
        meaning="What GPUs send to other nodes goes through the host's memory, at a fraction of the bandwidth.",
        evidence=(machine.network.gpu_direct, machine.cuda.visible),
        fix=Fix.of(
            text,
            command("sudo modprobe nvidia-peermem"),
            command("echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf"),
        ),
        gpus=tuple(sorted({verdict.gpu for verdict in judged})),
    )
