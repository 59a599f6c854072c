"""Who may import whom (docs/architecture.md): arrows end at `snapshot`, every third-party package has one door.

Beside it what else holds for all shipped code: no circles, no long files, one meaning a class name, nothing that only
tests use. There are no exceptions. Every test names all offenders at once.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path

from tests import sources

ROOT = Path(__file__).parent.parent
WORKERS = "gpudoctor/workers/"

DOORS = {
    "torch": ("gpudoctor/workers/", "gpudoctor/armed.py"),
    "pynvml": ("gpudoctor/read/nvidia.py", "gpudoctor/read/nvml", "gpudoctor/workers/smoke.py"),
    "ahocorasick_rs": ("gpudoctor/symptoms/match.py",),
    "netifaces": ("gpudoctor/read/interfaces.py",),
    "psutil": ("gpudoctor/read/host.py", "gpudoctor/read/processes.py"),
    "rich": ("gpudoctor/render/",),
    "matplotlib": ("gpudoctor/render/plot.py",),
    "ClusterShell": ("gpudoctor/fleet/nodeset.py", "gpudoctor/fleet/ssh_engine.py"),
    "tree_sitter": ("gpudoctor/lint/shell",),
    "tree_sitter_bash": ("gpudoctor/lint/shell",),
    "yaml": ("gpudoctor/lint/manifests.py",),
    "pygls": ("gpudoctor/lint/server.py",),
    "lsprotocol": ("gpudoctor/lint/server.py",),
    "tomli": ("gpudoctor/settings.py",),
    "typer": ("gpudoctor/cli/",),
}
ANYWHERE = {"msgspec"}
EVERYWHERE = (
    "gpudoctor.command",
    "gpudoctor.named",
    "gpudoctor.lazy",
    "gpudoctor.no_text",
    "gpudoctor.bounded",
    "gpudoctor.cost",
    "gpudoctor.crowded",
    "gpudoctor.threads",
    "gpudoctor.programs",
    "gpudoctor.lacking",
    "gpudoctor.embedded",
    "gpudoctor.envelope",
    "gpudoctor.errors",
    "gpudoctor.defaults",
    "gpudoctor.fault_classes",
    "gpudoctor.severity",
    "gpudoctor.sure",
)  # but in workers and armed.py

TROUBLES = ("gpudoctor.cause", "gpudoctor.causes", "gpudoctor.symptom", "gpudoctor.symptoms")
"""Who may speak of one may speak of all."""
ROOMS = {
    # the first prefix that fits a file -> what of ours it may import, without "gpudoctor."; "*" is all
    "gpudoctor/workers/": "",
    "gpudoctor/snapshot/": "snapshot",
    "gpudoctor/knowledge/place_markers.py": "launcher.registry",
    "gpudoctor/knowledge/": "snapshot knowledge",
    "gpudoctor/effect.py": "",
    "gpudoctor/check.py": "effect snapshot",
    "gpudoctor/culprits.py": "check",
    "gpudoctor/envelope.py": "check snapshot",
    "gpudoctor/embedded.py": "",
    "gpudoctor/needles.py": "",
    "gpudoctor/symptom.py": "needles",
    "gpudoctor/symptoms/": "cause causes symptom symptoms knowledge check",
    "gpudoctor/cause.py": "check symptom",
    "gpudoctor/remedy.py": "cause",
    "gpudoctor/remedies/": "cause check remedy remedies",
    "gpudoctor/causes/": "cause plugins remedies",
    "gpudoctor/marked.py": "",
    "gpudoctor/command.py": "",
    "gpudoctor/named.py": "",
    "gpudoctor/lazy.py": "",
    "gpudoctor/severity.py": "",
    "gpudoctor/no_text.py": "",
    "gpudoctor/threads.py": "",
    "gpudoctor/bounded.py": "",
    "gpudoctor/cost.py": "bounded",
    "gpudoctor/programs.py": "",
    "gpudoctor/lacking.py": "",
    "gpudoctor/errors.py": "",
    "gpudoctor/settings.py": "",
    "gpudoctor/defaults.py": "",
    "gpudoctor/fault_classes.py": "",
    "gpudoctor/active.py": "marked",
    "gpudoctor/plugins.py": "check",
    "gpudoctor/report.py": "check",
    "gpudoctor/deciding.py": "report snapshot knowledge",
    "gpudoctor/expecting.py": "snapshot",
    "gpudoctor/diagnose.py": "check deciding plugins report snapshot",
    "gpudoctor/compare/": "compare check deciding diagnose report snapshot knowledge",
    "gpudoctor/redact.py": "snapshot knowledge launcher.kept",
    "gpudoctor/devices.py": "check snapshot knowledge",
    "gpudoctor/topology.py": "snapshot knowledge",
    "gpudoctor/emit/": "emit knowledge",
    "gpudoctor/read/pasted/troubles.py": "read snapshot cause causes symptom symptoms",
    "gpudoctor/read/": "read active marked needles snapshot knowledge launcher",
    "gpudoctor/explain/": "cause causes symptom symptoms remedy remedies sure explain knowledge check"
    " launcher.registry",
    "gpudoctor/hang/": "cause causes symptom symptoms hang fleet read active snapshot knowledge check lint launcher",
    "gpudoctor/left.py": "explain hang read snapshot knowledge",
    "gpudoctor/slow/": "slow cause causes hang fleet read active snapshot knowledge check",
    "gpudoctor/fleet/": "fleet read active marked snapshot knowledge check",
    "gpudoctor/nccl/": "cause causes symptom symptoms nccl launcher.registry hang fleet read snapshot knowledge check",
    "gpudoctor/train/": "cause causes symptom symptoms train nccl fleet read snapshot knowledge check",
    "gpudoctor/amp/": "amp read active snapshot knowledge check",
    "gpudoctor/checkpoint/": "checkpoint read active marked knowledge check",
    "gpudoctor/launcher/": "launcher plugins lint.model launch.plan knowledge",
    "gpudoctor/launchers/": "launcher launchers lint.model launch emit knowledge",
    "gpudoctor/launch/": "check launch launcher examination emit fleet nccl read active snapshot knowledge",
    "gpudoctor/lint/": "check cause causes symptom symptoms lint launcher launchers.engines launchers.slurm plugins"
    " read active marked settings snapshot knowledge",
    "gpudoctor/about.py": "cause causes symptoms check fleet lint nccl plugins said train",
    "gpudoctor/said/": "said check",
    "gpudoctor/render/about.py": "about knowledge render",
    "gpudoctor/folder/": "folder diagnose plugins report run.kept active explain fleet hang slow nccl train read"
    " snapshot check cause causes",
    "gpudoctor/render/": "cause causes symptom symptoms render check compare culprits effect report snapshot knowledge"
    " redact devices topology nccl fleet launch launcher lint hang slow explain train amp checkpoint folder",
    "gpudoctor/examination.py": "active amp train read snapshot",
    "gpudoctor/several.py": "active diagnose fleet nccl plugins snapshot",
    "gpudoctor/foreign.py": "explain lint plugins read",
    "gpudoctor/run/relay.py": "",
    "gpudoctor/run/rank_log.py": "",
    "gpudoctor/run/site/": "",
    "gpudoctor/run/": "run slow.attend diagnose examination lint plugins fleet hang launcher.told nccl"
    " snapshot.evidence active armed read causes sure explain left knowledge render.words",
    "gpudoctor/library.py": "*",
    "gpudoctor/testing/": "testing check diagnose report snapshot symptom lint",
    "gpudoctor/cli/": "*",
    "gpudoctor/__init__.py": "*",
    "gpudoctor/armed.py": "",
    "gpudoctor/callbacks.py": "armed",
    "gpudoctor/__main__.py": "cli",
    "checks/": "check snapshot knowledge causes",
}
MAY_IMPORT = {
    room: tuple(f"gpudoctor.{word}" if word != "*" else "gpudoctor" for word in words.split())
    for room, words in ROOMS.items()
}
LINUX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "pty", "select"}
LONGEST = 450

# ---------------------------------------------------------------- the graph


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """(module, name or "") of every import among these nodes."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield from ((node.module or "", alias.name) for alias in node.names)


