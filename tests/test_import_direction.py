"""Who may import whom (docs/architecture.md): arrows end at `snapshot`, every third-party package has one door."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = [*sorted((ROOT / "gpudoctor").rglob("*.py")), *sorted((ROOT / "checks").rglob("*.py"))]
IDS = [str(path.relative_to(ROOT)) for path in CODE]

DOORS = {
    "torch": ("gpudoctor/workers/", "gpudoctor/armed.py"),
    "pynvml": ("gpudoctor/read/nvidia.py", "gpudoctor/read/nvml", "gpudoctor/workers/smoke.py"),
    "netifaces": ("gpudoctor/read/interfaces.py",),
    "psutil": ("gpudoctor/read/host.py", "gpudoctor/read/processes.py"),
    "rich": ("gpudoctor/render/",),
    "matplotlib": ("gpudoctor/render/plot.py",),
    "ClusterShell": ("gpudoctor/fleet/nodeset.py", "gpudoctor/fleet/ssh_engine.py"),
    "tree_sitter": ("gpudoctor/lint/shell",),
    "tree_sitter_bash": ("gpudoctor/lint/shell",),
    "yaml": ("gpudoctor/lint/manifests.py",),
    "typer": ("gpudoctor/cli/",),
}
ANYWHERE = {"msgspec"}
EVERYWHERE = (
    "gpudoctor.command",
    "gpudoctor.named",
    "gpudoctor.bounded",
    "gpudoctor.cost",
    "gpudoctor.programs",
    "gpudoctor.lacking",
    "gpudoctor.errors",
    "gpudoctor.sure",
)  # but in workers and armed.py

TROUBLES = ("gpudoctor.cause", "gpudoctor.causes", "gpudoctor.symptom", "gpudoctor.symptoms")
MAY_IMPORT = {
    # the first prefix that fits a file -> what of ours it may import
    "gpudoctor/workers/": (),
    "gpudoctor/snapshot/": ("gpudoctor.snapshot",),
    "gpudoctor/knowledge/": ("gpudoctor.snapshot", "gpudoctor.knowledge"),
    "gpudoctor/check.py": ("gpudoctor.snapshot",),
    "gpudoctor/symptom.py": (),
    "gpudoctor/symptoms/": ("gpudoctor.symptom", "gpudoctor.symptoms", "gpudoctor.knowledge"),
    "gpudoctor/cause.py": ("gpudoctor.check", "gpudoctor.symptom"),
    "gpudoctor/causes/": ("gpudoctor.cause", "gpudoctor.check", "gpudoctor.symptom"),
    "gpudoctor/marked.py": (),
    "gpudoctor/command.py": (),
    "gpudoctor/named.py": (),
    "gpudoctor/bounded.py": (),
    "gpudoctor/cost.py": ("gpudoctor.bounded",),
    "gpudoctor/programs.py": (),
    "gpudoctor/lacking.py": (),
    "gpudoctor/errors.py": (),
    "gpudoctor/active.py": ("gpudoctor.marked",),
    "gpudoctor/plugins.py": ("gpudoctor.check",),
    "gpudoctor/report.py": ("gpudoctor.check", "gpudoctor.snapshot"),
    "gpudoctor/diagnose.py": ("gpudoctor.check", "gpudoctor.plugins", "gpudoctor.report", "gpudoctor.snapshot"),
    "gpudoctor/redact.py": ("gpudoctor.check", "gpudoctor.report", "gpudoctor.snapshot", "gpudoctor.knowledge"),
    "gpudoctor/devices.py": ("gpudoctor.snapshot", "gpudoctor.knowledge"),
    "gpudoctor/topology.py": ("gpudoctor.snapshot", "gpudoctor.knowledge"),
    "gpudoctor/emit/": ("gpudoctor.emit", "gpudoctor.knowledge"),
    "gpudoctor/read/": (
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
    ),
    "gpudoctor/explain/": ("gpudoctor.explain", *TROUBLES, "gpudoctor.knowledge", "gpudoctor.check"),
    "gpudoctor/hang/read/": (
        "gpudoctor.hang.read",
        "gpudoctor.hang.evidence",
        "gpudoctor.hang.places",
        "gpudoctor.hang.place_markers",
        "gpudoctor.fleet",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
    ),
    "gpudoctor/hang/": (
        *TROUBLES,
        "gpudoctor.hang",
        "gpudoctor.explain",
        "gpudoctor.fleet",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.check",
        "gpudoctor.lint",
    ),
    "gpudoctor/fleet/": (
        "gpudoctor.fleet",
        "gpudoctor.hang.read",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.check",
    ),
    "gpudoctor/nccl/": (
        *TROUBLES,
        "gpudoctor.nccl",
        "gpudoctor.fleet",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.check",
        "gpudoctor.render",
    ),
    "gpudoctor/train/": (
        *TROUBLES,
        "gpudoctor.train",
        "gpudoctor.nccl",
        "gpudoctor.fleet",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.check",
    ),
    "gpudoctor/amp/": (
        "gpudoctor.amp",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.check",
    ),
    "gpudoctor/checkpoint/": (
        "gpudoctor.checkpoint",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.marked",
        "gpudoctor.knowledge",
        "gpudoctor.check",
    ),
    "gpudoctor/launch/": (
        "gpudoctor.launch",
        "gpudoctor.emit",
        "gpudoctor.fleet",
        "gpudoctor.nccl",
        "gpudoctor.read",
        "gpudoctor.active",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.check",
    ),
    "gpudoctor/lint/": (*TROUBLES, "gpudoctor.lint", "gpudoctor.snapshot", "gpudoctor.knowledge"),
    "gpudoctor/render/": (
        *TROUBLES,
        "gpudoctor.render",
        "gpudoctor.check",
        "gpudoctor.report",
        "gpudoctor.snapshot",
        "gpudoctor.knowledge",
        "gpudoctor.redact",
        "gpudoctor.devices",
        "gpudoctor.topology",
        "gpudoctor.nccl",
        "gpudoctor.fleet",
        "gpudoctor.launch",
        "gpudoctor.lint",
        "gpudoctor.hang",
        "gpudoctor.explain",
        "gpudoctor.train",
        "gpudoctor.amp",
        "gpudoctor.checkpoint",
    ),
    "gpudoctor/cli/": ("gpudoctor",),
    "gpudoctor/__init__.py": ("gpudoctor.armed",),
    "gpudoctor/armed.py": (),
    "gpudoctor/__main__.py": ("gpudoctor.cli",),
    "checks/": ("gpudoctor.check", "gpudoctor.snapshot", "gpudoctor.knowledge", "gpudoctor.causes"),
}
LINUX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "pty", "select"}


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that a file names in an import, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield node.module or ""


def allowed(path: str) -> tuple[str, ...]:
    return next(allowed for prefix, allowed in MAY_IMPORT.items() if path.startswith(prefix))


@pytest.mark.parametrize("file", CODE, ids=IDS)
def test_imports_only_what_its_room_allows(file: Path) -> None:
    path = str(file.relative_to(ROOT))
    for module in imports(ast.parse(file.read_text(encoding="utf-8"))):
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top in ANYWHERE:
            continue
        if path.startswith("gpudoctor/workers/") and (file.parent / f"{top}.py").exists():
            continue  # workers run from their folder, and know each other by bare name
        if top == "gpudoctor":
            ours = allowed(path)
            if module in EVERYWHERE and not path.startswith(("gpudoctor/workers/", "gpudoctor/armed.py")):
                continue
            # `from gpudoctor import __version__` names the bare package and nothing in it.
            assert module == "gpudoctor" or any(module == name or module.startswith(name + ".") for name in ours), (
                module
            )
        else:
            assert top in DOORS, f"{module} has no door yet"
            assert path.startswith(DOORS[top]), f"{top} is imported by {DOORS[top]} only"


@pytest.mark.parametrize("file", CODE, ids=IDS)
def test_nothing_that_only_linux_has_is_imported_at_start(file: Path) -> None:
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            assert LINUX_ONLY.isdisjoint(imports(statement))


@pytest.mark.parametrize("file", sorted((ROOT / "gpudoctor" / "workers").glob("*.py")), ids=lambda path: path.name)
def test_workers_are_python_3_8_and_shadow_nothing(file: Path) -> None:
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert file.stem == "__main__" or file.stem not in sys.stdlib_module_names
