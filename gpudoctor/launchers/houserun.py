"""A launcher made up to see what a new one takes: `houserun -n N SCRIPT` starts N ranks on this node."""

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits

LAUNCHER = LauncherTraits(
    name="houserun",
    forms=(Form(launcher="houserun", programs=("houserun",), grammar=Grammar("ranks,-n=")),),
    sets_ranks=True,
    ranks_option="ranks",
    package="houserun",
)
