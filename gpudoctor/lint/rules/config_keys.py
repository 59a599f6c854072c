"""Rules of keys: what a program asks of its options and its configuration, and what is there: V20 to V22."""

import argparse
import ast
import difflib
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.composed_config import ComposedConfig, added, file_at, missing, of_file, of_hydra
from gpudoctor.lint.config_reads import Holder, holders, is_changed, reads, stored
from gpudoctor.lint.model import LintJob, LintLaunch, Word
from gpudoctor.lint.program_arguments import option_of, own_parser
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.rule import LintFinding, rule

_HYDRA = (
    "#@ file conf/config.yaml\ntrainer:\n  max_steps: 10\noptim:\n  lr: 0.01\n#@ file t.py\nimport hydra\n"
    "@hydra.main(config_path='conf', config_name='config', version_base=None)\ndef main(cfg):\n"
    "    fit(cfg.trainer.{})\nmain()\n#@ every node\ntorchrun --standalone --nproc-per-node=4 t.py {}\n"
)
_ARGS = (
    "#@ file t.py\nimport argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\n"
    "args = p.parse_args()\nprint(args.{})\n#@ every node\ntorchrun --standalone --nproc-per-node=4 t.py\n"
)
_YAML = (
    "#@ file c.yaml\ntrain:\n  lr: 0.1\n  batch: 32\n#@ file t.py\nimport argparse\nimport yaml\n"
    "p = argparse.ArgumentParser()\np.add_argument('--config')\nargs = p.parse_args()\n"
    "cfg = yaml.safe_load(open(args.config))\nprint(cfg['train']{})\n"
    "#@ every node\ntorchrun --standalone --nproc-per-node=4 t.py --config c.yaml\n"
)
_CLASS = _YAML.replace("print(cfg['train']{})", "cfg = Config(**yaml.safe_load(open(args.config))['train'])").replace(
    "import yaml\n",
    "import yaml\nfrom dataclasses import dataclass\n@dataclass\nclass Config:\n    lr: float\n    {}: int\n",
)
_OVERRIDE = lazy_re(r"([A-Za-z_][\w.-]*)=")
_LOADS = ("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "omegaconf.OmegaConf.load")


class _Given:
    """What a start hands hydra's program, and what it makes of its configuration."""

    def __init__(self, job: LintJob, code: PythonCode, launch: LintLaunch, main: ast.AST, call: ast.Call) -> None:
        self.overrides: list[tuple[Word, tuple[str, ...]]] = []
        self.config: ComposedConfig | None = None
        self.is_whole = all(word.text is not None for word in launch.script_words)
        name, folder = constant(argument(call, "config_name", 1)), constant(argument(call, "config_path", 0))
        words = [word.shown for word in launch.script_words]
        if any(word.partition("=")[0] in ("--config-name", "--config-path", "--config-dir", "-cn", "-cp", "-cd")
               for word in words) or not isinstance(name, str) or not isinstance(folder, str):  # fmt: skip
            return
        config = of_hydra(job, folder, name)
        if config is None:
            return
        tree = config.tree
        for word in launch.script_words:
            text = word.text if word.text is not None else word.shown
            plus = text.lstrip("+")
            match = _OVERRIDE.match(plus)
            if match is None or plus.startswith("hydra."):
                continue
            path = tuple(match[1].split("."))
            if plus is not text:
                tree = added(tree, path)
            elif match[1] not in config.groups and not _is_group(job, config, match[1]):
                self.overrides.append((word, path))
        self.config = ComposedConfig(tree, config.section, config.groups)


def _is_group(job: LintJob, config: ComposedConfig, name: str) -> bool:
    """A folder of files beside the configuration."""
    folder = posixpath.join(posixpath.dirname(config.section.name), name) + "/"
    return any(each.name.startswith(folder) for each in job.sections)


def _mains(code: PythonCode) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]:
    for function in code.functions.values():
        for mark in function.decorator_list:
            if isinstance(mark, ast.Call) and code.name(mark.func) == "hydra.main" and function.args.args:
                yield function, mark


def _near(key: str, there: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(there), 1)
    return close[0] if close else ""


