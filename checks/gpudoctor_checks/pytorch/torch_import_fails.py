"""torch cannot be imported, or the process dies when torch looks at the devices.

Why it matters: the training dies in the same place, before its first line of output. The usual causes are a library of
another version that the loader finds first (LD_LIBRARY_PATH), an installation that was interrupted or mixed from two
package managers, and a container that may not use enough memory.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_wheels import advice, interpreter, pip


@check("torch-import-fails", title="torch can be imported and asked for its devices")
def torch_import_fails(machine: Snapshot) -> Problems:
    training = machine.training
    probe = training.torch_probe.value
    if probe.outcome not in ("raised", "crashed"):
        return
    python = interpreter(machine)
    text, more = repair(machine, probe.step, probe.detail)
    alone = command(
        "{:python} -X faulthandler -c 'import torch'"
        if probe.step == "import torch"
        else "{:python} -X faulthandler -c 'import torch; torch.cuda.init()'",
        python,
    )
    yield Problem(
        severity="error",
        summary=f"{probe.step} failed: {probe.detail}",
        meaning=f"A training with {training.python.value_or('this interpreter')} fails in the same place.",
        evidence=(training.torch_probe, training.python, training.torch_files),
        fix=Fix(text, commands=(alone, *more)),
    )


def repair(machine: Snapshot, step: str, detail: str) -> tuple[str, tuple[Command, ...]]:
    """What to try for this exception or signal."""
    python = interpreter(machine)
    libraries = {"LD_LIBRARY_PATH", "LD_PRELOAD"} & set(machine.environment.value_or({}))
    if libraries and ("undefined symbol" in detail or ".so" in detail or "version `" in detail):
        text = f"A library of another version comes first: try without {' and '.join(sorted(libraries))}."
        return text, (
            command(
                "env {:arguments} {:python} -c 'import torch'",
                [each for name in sorted(libraries) for each in ("-u", name)],
                python,
            ),
        )
    if "SIGKILL" in detail:
        text = "The kernel ended it, most likely for lack of memory: raise the memory limit of the job or container."
        return text, (command("sudo dmesg -T | grep -i 'killed process'"),)
    if "SIGILL" in detail:
        text = "This build of torch uses instructions that the CPU lacks (AVX2): use another machine, or build torch."
        return text, (command("grep -m1 flags /proc/cpuinfo"),)
    if "No module named" in detail:
        return "A package that torch needs is not installed: let pip say which.", (pip(machine, "check"),)
    if step.startswith("torch.cuda"):
        return (
            "It fails inside the CUDA driver: see which libcuda is found first, and what the kernel says of the GPUs.",
            (
                command("ldconfig -p | grep libcuda.so.1"),
                command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
            ),
        )
    sentence, lines = advice(machine)
    return f"Read the whole message, then install torch anew. {sentence if lines else ''}".strip(), lines
