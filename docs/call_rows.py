"""Write gpudoctor/knowledge/refusals/calls.txt: what public classes of training libraries refuse in the arguments that
they are made with, as conditions (see refusal_rows.py): `python docs/call_rows.py FOLDER`.

FOLDER holds new/PACKAGE and old/PACKAGE, the wheels of two releases a year or more apart: a check that both have is
written. Of torch (torch/optim, torch/utils/data, torch/nn/parallel), whose checks are old, one is enough.
`@ PACKAGE CLASS NAME=DEFAULT...`: its arguments in their order; `@@`: those of a dataclass, without order.
Not shipped.
"""

import ast
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OTHER = runpy.run_path(str(Path(__file__).with_name("refusal_rows.py")))
Rows: Any = _OTHER["Rows"]
HERE: Path = _OTHER["HERE"]
PACKAGES = {
    "trl": ("trl",), "transformers": ("transformers",), "accelerate": ("accelerate",), "peft": ("peft",),
    "lightning": ("lightning",), "ray": ("ray/train", "ray/air"),
    "torch": ("torch/optim", "torch/utils/data", "torch/nn/parallel"),
}  # fmt: skip
BY_HAND = frozenset(
    ("Accelerator", "BitsAndBytesConfig", "DataLoader", "DistributedDataParallel", "DistributedSampler")
)
"""Of which knowledge/refused_calls.py has rows."""
_INSIDE = """
    OffloadedWeightsLoader LoraParallelLinear Conv2d Conv3d WorkerGroup ResourceRequest ModelConfig RunConfig
    ClippedGELUActivation TorchExportableModuleWithStaticCache DocumentQuestionAnsweringPipeline OnlineDPOTrainer
    ServableModuleValidator BatcherIterDataPipe BatcherMapDataPipe ShufflerIterDataPipe DataCollatorForChatML
"""
PLEASE = re.compile(r"[,.;:]?\s+[Pp]lease\b")
"""What follows it is no refusal."""
INSIDE = BY_HAND | frozenset(_INSIDE.split())
"""Made by the library itself, or named as much else is."""


def classes(root: Path) -> Iterator[tuple[str, ast.ClassDef]]:
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).parts
        if not {"models", "tests", "testing"} & set(parts):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in INSIDE:
                    yield node.name, node


def arguments(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    """In their order, with their defaults; of a dataclass without those of its bases."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            given = [*each.args.posonlyargs, *each.args.args][1:]
            lacking = len(given) - len(each.args.defaults)
            found: dict[str, ast.expr | None] = {
                arg.arg: each.args.defaults[at - lacking] if at >= lacking else None for at, arg in enumerate(given)
            }
            return found | {arg.arg: default for arg, default in zip(each.args.kwonlyargs, each.args.kw_defaults,
                                                                     strict=True)}  # fmt: skip
    fields: dict[str, ast.expr | None] = {}
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            value = line.value
            if isinstance(value, ast.Call):
                value = next((word.value for word in value.keywords if word.arg == "default"), None)
            fields[line.target.id] = value
    return fields


def rows_of(node: ast.ClassDef) -> dict[str, str]:
    rows, known = Rows(), arguments(node)
    rows.known = frozenset(known)
    for line in node.body:
        if isinstance(line, ast.FunctionDef) and line.name in ("__init__", "__post_init__", "post_init"):
            rows.body(line.body, [], {name: name for name in known})
    return dict(rows.rows)


def main(folder: Path) -> None:
    lines: list[str] = []
    for package, roots in PACKAGES.items():
        new = {name: node for root in roots for name, node in classes(folder / "new" / root)}
        old = {name: node for root in roots for name, node in classes(folder / "old" / root)}
        for name, node in sorted(new.items()):
            before = rows_of(old[name]) if name in old else {}
            kept = {when: says for when, says in rows_of(node).items() if package == "torch" or when in before}
            if kept:
                given = arguments(node)
                asked = {each.id for when in kept for each in ast.walk(ast.parse(when)) if isinstance(each, ast.Name)}
                made = any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body)
                last = max(at for at, each in enumerate(given) if each in asked)
                words = [
                    f"{each}={default.value!r}" if isinstance(default, ast.Constant) and " " not in repr(default.value)
                    else each
                    for at, (each, default) in enumerate(given.items()) if (at <= last if made else each in asked)
                ]  # fmt: skip
                lines.append(f"{'@' if made else '@@'} {package} {name} {' '.join(words)}")
                lines += [f"{when}\t{PLEASE.split(says)[0]}" for when, says in kept.items()]
    (HERE / "calls.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(sum("\t" in line for line in lines), "rows of", sum(line.startswith("@") for line in lines), "classes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