@rule(
    "V20",
    title="An override of hydra names a key of the configuration",
    source="hydra 1.3, _internal/config_loader_impl.py: Could not override; omegaconf: Key is not in struct",
    leads_to=("program-error",),
    bad=(_HYDRA.format("max_steps", "trainer.max_step=100"), _HYDRA.format("max_steps", "model.size=big")),
    good=(
        _HYDRA.format("max_steps", "trainer.max_steps=100 +model.size=big hydra.run.dir=out"),
        _HYDRA.format("max_steps", "model.size=big").replace("trainer:\n", "defaults:\n- model: small\ntrainer:\n", 1),
        _HYDRA.format("max_steps", "model.size=big").replace("def main", "from hydra.core.config_store import"
                                                             " ConfigStore\ndef main"),
    ),
)  # fmt: skip
def override_of_no_key(job: LintJob) -> Iterator[LintFinding]:
    """The configuration is closed: what is not in it is added by +key=value, and not by key=value."""
    for code, launches in codes_and_starts(job):
        if "ConfigStore" in code.text or "hydra" not in code.text:
            continue
        for (main, call), launch in ((each, launch) for each in _mains(code) for launch in launches):
            given = _Given(job, code, launch, main, call)
            config = given.config
            if config is None:
                continue
            for word, path in given.overrides:
                gone = missing(config.tree, path)
                if gone is None:
                    continue
                near = _near(gone[0], gone[1])
                name = ".".join(path)
                yield LintFinding(
                    span=word.span,
                    summary=f"{name} is overridden, and {config.section.name} has no {gone[0]}"
                    + (f" there (it has {near})" if near else " there"),
                    happens=f"Each rank ends: Could not override '{name}'. Key '{gone[0]}' is not in struct.",
                    fix=f"Write {'.'.join([*path[: path.index(gone[0])], near])}=..."
                    if near
                    else f"Write +{name}=... if it is meant to be new.",
                )


@rule(
    "V21",
    title="A program reads what its options and its configuration have",
    source="argparse: 'Namespace' object has no attribute; omegaconf 2.3: ConfigAttributeError; dict: KeyError",
    leads_to=("program-error",),
    bad=(
        _HYDRA.format("max_iters", "trainer.max_steps=7"),
        _ARGS.format("batchsize"),
        _YAML.format("['batch_size']"),
    ),
    good=(
        _HYDRA.format("max_iters", "+trainer.max_iters=7"),
        _ARGS.format("batch_size"),
        _ARGS.format("gpu").replace("print", "args.gpu = 0\nprint"),
        _YAML.format("['batch']"),
        _YAML.format(".get('batch_size')"),
        _YAML.format("['batch_size']").replace("print", "cfg['train'].setdefault('batch_size', 1)\nprint"),
    ),
)
def read_of_no_key(job: LintJob) -> Iterator[LintFinding]:
    """What is read and is nowhere ends each rank, often long after the start."""
    for code, launches in codes_and_starts(job):
        yield from _of_options(code, launches)
        for launch in launches[:1]:
            yield from _of_hydra(job, code, launch)
            yield from _of_loaded(job, code, launch)


def _of_options(code: PythonCode, launches: tuple[LintLaunch, ...]) -> Iterator[LintFinding]:
    parser = own_parser(code) if launches and "parse_args" in code.text else None
    if parser is None or code.is_elsewhere(code.tree) or re.search(r"\bvars\(|Namespace|parse_known", code.text):
        return
    found = _assigned(code, lambda call: isinstance(call.func, ast.Attribute) and call.func.attr == "parse_args")
    there = {action.dest for action in parser._actions if action.dest is not argparse.SUPPRESS}
    yield from _unread(code, found, there, "the program's parser has no such option",
                       "AttributeError: 'Namespace' object has no attribute '{}'.")  # fmt: skip


def _unread(code: PythonCode, found: Holder | None, there: set[str], why: str, happens: str) -> Iterator[LintFinding]:
    held = holders(code, found) if found is not None else set()
    if not held or is_changed(code, held):
        return
    there |= stored(code, held) | {"_get_kwargs", "_get_args"}
    for read in reads(code, held):
        if read.path[0] not in there and isinstance(read.node, (ast.Attribute, ast.Subscript)):
            near = _near(read.path[0], there)
            yield LintFinding(
                span=code.span(read.node),
                summary=f"{read.path[0]} is read, and {why}" + (f" (there is {near})" if near else ""),
                happens=f"Each rank ends: {happens.format(read.path[0])}",
                fix=f"Write {near}." if near else f"Add it, with a default: add_argument('--{read.path[0]}', ...).",
            )
            return


def _assigned(code: PythonCode, is_made: Callable[[ast.Call], bool]) -> Holder | None:
    """The only name that is given what such a call makes."""
    made: list[Holder] = []
    for node in code.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = node.targets[0]
            if is_made(node.value) and len(node.targets) == 1 and isinstance(target, ast.Name):
                made.append((code.scope_of(node), target.id))
    return made[0] if len(made) == 1 else None


def _of_hydra(job: LintJob, code: PythonCode, launch: LintLaunch) -> Iterator[LintFinding]:
    if "ConfigStore" in code.text or "hydra" not in code.text:
        return
    for main, call in _mains(code):
        given = _Given(job, code, launch, main, call)
        held = holders(code, (main, main.args.args[0].arg))
        if given.config is not None and given.is_whole and not is_changed(code, held):
            yield from _read(code, held, given.config, "ConfigAttributeError: Key '{}' is not in struct.")


