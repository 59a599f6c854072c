"""PyTorch Lightning: the environment that its LightningEnvironment reads, and the Trainer that goes with it.

Lightning starts the processes of a node itself, unless LOCAL_RANK is set: then each node has one process and the job
hangs (every release from 1.5 to 2.6, measured). So LOCAL_RANK is never written, nor WORLD_SIZE, which Lightning
computes from devices and num_nodes. `fabric run` (2.2 and later), `lightning run model` (1.8 to 2.x): fabric/cli.py.
"""

from collections.abc import Iterator

from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch import words
from gpudoctor.launch.plan import CannotEmit, Emission, EnvVariable, LaunchPlan, NodePlan, PasteBlock
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Invocation, LintLaunch, Word

FIRST = (1, 5)
"""`strategy=` came with 1.5."""
DEVICES_SINCE = (1, 6)
"""accelerator="gpu", devices= are what is documented from there on; 1.5 has gpus=."""
MIXED_SINCE = (2, 0)
PRECISIONS = {"fp32": "32-true", "fp16": "16-mixed", "bf16": "bf16-mixed"}
OLD_PRECISIONS = {"fp32": "32", "fp16": "16", "bf16": '"bf16"'}
"""As Python source: 1.x takes numbers, and refused "16" up to 1.7."""
NAMES = lazy_re(
    r"(ddp(_spawn|_fork|_notebook)?(_find_unused_parameters_(true|false))?|fsdp(_cpu_offload)?"
    r"|deepspeed(_stage_(1|[23](_offload)?|3_offload_nvme))?|xla(_debug|_fsdp)?|single_(device|tpu|xla)|auto)"
)
"""Strategies that Lightning 2.0 to 2.6 registers (StrategyRegistry of 2.6.6); other names are a ValueError there."""


def version(plan: LaunchPlan) -> tuple[int, ...]:
    """Lightning's version; that of today where it is not known."""
    return parsed(plan.versions.get("lightning", "")) or (2, 6)


