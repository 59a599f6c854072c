"""torchx: `torchx run -s slurm|kubernetes dist.ddp|dist.spmd -j NxG`.

Source: cli/cmd_run.py, components/dist.py of torchx 0.7. The options of both parts are read into one; "j" is NxG:
nodes times processes per node.
"""

import re

from gpudoctor.launch.parts import arguments, beside, is_module, left_out, portable, target
from gpudoctor.launch.plan import CannotEmit, Emission, EmittedFile, EnvVariable, LaunchPlan, PasteBlock
from gpudoctor.launch.words import comment, line, reasons
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lint.model import Invocation, LintLaunch

RUN = Grammar(
    "scheduler,-s= scheduler_args,-cfg= dryrun wait log workspace,--buck-target= parent_run_id= stdin tee_logs help,-h"
)
COMPONENT = Grammar(
    "script= m,-m= image= name= h,-h= cpu= gpu= memMB= j,-j= env= max_retries= rdzv_port= rdzv_backend= rdzv_conf= "
    "mounts= debug? tee= verbose"
)
COMPONENTS = ("dist.ddp", "dist.spmd")

IMAGE = "REGISTRY/IMAGE:TAG"
KUBERNETES = ("kubernetes", "-cfg", "queue=default", "--workspace", "")
"""A queue of Volcano's must be named; with a workspace, an image would be built here and pushed."""


def fits(value: str) -> bool:
    """Whether --env hands a value on as it is: it splits at commas and drops a leading "=", and so does srun."""
    return "," not in value and not value.startswith("=")


def write(plan: LaunchPlan) -> Emission:
    """A line for Slurm, and one for Kubernetes as an alternative. Raises `CannotEmit`."""
    processes = plan.nodes[0].processes
    nodes = f"{plan.elastic[0]}:{plan.elastic[1]}" if plan.elastic else str(len(plan.nodes))
    cpus = ["--cpu", str(plan.cpus_per_process * processes)] if plan.cpus_per_process else []
    for text in plan.program:
        if "${" in text:
            raise CannotEmit(
                f"torchx replaces ${{...}} in arguments ({text!r}): put the value into a file that the script reads"
            )
    gpus = processes if plan.accelerator == "cuda" else 0
    ports = ["--rdzv_port", str(plan.master_port)] if len(plan.nodes) > 1 or plan.elastic else []

    def words(scheduler: tuple[str, ...], variables: tuple[EnvVariable, ...], *options: str) -> list[str]:
        kept = ",".join(f"{variable.name}={variable.value}" for variable in variables if fits(variable.value))
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
            *(["--", *(argument.replace("$", "$$") for argument in arguments(plan))] if arguments(plan) else []),
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
    lost = [variable.name for variable in plan.environment if not fits(variable.value)]
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
        blocks=(PasteBlock("on a login node of a Slurm cluster", "\n".join(slurm) + "\n"),),
        files=(EmittedFile(script, "\n".join(kubernetes) + "\n", executable=True, alternative=True),),
        notes=tuple(notes),
    )


def read(form: Form, invocation: Invocation, start: int) -> LintLaunch | None:
    """Options of `torchx run`, a component, and the component's."""
    words = invocation.words
    outer = RUN.read(words, start)
    if outer.end >= len(words) or words[outer.end].shown not in COMPONENTS:
        return None
    inner = COMPONENT.read(words, outer.end + 1)
    options = {**outer.last, **inner.last}
    named = options.get("script") or options.get("m")
    rest = words[inner.end :]
    return LintLaunch(
        launcher=form.launcher,
        invocation=invocation,
        options=options,
        every_option=(*(option for option in outer.options if option.known), *inner.options),
        script=named.value if named is not None else None,
        script_words=rest[1:] if rest and rest[0].shown == "--" else rest,
        module="script" not in options and "m" in options,
        entry=f"torchx run {words[outer.end].shown}",
        unread=outer.unread + inner.unread,
    )


def counts(launch: LintLaunch) -> tuple[int | None, int | None]:
    """Nodes and ranks on each, of -j."""
    match = re.fullmatch(r"(?:(\d{1,6})x)?(\d{1,6})", launch.text("j") or "", re.ASCII)
    return (int(match[1]) if match[1] else None, int(match[2])) if match else (None, None)


LAUNCHER = LauncherTraits(
    name="torchx",
    forms=(
        Form(
            launcher="torchx",
            programs=("torchx run",),
            grammar=COMPONENT,
            all_known=True,
            newest="torchx 0.7",
            read=read,
        ),
    ),
    fans_out=True,
    trains="torch",
    counts=counts,
    package="torchx",
    write=write,
    even="torchx starts the same number on every node",
    scheduler="kubernetes",
    in_this_shell=False,
)
