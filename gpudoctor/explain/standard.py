"""Which files are of Python's own library: it raises what others gave it, and nobody mends it there."""

import sys

from gpudoctor.lazy import lazy_re

STANDARD = lazy_re(
    r"[/\\]python3\.\d{1,2}[/\\](?!site-packages|dist-packages)|^<frozen|"
    r"^[A-Za-z]:[/\\].{0,300}[/\\][Ll]ib[/\\](?:" + "|".join(sorted(sys.stdlib_module_names)) + r")(?:\.py$|[/\\])"
)
"""On Windows it lies in a folder `Lib` of Python's (PC/layout), without a release in its name."""

__all__ = ["STANDARD"]
