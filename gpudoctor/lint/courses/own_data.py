"""What one rank alone knows: what it draws, and what it computes from its part of the data."""

import ast
import re

OF_OWN = re.compile(
    r"(?:random\.|numpy\.random\.|secrets\.|uuid\.|time\.|os\.(?:getpid|urandom)|socket\.|tempfile\.)\w*"
)
"""What each process draws or finds for itself."""
SEEDS = re.compile(r"seed(?:_\w+)?$")
OF_ITS_ARGUMENTS = re.compile(r"(?:math|numpy|torch(?!\.(?:distributed|multiprocessing|hub|jit)\b))\.[\w.]+")
"""Functions whose result is computed from what they are given, and from nothing of other ranks."""
BUILTINS = frozenset(("abs", "all", "any", "bool", "float", "int", "len", "list", "max", "min", "round", "sum"))
METHODS = frozenset(
    ("abs", "all", "any", "clone", "cpu", "cuda", "detach", "double", "float", "isfinite", "isinf", "isnan", "item",
     "max", "mean", "min", "norm", "numpy", "square", "sqrt", "std", "sum", "to", "tolist", "view")
)  # fmt: skip
"""Of tensors and arrays, likewise."""


def computes(call: ast.Call, whole: str) -> bool:
    """Whether a call computes from its arguments alone. Any other may talk to the other ranks, and what it gives is
    then alike on all."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS:
        return True
    if isinstance(call.func, ast.Name) and not whole:
        return call.func.id in BUILTINS
    return OF_ITS_ARGUMENTS.fullmatch(whole) is not None
