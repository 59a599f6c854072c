"""Two processes on this machine cannot train together under DistributedDataParallel.

Why it matters: this is the smallest training that torchrun starts. What ends it (a library that does not load, a
hostname that does not resolve, no memory to share) ends every training on several GPUs, mostly with a longer message.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command


@check(
    "train-ddp-failed",
    title="Two processes can train together under DDP",
    follows=("smoke-failed", "shm-too-small"),
)
def train_ddp_failed(machine: Snapshot) -> Problems:
    train = machine.active.train
    for result in train.value:
        if result.outcome == "crashed" or (result.outcome == "failed" and result.finding == "train-failed"):
            yield Problem(
                severity="error",
                summary=f"two processes under DDP over {result.backend} ended early: "
                f"{result.error.rstrip('.') or 'no message'}",
                meaning="A training with torchrun fails on this machine too.",
                evidence=(train,),
                fix=Fix.of(
                    "Run it at length, with what each rank said before it ended; then the collectives alone.",
                    command("gpudoctor train-test --strategy {:name}", result.way),
                    command("gpudoctor nccl-test"),
                ),
            )
