"""What was wished and no emitted command can say: a strategy or a precision that only the script can choose.

It is refused or told, never dropped without a word.
"""

from collections.abc import Mapping

from gpudoctor.launch.plan import CannotEmit, LaunchPlan
from gpudoctor.snapshot import Snapshot

BY_THEMSELVES = ("torchrun", "lightning", "accelerate", "spawn")
"""Emitters that answer every --strategy themselves."""
IN_THE_COMMAND = ("torchrun", "lightning", "accelerate")
"""Emitters that write --precision down or tell about it themselves."""
OF_SCRIPTS = ("ddp", "fsdp", "fsdp2")
BF16_SINCE = (8, 0)
"""Compute capability whose tensor cores have bf16 (CUDA C++ Programming Guide, "Compute Capabilities")."""
OFF = "no autocast, and 32-bit weights"
DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def refuse(plan: LaunchPlan) -> None:
    """Raise `CannotEmit` for a strategy that this framework cannot be started with."""
    if not plan.strategy or plan.framework in BY_THEMSELVES or plan.strategy in OF_SCRIPTS:
        return
    if plan.strategy == plan.framework or (plan.framework == "deepspeed" and plan.strategy.startswith("deepspeed")):
        return
    raise CannotEmit(
        f"--strategy {plan.strategy}: {plan.framework} starts processes; the script itself chooses its strategy"
    )


def notes(plan: LaunchPlan) -> tuple[str, ...]:
    """Sentences about --precision."""
    found = []
    if plan.precision and plan.framework not in IN_THE_COMMAND:
        if plan.framework == "deepspeed":
            key = {"bf16": '"bf16": {"enabled": true}', "fp16": '"fp16": {"enabled": true}'}.get(plan.precision, OFF)
            how = f"DeepSpeed's configuration file: {key}"
        elif plan.precision == "fp32":
            how = f"the script: {OFF}"
        else:
            device = "xla" if plan.framework == "xla" else plan.accelerator
            how = f'the script: torch.autocast("{device}", dtype={DTYPES[plan.precision]})'
        found.append(f"The emitted lines say nothing of --precision {plan.precision}, which is for {how}.")
    if reason := plan.why.get("precision"):
        found.append(
            f"--precision bf16: {reason}; tensor cores compute bf16 from 8.0 on. The run ends with an error, or "
            "emulates bf16 and is slower than in fp32; --precision fp16 is what this GPU has."
        )
    return tuple(found)


def lacks_bf16(snapshots: Mapping[str, Snapshot]) -> str:
    """The GPU that has no bf16, "n01's Tesla V100 has compute capability 7.0"; "" where none is known to lack it."""
    for node, machine in snapshots.items():
        for gpu in machine.nvidia.gpus.value_or(()):
            capability = gpu.compute_capability.value_or(None)
            if capability is not None and capability < BF16_SINCE:
                name = gpu.name.value_or("GPU")
                return f"{node}'s {name} has compute capability {capability[0]}.{capability[1]}"
    return ""
