"""Two processes that train together under DistributedDataParallel do not end with the same model.

Why it matters: DDP promises that every rank has the same gradients and parameters, and that the result is that of one
process with the whole batch. Where that is broken, each rank trains a model of its own and no error appears.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command


@check("train-ddp-differs", title="Two processes train the same model under DDP")
def train_ddp_differs(machine: Snapshot) -> Problems:
    train = machine.active.train
    for result in train.value:
        if result.outcome != "failed" or result.finding == "train-failed":
            continue
        yield Problem(
            severity="error",
            summary=f"{result.error.rstrip('.') or 'the ranks do not agree'}"
            f" ({result.ranks} ranks over {result.backend})",
            meaning="The ranks of a training on this machine drift apart, and no error says so.",
            evidence=(train,),
            fix=Fix(
                "Train it at length: that names the first rank, parameter and step, and says what to change. Then "
                "check the data of the collectives alone.",
                commands=(command("gpudoctor train-test"), command("gpudoctor nccl-test --collective all")),
            ),
        )
