"""dstack: a task's file, whose commands are lines of a shell that run on each node (dstack's reference of .dstack.yml
and of its environment variables). It is only read.
"""

import re
from collections.abc import Mapping

from gpudoctor.launcher.traits import LauncherTraits, ManifestKind

_GPU = r"(?:[A-Za-z][\w-]*:)?(?:\d+GB(?:\.\.(?:\d+GB)?)?:)?(\d{1,2})"
"""`H100:8`, `24GB:2`, `A100:80GB:8`, `8`: a range of numbers is none."""


def gpus_of_task(values: Mapping[str, str]) -> int | None:
    """`resources.gpu`, where it is one number."""
    told = values.get("resources.gpu", values.get("resources.gpu.count"))
    if told is None or "resources.gpu.0" in values:
        return None
    number = re.fullmatch(_GPU, told, re.ASCII)
    return int(number[1]) if number is not None else 1 if re.fullmatch(r"[A-Za-z]\w*", told, re.ASCII) else None


LAUNCHER = LauncherTraits(
    name="dstack",
    manifests=(
        ManifestKind(
            kind="dstack",
            looks=(r"type:[ \t]{0,9}(?:task|service)[ \t]{0,9}$", "commands:"),
            script="commands",
            variables="env",
            nodes="nodes",
            gpus=gpus_of_task,
            sets={"DSTACK_NODES_NUM": "nodes", "DSTACK_GPUS_PER_NODE": "gpus", "DSTACK_GPUS_NUM": "all gpus"},
        ),
    ),
)
