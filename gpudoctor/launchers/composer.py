"""MosaicML's composer: one command on each node. It is only read. Options as in composer 0.32, cli/launcher.py."""

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lint.model import LintLaunch

OPTIONS = """
    help,-h version nproc,-n= stdout= stderr= verbose,-v module_mode,-m command_mode,-c world_size= base_rank=
    node_rank= master_addr= master_port=
"""


def _counts(launch: LintLaunch) -> tuple[int | None, int | None]:
    ranks, world = (
        int(text) if (text := launch.text(name) or "").isdecimal() else None for name in ("nproc", "world-size")
    )
    if launch.option("world-size") is None:
        called = launch.invocation  # a platform, or who calls it, may set WORLD_SIZE
        told = launch.unread or {"WORLD_SIZE", "NODE_RANK"} & called.settings.keys()
        return (None if told or called.within or called.manifest_path else 1), ranks
    return (world // ranks if world and ranks and not world % ranks else None), ranks


LAUNCHER = LauncherTraits(
    name="composer",
    forms=(
        Form(
            launcher="composer",
            programs=("composer",),
            modules=("composer.cli.launcher",),
            grammar=Grammar(OPTIONS),
            all_known=True,
            newest="mosaicml 0.32",
        ),
    ),
    a_node=True,
    reads_master=True,
    sets_ranks=True,
    trains="torch",
    underscores=True,
    ranks_option="nproc",
    total_option="world-size",
    own_names={"nproc-per-node": "nproc"},
    counts=_counts,
    decisive=("world-size", "nproc", "node-rank", "master-addr", "master-port"),
    package="mosaicml",
)
