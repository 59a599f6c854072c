"""A GPU has an RDMA device near it, and NCCL would not let the two talk directly.

Why it matters: without GPUDirect RDMA every byte between nodes goes through the host's memory, which halves the
bandwidth of collectives or worse. NCCL wants the two close (NCCL_NET_GDR_LEVEL, by default below one PCIe switch tree:
PXB) and says which it found at NCCL_DEBUG=INFO only ("GPU Direct RDMA Disabled"). GPUs that are far from every device
borrow that of another GPU over NVLink (PXN), which is as good. (NCCL src/graph/paths.cc, ncclTopoCheckGdr.)
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import gpu_labels
from gpudoctor.knowledge.nccl.settings import effective, evidence
from gpudoctor.knowledge.network.gpu_direct import GdrVerdict, level, verdicts
from gpudoctor.knowledge.network.topology import nvlinks_between
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import NotRead, missing

NAME = "NCCL_NET_GDR_LEVEL"


@check("gpu-direct-rdma-off", title="GPUs and the RDMA devices near them talk directly")
def gpu_direct_rdma_off(machine: Snapshot) -> Problems:
    judged = verdicts(machine)
    gpus = {gpu.index: gpu for gpu in machine.nvidia.gpus.value}
    served = {verdict.gpu for verdict in judged if verdict.used}
    lacking: list[Gpu] = []
    for index, gpu in gpus.items():
        own = [verdict for verdict in judged if verdict.gpu == index]
        if index in served or not own or any(nvlinks_between(machine, gpu, gpus[other]) for other in served):
            continue
        if all(verdict.used is False and verdict.condition == "distance" for verdict in own):
            lacking.append(gpu)
    if lacking:
        yield _problem(machine, lacking, judged)
    if not lacking and not served:
        _say_unknown(judged)


def _problem(machine: Snapshot, lacking: list[Gpu], gdr_verdicts: tuple[GdrVerdict, ...]) -> Problem:
    allowed = level(machine)
    paths = sorted({verdict.path for verdict in gdr_verdicts if verdict.gpu == lacking[0].index})
    lowered = allowed.why.startswith(NAME) and not allowed.allows("PXB")
    setting = effective(machine).get(NAME)
    if lowered and setting is not None:
        fix = Fix(
            f"Take {NAME} back; NCCL's default is PXB."
            + ("" if setting.origin == "environment" else f" It stands in {setting.origin}."),
            commands=(command("unset {:variable}", NAME),),
        )
    else:
        fix = Fix(
            "Compare the bandwidth with and without this setting, and keep the better: through the CPU it is faster on "
            "some machines, slower on others. It serves virtual machines that hide their PCIe switches.",
            commands=(command("export {:variable}={:name}", NAME, "SYS" if paths == ["SYS"] else "PHB"),),
        )
    return Problem(
        # How a machine is wired is its maker's choice; a setting is the user's.
        severity="warning" if lowered else "info",
        summary=f"NCCL does not use GPUDirect RDMA for {gpu_labels.labels(lacking)}: the RDMA devices are "
        f"{listed(paths)} away, and {allowed.why} allows {allowed.name}",
        meaning="What these GPUs send to other nodes goes through the host's memory, at a fraction of the bandwidth.",
        evidence=evidence(machine, machine.network.pci_paths, machine.network.gpu_direct),
        fix=fix,
        gpus=tuple(gpu.index for gpu in lacking),
    )


def _say_unknown(gdr_verdicts: tuple[GdrVerdict, ...]) -> None:
    """Raises `NotRead` when nobody could tell whether any GPU is served."""
    for verdict in gdr_verdicts:
        if verdict.used is None:
            raise NotRead(missing(f"GPU {verdict.gpu} and {verdict.device}", verdict.reason))
