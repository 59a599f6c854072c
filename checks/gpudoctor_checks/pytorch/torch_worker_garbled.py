"""The interpreter ends quietly while torch is imported, or answers with something else.

Why it matters: something that runs inside the training interpreter (sitecustomize, a package that torch imports, a
wrapper script) ends the process with success before torch was examined. A training would stop there without an error.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter


@check("torch-worker-garbled", title="The interpreter answers all that torch was asked")
def torch_worker_garbled(machine: Snapshot) -> Problems:
    training = machine.training
    probe = training.torch_probe.value
    if probe.outcome != "garbled":
        return
    python = interpreter(machine)
    yield Problem(
        severity="error",
        summary=f"{probe.step} ended without an error and without an answer; the process wrote {probe.detail}",
        meaning="A training with this interpreter may end in the same place and look successful.",
        evidence=(training.torch_probe, training.python),
        fix=Fix.of(
            "Look for what ends the process: sitecustomize, a wrapper around the interpreter, a package named torch.",
            command("{:python} -c 'import torch; print(torch.__file__, torch.__version__)'; echo $?", python),
            command("{:python} -v -c 'import torch' 2>&1 | tail -n 20", python),
        ),
    )
