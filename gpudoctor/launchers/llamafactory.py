"""Trainings that call torchrun themselves, and are told by variables how: LLaMA-Factory, ms-swift, axolotl.

LLaMA-Factory (cli.py, launcher.py of 0.9): torchrun with NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR and MASTER_PORT
where more than one GPU is visible or FORCE_TORCHRUN is set; under USE_RAY Ray starts the workers. ms-swift (cli/main.py
of 3.x): the same variables, where NPROC_PER_NODE or NNODES is set. axolotl (cli/main.py of 0.9): torchrun's options
stand behind `--launcher torchrun --`.
"""

from collections.abc import Mapping

from msgspec import structs

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.launchers.torchrun import GRAMMAR
from gpudoctor.lint.model import Invocation, LintLaunch, Option, SetVariable

VARIABLES = {
    "nnodes": "NNODES", "node-rank": "NODE_RANK", "nproc-per-node": "NPROC_PER_NODE", "master-addr": "MASTER_ADDR",
    "master-port": "MASTER_PORT",
}  # fmt: skip


def of_environment(settings: Mapping[str, SetVariable]) -> dict[str, Option]:
    """The variables as torchrun's options; none of them under Ray."""
    if "USE_RAY" in settings:
        return {}
    options = {}
    for name, variable in VARIABLES.items():
        setting = settings.get(variable)
        if setting is not None and setting.exported:
            options[name] = Option(name, variable, setting.word, setting.word.span)
    return options


def read_axolotl(form: Form, invocation: Invocation, start: int) -> LintLaunch | None:
    """`axolotl train FILE --launcher torchrun -- OPTIONS`."""
    words = invocation.words
    dashes = next((index for index, word in enumerate(words) if word.shown == "--"), len(words))
    read = GRAMMAR.read(words, dashes + 1) if dashes < len(words) else None
    script = next((word for word in words[start:dashes] if not word.shown.startswith("-")), None)
    launch = LintLaunch(launcher=form.launcher, invocation=invocation, entry="axolotl train", script=script)
    if read is None:
        return launch
    return structs.replace(launch, options=read.last, every_option=read.options, unread=read.unread)


LAUNCHER = LauncherTraits(
    name="llamafactory",
    forms=(
        Form(
            launcher="llamafactory",
            programs=("llamafactory-cli train", "lmf train", "swift sft", "swift pt", "swift rlhf", "megatron sft"),
            grammar=Grammar(""),
            environment=of_environment,
        ),
        Form(launcher="axolotl", programs=("axolotl train",), read=read_axolotl),
    ),
    a_node=True,
    sets_ranks=True,
    trains="torch",
    ranks_option="nproc-per-node",
    decisive=("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port"),
    package="llamafactory",
    other_packages=("axolotl", "ms-swift"),
)
