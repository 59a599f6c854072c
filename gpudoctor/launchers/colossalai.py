"""`colossalai run`. It is only read, and of its words only the script."""

from gpudoctor.launcher.traits import Form, LauncherTraits

LAUNCHER = LauncherTraits(
    name="colossalai",
    forms=(Form(launcher="other", programs=("colossalai run",), takes_command=True),),
    package="colossalai",
)
