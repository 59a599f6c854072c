"""The plan for torchx: `torchx run -s slurm|kubernetes dist.ddp -j NxG` (dist.ddp's arguments as in torchx 0.7)."""

from gpudoctor.launch.emitters.parts import arguments, beside, is_module, left_out, portable, same_processes, target
from gpudoctor.launch.plan import Block, CannotEmit, Emission, EmittedFile, LaunchPlan, Variable
from gpudoctor.launch.words import comment, line, reasons

IMAGE = "REGISTRY/IMAGE:TAG"
KUBERNETES = ("kubernetes", "-cfg", "queue=default", "--workspace", "")
"""A queue of Volcano's must be named; with a workspace, an image would be built here and pushed."""


def fits(value: str) -> bool:
    """Whether --env hands a value on as it is: it splits at commas and drops a leading "=", and so does srun."""
    return "," not in value and not value.startswith("=")


def emit(plan: LaunchPlan) -> Emission:
    """A line for Slurm, and one for Kubernetes as an alternative. Raises `CannotEmit`."""
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

    def words(scheduler: tuple[str, ...], variables: tuple[Variable, ...], *options: str) -> list[str]:
        kept = ",".join(f"{each.name}={each.value}" for each in variables if fits(each.value))
        return [
            beside(plan.python, "torchx"),
            "run",
            "-s",
            *scheduler,
            "dist.ddp",
            "-j",
            f"{nodes}x{processes}",
            "--gpu",
            str(gpus),
            *cpus,
            "--memMB",
            "-1",
            *ports,
            *options,
            *(["--env", kept] if kept else []),
            *(["-m", target(plan)] if is_module(plan) else ["--script", target(plan)]),
            # torchx reads $$ as one dollar sign.
            *(["--", *(each.replace("$", "$$") for each in arguments(plan))] if arguments(plan) else []),
        ]

    resources = comment(
        f"--gpu {gpus}: dist.ddp asks the scheduler for no GPU of its own accord. --memMB -1: no limit of memory "
        "besides the scheduler's own (dist.ddp's default is 1 GiB a node, and 0 means that default)."
    )
    slurm = [resources, *reasons(plan.environment), line(words(("slurm",), plan.environment))]
    pod = portable(plan.environment)
    image = comment(f"Put the image that has torch and the script in place of {IMAGE}.")
    queue = comment("queue: one of Volcano's. The image is taken as it is; the script must be in it.")
    kubernetes = [resources, queue, image, *reasons(pod), line(words(KUBERNETES, pod, "--image", IMAGE))]
    lost = [each.name for each in plan.environment if not fits(each.value)]
    notes = [
        "torchx starts torchrun with --rdzv_backend c10d: the nodes' host names must resolve between them. Its "
        "endpoint falls back to localhost where the scheduler names no first host, as on neither of these two.",
        *left_out(plan.environment, "in pods"),
    ]
    if lost:
        notes.append(
            f"{', '.join(lost)} cannot be given by --env, which splits at commas and drops a leading =: set it in "
            "the script, before torch is imported."
        )
    script = "torchx_kubernetes.sh"
    notes.append(f"For Kubernetes with Volcano instead of Slurm: {script}, which -o DIR writes.")
    return Emission(
        blocks=(Block("on a login node of a Slurm cluster", "\n".join(slurm) + "\n"),),
        files=(EmittedFile(script, "\n".join(kubernetes) + "\n", executable=True, alternative=True),),
        notes=tuple(notes),
    )
