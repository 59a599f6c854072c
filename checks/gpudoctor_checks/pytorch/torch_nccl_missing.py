"""torch is built without NCCL, on a machine with several GPUs.

Why it matters: DistributedDataParallel and FSDP with `backend="nccl"` stop with "Distributed package doesn't have NCCL
built in"; with gloo every gradient travels through the CPU.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.pytorch.torch_wheels import advice


@check("torch-nccl-missing", title="torch has NCCL where there are several GPUs", follows=("torch-cpu-only",))
def torch_nccl_missing(machine: Snapshot) -> Problems:
    torch, gpus, system = machine.training.torch, machine.nvidia.gpus, machine.host.system
    facts = torch.value
    if len(gpus.value) < 2 or facts.cuda_version is None or "nccl" in facts.distributed_backends:
        return
    if system.value == "Windows":
        return  # NCCL is made for Linux; torch on Windows never has it
    text, lines = advice(machine)
    backends = ", ".join(facts.distributed_backends) or "none"
    yield Problem(
        severity="error",
        summary=f"torch {facts.version} has no NCCL (distributed backends: {backends}); this machine has "
        f"{len(gpus.value)} GPUs",
        meaning='Training on several GPUs stops: "Distributed package doesn\'t have NCCL built in".',
        evidence=(torch, gpus),
        fix=Fix(f"The wheels of pytorch.org have NCCL. {text}", commands=lines),
    )
