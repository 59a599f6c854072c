"""Functions that Modal runs in containers of its own: what the decorators of one say of its GPUs and its cluster.

Source: modal 1.6, app.py (App.function: gpu=), gpu.py (parse_gpu_config: "H100:8"), experimental/__init__.py
(clustered: size=).
"""

import re

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
