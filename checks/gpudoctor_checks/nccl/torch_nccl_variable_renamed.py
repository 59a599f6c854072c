"""A variable of torch's NCCL backend is set under its old name, or has no use any more.

Why it matters: torch 2.2 put TORCH_ before these names, because NCCL itself never read them. The old ones still work,
with a warning for every rank; where both are set, the new one wins.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.repair import set_to
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, Setting
from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.pytorch.torch_variables import VARIABLES, TorchVariable
from gpudoctor.knowledge.visible.now import variable

RENAMED_SINCE = (2, 2)


@check("torch-nccl-variable-renamed", title="Variables of torch's NCCL backend have their present names")
def torch_nccl_variable_renamed(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    for known in VARIABLES:
        if known.default_since and known.name in environment:
            yield from _without_use(machine, known)
        old = known.old_name
        if not old or old not in environment:
            continue
        version = machine.training.torch_files.value.version
        if parsed(version) < RENAMED_SINCE:
            continue
        both = known.name in environment
        yield Problem(
            severity="info",
            summary=f"{old} is called {known.name} since torch 2.2; this is torch {version}",
            meaning=f"{known.name}={environment[known.name]} holds, the old one is passed over."
            if both
            else "It still works, with a warning for every rank.",
            fix=Fix(
                f"Set {known.name} in its place.",
                commands=(command("unset {:variable}", old),)
                if both
                else set_to(Setting(old, environment[old], ENVIRONMENT), environment[old], known.name),
            ),
            evidence=(variable(machine, old), machine.training.torch_files),
        )


def _without_use(machine: Snapshot, known: TorchVariable) -> Problems:
    version = machine.training.torch_files.value.version
    if parsed(version) >= known.default_since:
        yield Problem(
            severity="info",
            summary=f"{known.name} is set; torch {version} does by default what it asked for",
            meaning="It has no effect, and torch warns of it.",
            fix=Fix("Take it out.", commands=(command("unset {:variable}", known.name),)),
            evidence=(variable(machine, known.name), machine.training.torch_files),
        )
