"""The training interpreter has no torch.

Why it matters: a training started with this interpreter ends with "No module named 'torch'". Often torch is installed,
but in another environment than the one that is active in this shell.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_wheels import advice, interpreter, pip


@check("torch-missing", title="torch is installed in the training interpreter")
def torch_missing(machine: Snapshot) -> Problems:
    training = machine.training
    files = training.torch_files
    if files.missing_kind != "absent" or training.torch_probe.missing_kind == "not-asked":
        # With --no-torch nobody asked; and a torch that is there but unreadable is no missing one.
        if training.torch_probe.missing_kind == "not-asked":
            _ = training.torch_probe.value
        _ = files.value
        return
    has_gpu = bool(machine.nvidia.gpus.value_or(()))
    python = training.python.value_or("the training interpreter")
    chosen = f" (chosen by {training.chosen_by.value})" if training.chosen_by.is_read else ""
    text = "Activate the environment that has torch, name its interpreter with --python, or install torch here."
    lines: tuple[Command, ...] = (pip(machine, "install", "torch"),)
    if has_gpu:
        sentence, lines = advice(machine)
        text += "" if lines else f" {sentence}"
    yield Problem(
        severity="error",
        summary=f"{python}{chosen} has no torch",
        meaning="A training started with this interpreter ends at `import torch`.",
        evidence=(training.python, files),
        fix=Fix(text, commands=(command("{:python} -m site", interpreter(machine)), *lines)),
    )
