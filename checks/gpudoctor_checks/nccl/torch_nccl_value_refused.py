"""A variable of torch's NCCL backend holds a value that torch refuses.

Why it matters: torch reads a number with stoi and a switch by a list of words. For anything else, also for nothing,
init_process_group raises "Invalid value for environment variable", and no rank starts.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_variables import VARIABLES, number, switch
from gpudoctor.knowledge.visible.now import variable


@check("torch-nccl-value-refused", title="torch takes the values of its NCCL backend's variables")
def torch_nccl_value_refused(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    torch = machine.training.torch.value_or(None)
    if torch is not None and "nccl" not in torch.distributed_backends:
        return  # a torch without the backend never looks at them
    for known in VARIABLES:
        for name in (known.name, known.old_name):
            value = environment.get(name) if name else None
            if value is None or known.kind == "text":
                continue
            is_taken = number(value) is not None if known.kind == "number" else switch(value) is not None
            if not is_taken:
                wanted = "a whole number" if known.kind == "number" else "1, 0, true, false, yes or no"
                yield Problem(
                    severity="error",
                    summary=f"{name} is {value[:40]!r}; torch takes {wanted}",
                    meaning='init_process_group raises "Invalid value for environment variable" in every rank.',
                    fix=Fix(
                        f"Write {wanted}, or unset it ({known.purpose}).",
                        commands=(command("unset {:variable}", name),),
                    ),
                    evidence=(variable(machine, name),),
                )
