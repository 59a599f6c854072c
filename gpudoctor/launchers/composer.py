"""MosaicML's composer. It is only read, and of its words only the script."""

from gpudoctor.launcher.traits import Form, LauncherTraits

LAUNCHER = LauncherTraits(
    name="composer",
    forms=(Form(launcher="other", programs=("composer",), takes_command=True),),
    package="mosaicml",
)
