"""Two processes that train together under DistributedDataParallel stand still.

Why it matters: a training on this machine stands still in the same place, until the watchdog of NCCL or gloo ends it
after ten to thirty minutes.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command


@check("train-ddp-hung", title="Two processes under DDP get on", follows=("smoke-timeout",))
def train_ddp_hung(machine: Snapshot) -> Problems:
    train = machine.active.train
    for result in train.value:
        if result.outcome != "hung":
            continue
        yield Problem(
            severity="error",
            summary=f"two processes under DDP over {result.backend} stood still: "
            f"{result.error.rstrip('.') or 'no rank got on'}",
            meaning="A training with torchrun hangs on this machine too.",
            evidence=(train,),
            fix=Fix.of(
                "Run it at length: each rank's phase and stack say where. The collectives alone tell whether the way "
                "between the processes is at fault.",
                command("gpudoctor train-test --strategy {:name}", result.way),
                command("gpudoctor nccl-test"),
            ),
        )
