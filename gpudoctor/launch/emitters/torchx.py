"""The plan for torchx: `torchx run -s slurm|kubernetes dist.ddp -j NxG` (dist.ddp's arguments as in torchx 0.7)."""

from gpudoctor.launch.emitters.parts import arguments, beside, is_module, left_out, portable, same_processes, target
from gpudoctor.launch.plan import Block, CannotEmit, Emission, LaunchPlan, Variable
from gpudoctor.launch.words import comment, line, reasons

SEPARATORS = frozenset(",;=")
"""In a value of --env they would begin the next variable."""
IMAGE = "REGISTRY/IMAGE:TAG"


def emit(plan: LaunchPlan) -> Emission:
    """A line for Slurm and one for Kubernetes, of which one is to be pasted. Raises `CannotEmit`."""
    processes = same_processes(plan, "torchx")
    nodes = f"{plan.elastic[0]}:{plan.elastic[1]}" if plan.elastic else str(len(plan.nodes))
    cpus = ["--cpu", str(plan.cpus_per_process * processes)] if plan.cpus_per_process else []
    for each in plan.program:
        if "${" in each:
            raise CannotEmit(
                f"torchx replaces ${{...}} in arguments ({each!r}): put the value into a file that the script reads"
            )
    gpus = processes if plan.accelerator == "cuda" else 0
    ports = ["--rdzv_port", str(plan.master_port)] if len(plan.nodes) > 1 or plan.elastic else []

    def words(scheduler: str, variables: tuple[Variable, ...], *options: str) -> list[str]:
        kept = ",".join(f"{each.name}={each.value}" for each in variables if not SEPARATORS & set(each.value))
        return [
            beside(plan.python, "torchx"),
            "run",
            "-s",
            scheduler,
            "dist.ddp",
            "-j",
            f"{nodes}x{processes}",
            "--gpu",
            str(gpus),
            *cpus,
            "--memMB",
            "0",
            *ports,
            *options,
            *(["--env", kept] if kept else []),
            *(["-m", target(plan)] if is_module(plan) else ["--script", target(plan)]),
            # torchx reads $$ as one dollar sign.
            *(["--", *(each.replace("$", "$$") for each in arguments(plan))] if arguments(plan) else []),
        ]

    resources = comment(
        f"--gpu {gpus}: dist.ddp asks the scheduler for no GPU of its own accord. --memMB 0: no limit of memory "
        "besides the scheduler's own (dist.ddp's default is 1 GiB a node)."
    )
    slurm = [resources, *reasons(plan.environment), line(words("slurm", plan.environment))]
    pod = portable(plan.environment)
    image = comment(f"Put the image that has torch and the script in place of {IMAGE}.")
    kubernetes = [resources, image, *reasons(pod), line(words("kubernetes", pod, "--image", IMAGE))]
    lost = [each.name for each in plan.environment if SEPARATORS & set(each.value)]
    notes = [
        "torchx starts torchrun with --rdzv_backend c10d: the nodes' host names must resolve between them. Its "
        "endpoint falls back to localhost where the scheduler names no first host, as on neither of these two.",
        *left_out(plan.environment, "in pods"),
    ]
    if lost:
        notes.append(
            f"{', '.join(lost)} cannot be given by --env, which splits at commas: set it in the image or the script."
        )
    return Emission(
        blocks=(
            Block("on a login node of a Slurm cluster", "\n".join(slurm) + "\n"),
            Block("or, for Kubernetes (with Volcano), where kubectl works", "\n".join(kubernetes) + "\n"),
        ),
        notes=tuple(notes),
    )
