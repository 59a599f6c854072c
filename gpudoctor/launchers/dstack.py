"""dstack: a task's file, whose commands are lines of a shell (dstack's reference of .dstack.yml). It is only read."""

from gpudoctor.launcher.traits import LauncherTraits, ManifestKind

LAUNCHER = LauncherTraits(
    name="dstack",
    manifests=(
        ManifestKind(
            kind="dstack",
            looks=(r"type:[ \t]{0,9}(?:task|service)[ \t]{0,9}$", "commands:"),
            script="commands",
            variables="env",
        ),
    ),
)