def write(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    installed = version(plan)
    if installed < FIRST:
        raise CannotEmit(
            f"Lightning {plan.versions['lightning']}: its Trainer has no strategy= (since 1.5); upgrade, or "
            "start the script by --framework torchrun"
        )
    return Emission(
        blocks=tuple(_block(plan, node) for node in plan.nodes), code=trainer(plan), notes=tuple(_notes(plan))
    )


def trainer(plan: LaunchPlan) -> str:
    """The Trainer of the installed release, as Python lines. Raises `CannotEmit`."""
    arguments = [*_devices(plan), f"num_nodes={len(plan.nodes)}", f'strategy="{strategy(plan)}"']
    if plan.precision:
        new = version(plan) >= MIXED_SINCE
        arguments.append(
            f'precision="{PRECISIONS[plan.precision]}"' if new else f"precision={OLD_PRECISIONS[plan.precision]}"
        )
    known = plan.versions.get("lightning")
    size = f"{counted(len(plan.nodes), 'node')} x {plan.nodes[0].processes}"
    about = f"Lightning {known}" if known else "Lightning 2.x (the installed version is not known)"
    module = "lightning" if version(plan) >= (2, 0) else "pytorch_lightning"
    return "\n".join(
        [
            words.comment(f"{about}; world size {plan.world_size} = {size}."),
            f"from {module} import Trainer",
            "",
            f"trainer = Trainer({', '.join(arguments)})",
        ]
    )


def strategy(plan: LaunchPlan) -> str:
    """The strategy's name in the installed release. Raises `CannotEmit`."""
    wanted = plan.strategy or "ddp"
    if version(plan) >= (2, 0) and NAMES.fullmatch(wanted) is None:
        small = wanted.lower()
        hint = (
            f"names are lower case: --strategy {small}"
            if NAMES.fullmatch(small)
            else "ddp, fsdp and deepspeed are some"
        )
        raise CannotEmit(f"--strategy {wanted}: Lightning 2.x has none of this name; {hint}")
    if wanted != "fsdp" or version(plan) >= (2, 0):
        return wanted
    if version(plan) >= (1, 7):
        return "fsdp_native"
    raise CannotEmit(
        f"Lightning {plan.versions['lightning']} has no FSDP of PyTorch's own, which came with 1.7 (as fsdp_native)"
    )


def _devices(plan: LaunchPlan) -> list[str]:
    count = plan.nodes[0].processes
    if version(plan) < DEVICES_SINCE:
        return [f"gpus={count}"] if plan.accelerator == "cuda" else [f"num_processes={count}"]
    return [f'accelerator="{"gpu" if plan.accelerator == "cuda" else "cpu"}"', f"devices={count}"]


def _block(plan: LaunchPlan, node: NodePlan) -> PasteBlock:
    rendezvous = words.rendezvous(plan, EnvVariable("NODE_RANK", str(node.rank))) if len(plan.nodes) > 1 else ()
    about = words.comment(
        f"Lightning starts {counted(node.processes, 'process', 'processes')} here by itself. LOCAL_RANK must not be "
        "set: with it, it would start none, and the job would wait for ever."
    )
    return words.node_block(plan, node, [plan.python, *plan.program], [about], *rendezvous)


def _notes(plan: LaunchPlan) -> Iterator[str]:
    installed = version(plan)
    if not plan.versions.get("lightning"):
        yield "Lightning's version is not known here; this is for 2.x. --framework-version 1.9 gives what 1.9 takes."
    if installed >= (1, 6):
        yield (
            "torchrun can start the same Trainer: --framework torchrun. Under srun, one task a GPU and none of these "
            "variables: Lightning reads SLURM's own."
        )
    if plan.strategy.endswith("spawn") and installed < (2, 0):
        yield (
            "ddp_spawn on several nodes hangs (1.5) or crashes (1.7) at the end of fit on every node but the first; "
            "ddp does not."
        )


def read_litgpt(form: Form, invocation: Invocation, start: int) -> LintLaunch | None:
    """LitGPT makes a Fabric of --devices and --num_nodes, which stand anywhere among its many options."""
    options = {}
    for at in range(start, len(invocation.words)):
        read = LITGPT.read(invocation.words[at:], 0).options
        if read and read[0].known:
            options[read[0].name] = read[0]
    return LintLaunch(
        launcher=form.launcher,
        invocation=invocation,
        entry="litgpt",
        options=options,
        every_option=tuple(options.values()),
        script=next((word for word in invocation.words[start:] if not word.shown.startswith("-")), None),
    )


def read_fabric(form: Form, invocation: Invocation, start: int) -> LintLaunch | None:
    """`fabric run FILE --devices 8`: click takes its options from behind the script too (ignore_unknown_options)."""
    words = invocation.words
    first = form.grammar.read(words, start)
    options, at = list(first.options), first.end + 1
    rest: list[Word] = []
    while at < len(words):
        if words[at].shown == "--":
            rest += words[at + 1 :]
            break
        known = form.grammar.find(words[at].shown.partition("=")[0]) if words[at].shown.startswith("-") else None
        if known is None:
            rest.append(words[at])
            at += 1
            continue
        read = form.grammar.read(words[: at + (1 if "=" in words[at].shown else 2)], at)
        options += read.options
        at = max(read.end, at + 1)
    return LintLaunch(
        launcher=form.launcher,
        invocation=invocation,
        entry="fabric run",
        options={option.name: option for option in options},
        every_option=tuple(options),
        script=words[first.end] if first.end < len(words) else None,
        script_words=tuple(rest),
        unread=first.unread,
    )


LITGPT = Grammar("devices= num_nodes= precision=", prefixes=False)
LAUNCHER = LauncherTraits(
    name="lightning",
    forms=(
        Form(
            launcher="fabric",
            programs=("fabric run", "lightning run model", "lightning run"),
            modules=(
                *("lightning.fabric.cli run", "lightning_fabric.cli run"),
                *("lightning.fabric.cli", "lightning_fabric.cli"),
            ),
            grammar=Grammar(
                "accelerator= strategy= devices= num-nodes= node-rank= main-address= main-port= precision= help",
                both_dashes=True,
                prefixes=False,
            ),
            all_known=True,
            newest="lightning 2.6",
            read=read_fabric,
        ),
        Form(
            launcher="litgpt",
            programs=(
                *("litgpt finetune", "litgpt finetune_lora", "litgpt finetune_full", "litgpt finetune_adapter"),
                *("litgpt finetune_adapter_v2", "litgpt pretrain"),
            ),
            read=read_litgpt,
        ),
    ),
    a_node=True,
    reads_master=True,
    trains="lightning",
    own_names={"nnodes": "num-nodes", "master-addr": "main-address", "master-port": "main-port"},
    ranks_option="devices",
    ranks_default=1,
    decisive=("node-rank", "num-nodes", "devices", "main-address", "main-port"),
    runs_as="torchrun",
    package="lightning",
    other_packages=("pytorch-lightning",),
    write=write,
    fixed="Lightning's own launcher has a fixed world",
    even="Trainer(devices=) is the same on every node",
    any_strategy=True,
)