def module_of(path: str) -> str:
    return path.removeprefix("checks/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def shipped() -> Iterator[Path]:
    return (path for room in ("gpudoctor", "checks") for path in sorted((ROOT / room).rglob("*.py")))


class Code:
    """All shipped code, read when a test asks for it: collecting tests does not pay."""

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        return {str(path.relative_to(ROOT)): sources.tree(path) for path in shipped()}

    @cached_property
    def nodes(self) -> dict[str, list[ast.AST]]:
        return {path: sources.walk(module) for path, module in self.trees.items()}

    @cached_property
    def modules(self) -> dict[str, str]:
        return {module_of(path): path for path in self.trees}

    @cached_property
    def shown_on(self) -> dict[tuple[str, str], str]:
        """What a package's __init__ shows of its own modules: whoever imports it means the module that it is from."""
        return {
            (module, name): origin
            for module, path in self.modules.items()
            if path.endswith("__init__.py")
            for origin, name in imports(self.nodes[path])
        }

    def named(self, module: str, name: str) -> str:
        """The module of ours that an import means, or the name of another's."""
        while f"{module}.{name}" not in self.modules and self.shown_on.get((module, name), module) != module:
            module = self.shown_on[module, name]
        return f"{module}.{name}" if f"{module}.{name}" in self.modules else module

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """What the package itself names is loaded when it is asked for."""
        return {
            module: {self.named(*wanted) for wanted in imports(self.nodes[path])} & self.modules.keys() - {module}
            for module, path in self.modules.items()
            if module != "gpudoctor"
        } | {"gpudoctor": set()}


CODE = Code()


def below(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".")


def test_imports_only_what_its_room_allows() -> None:
    wrong, used = set(), set()
    for path, nodes in CODE.nodes.items():
        room = next((prefix for prefix in MAY_IMPORT if path.startswith(prefix)), "")
        alone = path.startswith((WORKERS, "gpudoctor/armed.py"))
        for module, name in imports(nodes):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names | ANYWHERE | {"tomllib"}:  # the library's since Python 3.11
                continue
            if path.startswith(WORKERS) and f"{WORKERS}{top}.py" in CODE.trees:
                continue  # workers run from their folder, and know each other by bare name
            if top in DOORS:
                good = path.startswith(DOORS[top])
            else:
                # `from gpudoctor import __version__` names the bare package and nothing in it.
                meant = f"{module}.{name}" if f"{module}.{name}" in CODE.modules else module
                allowed = {own for own in MAY_IMPORT.get(room, ()) if below(meant, own)}
                used |= {(room, own) for own in allowed}
                good = bool(allowed) or meant == "gpudoctor" or (meant in EVERYWHERE and not alone)
            if not good:
                wrong.add(f"{path}: {module} {name}")
    assert not wrong, "what a room may import stands above, and each third-party package has its door"
    unused = {(room, own) for room, allowed in MAY_IMPORT.items() for own in allowed if own not in TROUBLES}
    assert not unused - used, "permissions that nobody needs"


def test_nothing_that_only_linux_has_is_imported_at_start() -> None:
    assert not {
        (path, module)
        for path, tree in CODE.trees.items()
        for statement in tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for module, _ in imports([statement])
        if module in LINUX_ONLY
    }


def test_workers_are_python_3_8_and_shadow_nothing() -> None:
    for file in sorted((ROOT / WORKERS).glob("*.py")):
        ast.parse(file.read_text(encoding="utf-8"), file.name, feature_version=(3, 8))
        assert file.stem == "__main__" or file.stem not in sys.stdlib_module_names, file


def test_a_field_s_type_is_quoted_whole_or_not_at_all() -> None:
    """Python 3.10 leaves a name that is quoted within tuple["Name", ...] a text, and msgspec then refuses the class: no
    command could write JSON there."""
    assert not {
        f"{path}:{field.lineno}"
        for path, tree in CODE.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for within in ast.walk(field.annotation)
        if isinstance(within, ast.Subscript) and getattr(within.value, "id", "") in ("tuple", "list", "dict", "set")
        for name in ast.iter_child_nodes(within.slice if isinstance(within.slice, ast.Tuple) else within)
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
    }


def test_no_circle_of_modules() -> None:
    """Imports inside functions and for types count too."""
    TopologicalSorter(CODE.graph).prepare()


def test_no_shipped_file_is_long() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in shipped()}
    assert not {str(path): count for path, count in lines.items() if count > LONGEST}


def test_a_class_name_has_one_meaning() -> None:
    """Workers run alone, without the rest of gpudoctor: what they call their own meets nobody else's."""
    names = Counter(
        node.name
        for path, nodes in CODE.nodes.items()
        if not path.startswith(WORKERS)
        for node in nodes
        if isinstance(node, ast.ClassDef)
    )
    assert not {name for name, count in names.items() if count > 1}


def test_nothing_is_there_for_tests_only() -> None:
    """Every function and class of a module is named in shipped code, is found by a decorator, or is an entry point."""
    used = Counter(
        word
        for nodes in CODE.nodes.values()
        for node in nodes
        for word in (
            [node.id]
            if isinstance(node, ast.Name)
            else [node.attr]
            if isinstance(node, ast.Attribute)
            else re.findall(r"\w+", node.value)  # a worker's name on a command line, a type in quotes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200
            else []
        )
    )
    entries = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    defined = {
        node.name
        for path, tree in CODE.trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.decorator_list
        and not path.startswith("gpudoctor/testing/")  # that is for the tests of others too
    }
    assert not {name for name in defined if not used[name] and name not in entries and name[:2] != "__"}
