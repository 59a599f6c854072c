"""LaunchPlan -> what to paste, by the launcher's own `write`; what the plan wishes and cannot be said is refused or
told, never dropped without a word.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from gpudoctor.launch.plan import CannotEmit, Emission, LaunchPlan
from gpudoctor.launcher import registry
from gpudoctor.snapshot import Snapshot

OF_SCRIPTS = ("ddp", "fsdp", "fsdp2")
BF16_SINCE = (8, 0)
"""Compute capability whose tensor cores have bf16 (CUDA C++ Programming Guide, "Compute Capabilities")."""
OFF = "no autocast, and 32-bit weights"
DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def emission(plan: LaunchPlan) -> Emission:
    """What to paste for the plan's framework. Raises `CannotEmit`, and `Unquotable` of `launch.words`."""
    launcher = registry.frameworks()[plan.framework]
    assert launcher.write is not None
    if plan.elastic and launcher.fixed:
        elastic = " and ".join(name for name, framework in registry.frameworks().items() if not framework.fixed)
        raise CannotEmit(f"--elastic: {launcher.fixed}; --framework {elastic} are elastic")
    counts = {node.processes for node in plan.nodes}
    if len(counts) > 1 and launcher.even:
        listed = ", ".join(f"{node.name} {node.processes}" for node in plan.nodes)
        raise CannotEmit(
            f"nodes with {min(counts)} to {max(counts)} processes ({listed}), and {launcher.even}: "
            f"--gpus-per-node {min(counts)} uses as many on each, and --framework torchrun takes them as they are"
        )
    of_scripts = plan.strategy in ("", *OF_SCRIPTS, plan.framework) or plan.strategy.startswith(f"{plan.framework}_")
    if not of_scripts and not launcher.any_strategy:
        raise CannotEmit(
            f"--strategy {plan.strategy}: {plan.framework} starts processes; the script itself chooses its strategy"
        )
    written = launcher.write(plan)
    return replace(written, notes=(*written.notes, *notes(plan)))


def notes(plan: LaunchPlan) -> tuple[str, ...]:
    """Sentences about --precision."""
    sentences = []
    launcher = registry.frameworks()[plan.framework]
    if plan.precision and not launcher.any_strategy:
        scaler = " and a torch.amp.GradScaler" if plan.precision == "fp16" else ""
        autocast = f'torch.autocast("{plan.accelerator}", dtype={DTYPES.get(plan.precision)}){scaler}'
        how = launcher.precisions.get(plan.precision) or f"the script: {OFF if plan.precision == 'fp32' else autocast}"
        sentences.append(f"The emitted lines say nothing of --precision {plan.precision}, which is for {how}.")
    if reason := plan.why.get("precision"):
        sentences.append(
            f"--precision bf16: {reason}; tensor cores compute bf16 from 8.0 on. The run ends with an error, or "
            "emulates bf16 and is slower than in fp32; --precision fp16 is what this GPU has."
        )
    return tuple(sentences)


def lacks_bf16(snapshots: Mapping[str, Snapshot]) -> str:
    """The GPU that has no bf16, "n01's Tesla V100 has compute capability 7.0"; "" where none is known to lack it."""
    for node, machine in snapshots.items():
        for gpu in machine.nvidia.gpus.value_or(()):
            capability = gpu.compute_capability.value_or(None)
            if capability is not None and capability < BF16_SINCE:
                name = gpu.name.value_or("GPU")
                return f"{node}'s {name} has compute capability {capability[0]}.{capability[1]}"
    return ""
