"""Every way by which a program comes to a collective: from its module, through functions of that file.

A watchdog without a flight recorder names an operation and a size, and no line. Where the program has one call that
makes such an operation, that is the line; nobody else may make one then, so that a program whose imports may call
collectives in its name tells nothing.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from math import prod

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.passage import says
from gpudoctor.read.job.source import MOST_PARSED
from gpudoctor.read.job.source_calls import collective_of
from gpudoctor.read.job.source_walk import called, functions_of, walk
from gpudoctor.snapshot.evidence import Frame

MOST_WAYS = 64
DEEPEST = 8
MOST_FILES = 16
"""Of the program's own beside it."""
SILENT = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "numpy", "scipy", "pandas", "sklearn", "PIL", "cv2", "einops", "tqdm"),
        *("yaml", "wandb", "matplotlib", "psutil", "requests", "tensorboard", "tensorboardX", "h5py", "omegaconf"),
        *("safetensors", "tokenizers", "sentencepiece", "tiktoken", "gpudoctor"),
    )
)
"""Packages that call no collective, or as torch do so only by what is looked for below."""
SPEAKS = lazy_re(
    r"^(?:FullyShardedDataParallel|FSDP\w{0,20}|fully_shard|DTensor|distribute_tensor|distribute_module|SyncBatchNorm|"
    r"parallelize_module|convert_sync_batchnorm|ZeroRedundancyOptimizer|DistributedDataParallelCPU|register_comm_hook|"
    r"averagers|Join|DistributedOptimizer)$"
)
"""What of torch calls collectives of its own, but for the gradients of DDP."""
PARTS = lazy_re(r"^torch\.distributed\.(?!elastic\b|distributed_c10d\b|run\b|launch\b)")
FILLED = ("ones", "zeros", "empty", "rand", "randn", "full")
REDUCED = ("sum", "mean", "max", "min", "prod", "norm")
KEPT = ("detach", "clone", "float", "double", "half", "bfloat16", "cuda", "to", "contiguous")
HOOKS = frozenset(("DistributedDataParallel", "DDP"))


class WayTo(Struct, frozen=True):
    call: str
    """ "all_reduce"; "backward"."""
    stack: tuple[Frame, ...]
    """Innermost first."""
    elements: int | None = None
    """Of what it is given, where the text tells."""


class Ways(Struct, frozen=True):
    ways: tuple[WayTo, ...]
    hooks: bool = False
    """DDP sums gradients in each backward, and may send buffers."""


def ways(file: str, said: Sequence[str], read: Callable[[str], bytes]) -> Ways | None:
    """None where somebody else may call collectives, or calls stand where they are not followed. A file that is named
    from a folder that is not known (`train.py`) counts where it, or what it imports, writes one of the lines `said`."""
    tree = _parsed(read(file))
    folder, files = file.rpartition("/")[0] or ".", [tree]
    beside: set[str] = set()
    known = file.startswith("/") or _writes(tree, said)
    while files:
        for name in _imported(files.pop()):
            root = name.partition(".")[0]
            if root in sys.stdlib_module_names or (root in SILENT and not PARTS.search(name)) or root in beside:
                continue
            if PARTS.search(name) or "." in name or len(beside) == MOST_FILES:
                return None
            beside.add(root)
            try:
                inner = _parsed(read(f"{folder}/{root}.py"))
            except OSError:
                return None  # a package that is not known
            if any(collective_of(node) for node in ast.walk(inner)) or _speaks(inner):
                return None
            known = known or _writes(inner, said)
            files.append(inner)
    if not known or _speaks(tree):
        return None
    found = tuple(_ways(tree, file))
    return Ways(found, _names(tree, HOOKS)) if found and len(found) < MOST_WAYS else None


def _parsed(raw: bytes) -> ast.Module:
    if len(raw) > MOST_PARSED:
        raise OSError("it is too large")
    return ast.parse(raw)