def _read(code: PythonCode, held: set[Holder], config: ComposedConfig, happens: str,
          attributes: bool = True) -> Iterator[LintFinding]:  # fmt: skip
    own = stored(code, held)
    for read in reads(code, held, attributes):
        gone = missing(config.tree, read.path)
        if gone is None or gone[0] in own or not set(read.path).isdisjoint(own):
            continue
        near = _near(gone[0], gone[1])
        yield LintFinding(
            span=code.span(read.node),
            summary=f"{'.'.join(read.path)} is read, and {config.section.name} has no {gone[0]}"
            + (f" there (it has {near})" if near else " there"),
            happens=f"Each rank ends: {happens.format(gone[0])}",
            fix=f"Write {near}, or add {gone[0]} to the file." if near else f"Add {gone[0]} to the file.",
        )
        return


def _of_loaded(job: LintJob, code: PythonCode, launch: LintLaunch) -> Iterator[LintFinding]:
    for call in code.calls:
        config = _loaded(job, code, launch, call)
        if config is None:
            continue
        above = code.parents.get(call)
        if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
            held = holders(code, (code.scope_of(above), above.targets[0].id))
            by_omegaconf = code.name(call.func).endswith("OmegaConf.load")
            if not is_changed(code, held):
                end = "ConfigAttributeError: Missing key {}." if by_omegaconf else "KeyError: '{}'."
                yield from _read(code, held, config, end, by_omegaconf)


def _loaded(job: LintJob, code: PythonCode, launch: LintLaunch, call: ast.Call) -> ComposedConfig | None:
    """The configuration that a call reads, where the start tells its file."""
    if code.name(call.func) not in _LOADS or not call.args:
        return None
    given = call.args[0]
    if isinstance(given, ast.Name):  # with open(...) as file: yaml.safe_load(file)
        opened = [
            item.context_expr
            for above in code.around(call)
            if isinstance(above, ast.With)
            for item in above.items
            if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == given.id
        ]
        given = opened[0] if opened else given
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "open" and given.args:
        given = given.args[0]
    path = constant(given)
    if isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name):
        path = option_of(code, given.attr, launch)
    if not isinstance(path, str) or not path.endswith((".yaml", ".yml", ".json")):
        return None
    file = file_at(job, path, is_whole=False)
    return of_file(file) if file is not None else None


def _taken(
    code: PythonCode, stars: ast.keyword, config: ComposedConfig, path: tuple[str, ...]
) -> Iterator[LintFinding]:
    """`Config(**yaml.safe_load(...))` of a dataclass of the text."""
    call = code.parents.get(stars)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return
    name = call.func.id
    made = [each for each in code.nodes if isinstance(each, ast.ClassDef) and each.name == name]
    if len(made) != 1 or made[0].bases or not any(_is_dataclass(code, mark) for mark in made[0].decorator_list):
        return
    if any(isinstance(each, FUNCTIONS) and each.name == "__init__" for each in made[0].body):
        return
    fields = {each.target.id for each in made[0].body if isinstance(each, ast.AnnAssign)
              and isinstance(each.target, ast.Name) and "ClassVar" not in ast.unparse(each.annotation)}  # fmt: skip
    tree = config.tree
    for key in path:
        below = tree.get(key)
        if below is None:
            return
        tree = below
    unknown = next((key for key in tree if key not in fields), None)
    if unknown is not None:
        near = _near(unknown, fields)
        yield LintFinding(
            span=code.span(call),
            summary=f"{config.section.name} has {unknown}, and {name} takes no such argument"
            + (f" (it has {near})" if near else ""),
            happens=f"Each rank ends: TypeError, got an unexpected keyword argument '{unknown}'.",
            fix=f"Write {near} in {config.section.name}." if near else f"Take {unknown} out, or add it to {name}.",
        )


def _is_dataclass(code: PythonCode, mark: ast.expr) -> bool:
    return code.name(mark.func if isinstance(mark, ast.Call) else mark) == "dataclasses.dataclass"


@rule(
    "V22",
    title="A file that fills a class has the keys that the class takes",
    source="Python's dataclasses: __init__ has a parameter for each field, and no others",
    leads_to=("program-error",),
    bad=(_CLASS.replace("{}: int", "batch_size: int"), _CLASS.replace("    {}: int\n", "")),
    good=(
        _CLASS.replace("{}: int", "batch: int"),
        _CLASS.replace("{}: int", "batch_size: int").replace("@dataclass\n", "@settings\n"),
    ),
)
def key_of_no_field(job: LintJob) -> Iterator[LintFinding]:
    """`Config(**mapping)` gives each key of the file to a parameter of that name."""
    for code, launches in codes_and_starts(job):
        for launch in launches[:1]:
            for call in code.calls:
                config = _loaded(job, code, launch, call)
                path: list[str] = []
                above = code.parents.get(call)
                while isinstance(above, ast.Subscript) and isinstance(key := constant(above.slice), str):
                    path.append(key)
                    above = code.parents.get(above)
                if config is not None and isinstance(above, ast.keyword) and above.arg is None:
                    yield from _taken(code, above, config, tuple(path))
