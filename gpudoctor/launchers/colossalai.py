"""`colossalai run`: it reaches the hosts by ssh and starts torchrun there. It is only read. Options as in 0.5,
cli/launcher/__init__.py, which takes one that it does not know for the script."""

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lint.model import LintLaunch

OPTIONS = """
    help host,-H,-host= hostfile= include= exclude= num_nodes= nproc_per_node= master_port= master_addr=
    extra_launch_args= ssh-port= m,-m
"""


def _counts(launch: LintLaunch) -> tuple[int | None, int | None]:
    ranks, hosts = launch.text("nproc-per-node") or "", launch.text("host")
    nodes = hosts.count(",") + 1 if hosts else None if launch.option("host", "hostfile") or launch.unread else 1
    return nodes, int(ranks) if ranks.isdecimal() else None


LAUNCHER = LauncherTraits(
    name="colossalai",
    forms=(
        Form(
            launcher="colossalai",
            programs=("colossalai run",),
            grammar=Grammar(OPTIONS, prefixes=False),
            all_known=True,
            newest="colossalai 0.5",
        ),
    ),
    fans_out=True,
    sets_ranks=True,
    trains="torch",
    underscores=True,
    ranks_option="nproc-per-node",
    counts=_counts,
    unmistakable=("nproc-per-node", "hostfile", "master-addr"),
    package="colossalai",
)
