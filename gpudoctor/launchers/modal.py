"""Modal: functions of a program run in containers, with the GPUs that their decorator names; `modal run FILE`. It is
only read.

Source: modal 1.6, app.py (App.function: gpu=), _utils/function_utils and gpu.py (parse_gpu_config: "H100:8"),
experimental/__init__.py (clustered: size=), cli/run.py.
"""

import re

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.lazy import lazy_re

_FUNCTION = lazy_re(r"((?:^@\w[^\n]*\n(?:[ \t)\]][^\n]*\n)*)+)(?:async )?def \w+", re.MULTILINE)
"""A function with its decorators."""
GPU = lazy_re(r"\bgpu\s*=\s*[\"']([A-Za-z][\w!+-]*)(?::(\d{1,3}))?[\"']", re.ASCII)
SIZE = lazy_re(r"^@(?:\w+\.)*clustered\(\s*(?:size\s*=\s*)?(\d{1,4})\b", re.MULTILINE | re.ASCII)


def decorators_at(text: str, at: int) -> str:
    """Those of the function in which a place lies; empty where Modal is not spoken of."""
    if "modal" not in text:
        return ""
    above = list(_FUNCTION.finditer(text, 0, at))
    begin = above[-1].end() if above else at
    return (
        above[-1][1]
        if above and re.search(r"^\S", text[begin + 1 : at].partition("\n")[2], re.MULTILINE) is None
        else ""
    )


def gpus_at(text: str, at: int) -> int | None:
    """`gpu="H100:8"` of the function; one where no number is told."""
    told = GPU.search(decorators_at(text, at))
    return int(told[2] or 1) if told is not None else None


LAUNCHER = LauncherTraits(
    name="modal",
    forms=(
        Form(
            launcher="modal",
            programs=("modal run",),
            grammar=Grammar("write-result,-w= quiet,-q detach,-d interactive,-i env,-e= name= m,-m", prefixes=False),
        ),
    ),
    gpus_at=gpus_at,
    fixed="a cluster of Modal has a fixed size",
)