def _writes(tree: ast.AST, said: Sequence[str]) -> bool:
    return any(says(node, line) for node in ast.walk(tree) for line in said)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{'.' * node.level}{node.module or ''}"


def _speaks(tree: ast.AST) -> bool:
    return any(SPEAKS.search(name) for name in _identifiers(tree))


def _names(tree: ast.AST, names: frozenset[str]) -> bool:
    return any(name in names for name in _identifiers(tree))


def _identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]


def _ways(tree: ast.Module, file: str) -> Iterator[WayTo]:
    functions = functions_of(tree)
    scopes: dict[str, ast.AST] = {"<module>": tree, **functions}
    made = {name: list(_made(scope)) for name, scope in scopes.items()}
    callers: dict[str, list[tuple[str, int]]] = {}
    for name, scope in scopes.items():
        for function, line in _called(scope, functions):
            if function != name:
                callers.setdefault(function, []).append((name, line))
    if sum(map(len, made.values())) != sum(bool(collective_of(node)) for node in ast.walk(tree)):
        return  # in a function inside of another one, or of a name that stands for several
    left = MOST_WAYS
    for name, calls in made.items():
        for call, line, elements in calls:
            for around in _around(name, callers, DEEPEST):
                left -= 1
                if left < 0:
                    return
                yield WayTo(call, (Frame(name, file, line), *(Frame(own, file, at) for own, at in around)), elements)


def _made(scope: ast.AST) -> Iterator[tuple[str, int, int | None]]:
    for found in walk(scope):
        for call in called(found.node):
            if name := collective_of(call):
                given = call.args[:1] if isinstance(call, ast.Call) else []
                yield name, int(getattr(call, "lineno", 0)), _elements(given[0], scope) if given else None


def _elements(node: ast.expr, scope: ast.AST) -> int | None:
    """Of a tensor whose making tells it: `torch.ones(64)`, `torch.tensor([loss, seen])`, a name that is such a one."""
    if isinstance(node, ast.Name):
        names = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == node.id]
        stored = [each for each in names if isinstance(each.ctx, ast.Store)]
        made = [each for each in ast.walk(scope) if isinstance(each, ast.Assign) and each.targets == stored]
        return _elements(made[0].value, ast.Module([], [])) if len(stored) == len(made) == 1 else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name, given, owner = node.func.attr, node.args, node.func.value
    if not (isinstance(owner, ast.Name) and owner.id == "torch"):
        one = name in REDUCED and not given and not node.keywords
        return 1 if one else _elements(owner, scope) if name in KEPT else None
    if not given or any(isinstance(each, ast.Starred) for each in given):
        return None
    if name == "tensor" and isinstance(given[0], ast.List | ast.Tuple):
        plain = not any(isinstance(each, ast.List | ast.Tuple | ast.Starred) for each in given[0].elts)
        return len(given[0].elts) if plain else None
    if name == "tensor":
        return 1 if isinstance(given[0], ast.Constant) else None
    if name not in FILLED:
        return None
    sizes = given[0].elts if isinstance(given[0], ast.List | ast.Tuple) else given if name != "full" else given[:1]
    numbers = [each.value for each in sizes if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    return prod(numbers) if len(numbers) == len(sizes) else None


def _called(scope: ast.AST, functions: dict[str, ast.AST]) -> Iterator[tuple[str, int]]:
    """Calls of the file's own functions and methods, whoever has them."""
    for found in walk(scope):
        for call in called(found.node):
            function = call.func if isinstance(call, ast.Call) else None
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in functions:
                yield name, int(getattr(call, "lineno", 0))


def _around(name: str, callers: dict[str, list[tuple[str, int]]], deep: int) -> Iterator[Sequence[tuple[str, int]]]:
    """The calls that lead to a function, innermost first; nothing of one that nobody calls by its name."""
    if name not in callers or not deep:
        yield ()
        return
    for own, line in callers[name]:
        for around in _around(own, callers, deep - 1):
            yield ((own, line), *around)
