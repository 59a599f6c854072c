"""Which public names, methods and arguments the libraries that trainings import have had, by release, read from their
wheels by their syntax trees.

    python -m tests.lab.library_names fetch [PACKAGE...]   # once: what is read is kept, the wheels are not
    python -m tests.lab.library_names                      # writes gpudoctor/knowledge/library_names/*.txt

Of each series the newest release is read. Nothing of them is imported. Of numpy, which is compiled, its stubs are.
"""

import ast
import difflib
import json
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.lab.nccl.wheels import cache

TABLES = Path(__file__).resolve().parents[2] / "gpudoctor" / "knowledge" / "library_names"
PYTHONS = ("3.11", "3.8", "3.12", "3.7", "3.13")
PLATFORMS = (
    *(f"macosx_{system}_{kind}" for system in ("10_9", "10_13", "10_14", "10_15") for kind in ("x86_64", "universal2")),
    *("macosx_10_7_x86_64", "macosx_11_0_arm64", "macosx_12_0_arm64", "macosx_14_0_arm64", "manylinux2014_x86_64"),
)
"""The wheels for macOS are the smallest with the same Python sources."""


class Library(NamedTuple):
    package: str
    """As pip calls it."""
    module: str
    """As Python imports it."""
    series: str
    """The series that are read, oldest first; an empty one stands for the newest of all."""
    leave: str = r"$^"
    """Files that are not read: what nobody imports by name."""
    stubs: bool = False


LIBRARIES = (
    Library("numpy", "numpy", "1.20 1.23 1.24 1.25 1.26 2.0 2.2 >2.3", r"/(?:f2py|distutils|testing)/", stubs=True),
    Library("pandas", "pandas", "1.3 1.5 2.0 2.2 >2.3", r"/(?:_libs|_testing|_config)/"),
    Library("transformers", "transformers", "4.20 4.25 4.28 4.31 4.33 4.34 4.35 4.36 4.37 4.38 4.39 4.40 4.41 "
            "4.42 4.43 4.44 4.45 4.46 4.47 4.48 4.49 4.50 4.51 4.52  "
            "4.53 4.54 4.55 4.56 4.57 5.0 >5.0",
            r"/(?:commands|kernels|sagemaker|onnx)/|/utils/dummy_|convert_|/cli/"),
    Library("pytorch-lightning", "pytorch_lightning", "1.2 1.4 1.5 1.6 1.8 1.9 2.0 >2.5"),
    Library("trl", "trl", "0.4 0.7 0.8 0.9 0.10 0.11 0.12 0.13 0.14 0.15 0.16 0.17 0.18 0.19 0.20 0.21 0.22 "
            "0.23 0.24 >0.23", r"/scripts/"),
    Library("huggingface_hub", "huggingface_hub", "0.8 0.16 0.17 0.19 0.20 0.22 0.23 0.24 0.25 0.26 0.27 0.28 "
            "0.30 0.31 0.33 0.34 0.36 1.0 >1.0",
            r"/templates/|/inference/_generated|/commands/|/cli/"),
    Library("accelerate", "accelerate", "0.12 0.16 0.18 0.20 0.21 0.23 0.24 0.26 0.27 0.28 0.30 0.31 0.32 0.33 "
            "0.34 1.0 1.1 1.2 1.3 1.4 1.6 1.8 1.10 >1.6",
            r"/test_utils/|/commands/"),
    Library("datasets", "datasets", "1.18 2.0 2.6 2.12 2.16 2.20 3.0 3.6 4.0 >4.0", r"/commands/"),
    Library("peft", "peft", "0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 0.10 0.11 0.12 0.13 0.14 0.15 0.16 0.17 >0.17"),
    Library("pillow", "PIL", "8.4 9.5 10.0 11.0 >12.0"),
    Library("torchvision", "torchvision", "0.9 0.12 0.13 0.15 0.17 >0.22", r"/prototype/"),
    Library("pydantic", "pydantic", "1.10 2.0 2.5 >2.11", r"/v1/|/deprecated/"),
    Library("librosa", "librosa", "0.8 0.9 0.10 0.11 >0.11"),
    Library("torch", "torch", "1.8 1.10 1.11 1.12 1.13 2.0 2.1 2.2 2.3 2.4 2.5 2.6 2.7 >2.8",
            r"torch/(?:_|ao|quantization|onnx|package|testing|fx|export|jit|masked|sparse|signal|contrib|utils/(?!data|"
            r"checkpoint|tensorboard|_pytree|cpp_extension|dlpack)|distributed/(?:_tools|_spmd|_shard|benchmarks|examples))"),
)  # fmt: skip
LEFT = re.compile(
    r"(?:^|/)(?:tests?|testing|benchmarks?|examples?|vendor|_vendor|third_party|externals|conftest\.py|setup\.py|"
    r"\w*_test\.py|test_\w*\.py|_distributor_init\.py|_version\.py)(?:/|$)"
)
DEFINED = re.compile(r"^(?:class|def) ([A-Za-z]\w*)", re.MULTILINE)
NOBODYS = frozenset({"logger", "logging", "log", "T", "P", "R", "annotations", "version", "main", "np", "torch"})
MANY = re.compile(
    r"_ARCHIVE_|_MAPPING|Kwargs$|FeatureExtractor$|DoubleHeads|(?:Attention|Layer|Output|Encoder|Block|MLP|RMSNorm)$"
)
"""What transformers has of each model, and nobody imports."""
OF_ALIASES = re.compile(r"(?:Tokenizer|TokenizerFast|ImageProcessor|ImageProcessorFast)$")
"""What transformers 5 still finds under its old name."""
OF_FRAMEWORK = re.compile(r"(?:TF|Flax)(?=[A-Z])")
"""How transformers' classes of another framework begin, which all went at once."""
OF_FAMILY = re.compile(
    r"(?P<family>[A-Z][A-Za-z0-9]{2,}?)(?:[A-Z][a-z]*)?(?:Config|Model|PreTrainedModel|For[A-Z]\w+|Tokenizer\w*|Processor\w*|"
    r"ImageProcessor\w*|FeatureExtractor|Pipeline\w*|Scheduler)$"
)
OF_BASES = re.compile(r"(?:Dynamic|Static)Cache$")
"""Classes that the code of published models uses, of which bases too are told."""
OF_ATTENTION = re.compile(
    r"^(?:Llama|Mistral|Mixtral|Qwen2(?:VL|_5_VL)?|Gemma2?|Phi3?|Falcon|OPT|GPTNeoX|Whisper|Bert|Bart|CLIP)\w{0,30}"
    r"(?:FlashAttention2?|SdpaAttention|ScalingRotaryEmbedding)$"
)
"""Classes of transformers' models that programs replace or import."""
RENAMED = {"tokenizer": "processing_class", "max_seq_length": "max_length"}
"""Arguments that have another name today, by the libraries' own warnings."""
OF_ANOTHER = {("transformers", "AdamW"): "torch.optim"}
"""What another package has, by its own warning."""
BY_A_LOOP = frozenset({"ANTIALIAS", "LINEAR", "CUBIC"})
"""Names of PIL.Image up to 9.5; its others are set by a loop, and are all still there (9.5, 10.0 PIL/Image.py)."""
LIKE = 0.6
"""Of difflib: below it an argument is another one."""
Args = list[str] | None
"""None where ** takes any."""


class Release(NamedTuple):
    version: str
    modules: dict[str, list[str]]
    """Module -> its public names, defined or imported there from the package itself."""
    calls: dict[str, Args]
    """module.function, module.Class, module.Class.method -> its arguments."""
    bases: dict[str, list[str]]
    """module.Class -> the last parts of its bases' names."""


def folder(package: str) -> Path:
    return cache() / "library-names" / package


def fetch(wanted: list[str]) -> None:
    """Read what was not read yet."""
    for library in LIBRARIES:
        for series in library.series.split() if not wanted or library.package in wanted else ():
            kept = folder(library.package) / f"{_kept(series)}.json"
            if kept.exists():
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as place:
                wheel = _download(library.package, series, Path(place))
                if wheel is None:
                    print(f"{library.package} {series}: no wheel", flush=True)
                    kept.write_text("null")
                    continue
                found = read(wheel, library)
            kept.write_text(json.dumps(found._asdict()), encoding="utf-8")
            print(library.package, found.version, len(found.modules), len(found.calls), flush=True)


def _kept(series: str) -> str:
    return f"{series[1:]}+" if series[0] == ">" else series


def _download(package: str, series: str, place: Path) -> Path | None:
    wanted = (
        f"{package}{series}"
        if series[0] == ">"
        else f"{package}=={series}.*"
        if series.count(".") < 2
        else f"{package}=={series}"
    )
    for python in PYTHONS:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
                *("--disable-pip-version-check", "--python-version", python, "--dest", str(place)),
                *(f"--platform={each}" for each in PLATFORMS),
                wanted,
            ],
            capture_output=True,
            timeout=900,
        )
        if done.returncode == 0:
            return next(place.glob("*.whl"))
    return None


def read(wheel: Path, library: Library) -> Release:
    root = library.module.replace(".", "/")
    leave = re.compile(library.leave)
    release = Release(wheel.name.split("-")[1], {}, {}, {})
    with zipfile.ZipFile(wheel) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old modules' escapes, of which Python complains today
        names = set(archive.namelist())
        for name in sorted(names):
            ends = name.endswith(".pyi" if library.stubs else ".py") or (
                library.stubs and name.endswith(".py") and f"{name}i" not in names
            )
            if not name.startswith(f"{root}/") or not ends or LEFT.search(name) or leave.search(name):
                continue
            module = re.sub(r"(?:/__init__)?\.pyi?$", "", name).replace("/", ".")
            if "/transformers/models/" in f"/{name}":  # nobody's arguments are asked of these: the names are enough
                found = DEFINED.findall(archive.read(name).decode("utf-8", "replace"))
                release.modules.setdefault("transformers.models", []).extend(found)
                continue
            try:
                tree = ast.parse(archive.read(name))
            except (SyntaxError, ValueError):
                continue
            _read_module(tree, module, name.rpartition("/")[2].startswith("__init__."), library, release)
    return release


def _read_module(tree: ast.Module, module: str, is_package: bool, library: Library, release: Release) -> None:
    top = library.module.partition(".")[0]
    names: dict[str, None] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.ClassDef):
            names[node.name] = None
            _read_class(node, f"{module}.{node.name}", release)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = None
            if not node.name.startswith("_") and not any("overload" in ast.dump(each) for each in node.decorator_list):
                release.calls[f"{module}.{node.name}"] = _arguments(node, bound=False)
        elif isinstance(node, ast.ImportFrom):
            package = module if is_package else module.rpartition(".")[0]
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            source = ".".join(filter(None, (package, node.module))) if node.level else node.module or ""
            if source.partition(".")[0] == top:
                for alias in node.names:
                    names[alias.asname or alias.name if alias.name != "*" else f"*{source}"] = None
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    names[target.id] = None
                    if target.id in ("_import_structure", "__all__") and node.value is not None:
                        names.update(dict.fromkeys(_words(node.value)))
                if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == "_import_structure":
                    names.update(dict.fromkeys(_words(node.value)))
        elif isinstance(node, ast.Expr | ast.AugAssign) and "_import_structure" in ast.dump(node)[:300]:
            names.update(dict.fromkeys(_words(node)))
    release.modules[module] = [name for name in names if not name.startswith("_") or name.startswith("__all") is None]


def _words(node: ast.AST | None) -> Iterator[str]:
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            yield each.value


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of conditions and tries too."""
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)
        else:
            yield node


def _read_class(node: ast.ClassDef, name: str, release: Release) -> None:
    if node.name.startswith("_"):
        return
    release.bases[name] = [getattr(base, "attr", getattr(base, "id", "?")) for base in node.bases]
    fields: list[str] = []
    for each in _statements(node.body):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            overloaded = any("overload" in ast.dump(each) for each in each.decorator_list)
            if each.name == "__init__":
                release.calls[name] = _arguments(each, bound=True)
            elif not each.name.startswith("_") and not overloaded:
                release.calls[f"{name}.{each.name}"] = _arguments(each, bound=True)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            fields.append(each.target.id)
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    release.calls.setdefault(f"{name}.{target.id}", None)
    if name not in release.calls and any("dataclass" in ast.dump(each) for each in node.decorator_list):
        release.calls[name] = fields


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool) -> Args:
    if node.args.kwarg is not None:
        return None
    static = any(getattr(each, "id", "") == "staticmethod" for each in node.decorator_list)
    every = [*node.args.posonlyargs, *node.args.args]
    taken = [
        each.args[0].value
        for each in node.decorator_list
        if isinstance(each, ast.Call) and "deprecate_kwarg" in ast.dump(each.func) and each.args
        if isinstance(each.args[0], ast.Constant) and isinstance(each.args[0].value, str)
    ]  # what a decorator still takes, and hands on by its new name
    return [*(each.arg for each in (*every[1 if bound and not static else 0 :], *node.args.kwonlyargs)), *taken]


def releases(library: Library) -> list[Release]:
    """Those that were read, oldest first; of one series that two names stand for, one."""
    found: dict[str, Release] = {}
    for series in library.series.split():
        kept = folder(library.package) / f"{_kept(series)}.json"
        told = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
        if told is not None:
            found[told["version"]] = Release(**told)
    return list(found.values())


def table(library: Library) -> str:
    """What came and went between the releases that were read."""
    every = releases(library)
    lines = [f"{library.package} {' '.join(each.version for each in every)}"]
    names = [_names(each) for each in every]
    modules = [{*each.modules} for each in every]
    came_or_went = {
        span: [each for each in found if (span[1] >= 0 or each.count(".") <= 1) and not _is_private(each)]
        for span, found in _spans(modules).items()
    }
    lines += _groups("module", "", came_or_went, every, lambda name, _: "")
    for module in sorted(set().union(*modules)):
        if _is_private(module):
            continue
        having = [each.get(module) for each in names]
        older = [set().union(*(each.get(module, set()) for each in names[:at])) for at in range(len(every))]
        told: Spans = {}
        for (first, gone), found in _spans(having).items():
            for name in found:
                # what a package could find before by its own __getattr__ did not come then
                came = first if not first or not any(name in each for each in names[first - 1].values()) else 0
                told.setdefault((came, gone), []).append(name)
        spans = {
            span: _families(kept, older[span[0]])
            if span[0] and span[1] < 0
            else _frameworks(kept, names[span[1]].get(module, ()))
            for span, found in told.items()
            if (kept := [name for name in found if _is_kept(name, module, span, names, every)])
        }
        lines += _groups("name", module, spans, every, partial(_moved_at, module, names))
    calls = [_by_owner(each.calls) for each in every]
    public = {
        name
        for each in names
        for module, found in each.items()
        if not any(part.startswith("_") for part in module.split("."))
        and (
            module.count(".") <= 1 or (module.count(".") == 2 and any(other.startswith(f"{module}.") for other in each))
        )
        for name in found
    }
    for call in sorted({name for each in calls for name in each if name.partition(".")[0] in public}):
        known = [each.get(call) for each in calls]
        if library.package == "huggingface_hub":  # of which a decorator took it until 1.0 (utils/_validators.py)
            known = [arguments and arguments - {"use_auth_token"} for arguments in known]
        told_of_methods = "." not in call or call.startswith(("Accelerator.", "Trainer."))
        spans = {span: found for span, found in _spans(known).items() if span[1] >= 0 or told_of_methods}
        settings = [each.get(call.replace("Trainer", "Config")) for each in calls] if call.endswith("Trainer") else []
        lines += _groups("arg", call, spans, every, partial(_near_at, known, settings, call))
    members = [_members(each) for each in every]
    own: dict[str, set[str]] = {}
    for call in {call for each in every for call in each.calls if call.count(".") > 1}:
        own.setdefault(call.split(".")[-2], set()).add(call.rpartition(".")[2])
    for owner in sorted({name for each in members for name in each if name in public}):
        lost: Spans = {}
        for (_, gone), found in _spans([each.get(owner) for each in members], again=True).items():
            if gone >= 0:  # since when it is there few ask, and a value may have been one of __init__ before
                kept = [name for name in found if name in own.get(owner, ()) or OF_BASES.search(owner)]
                lost.setdefault((0, gone), []).extend(kept)
        lines += _groups("attr", owner, lost, every, lambda name, at: "")
    return "\n".join(_merged(lines)) + "\n"


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


def _merged(lines: Iterable[str]) -> Iterator[str]:
    """Lines of one module, call or class after each other as one."""
    kept, head = "", ""
    for line in lines:
        kind, of, *_ = line.split(maxsplit=2)
        own = f"{kind} {of} " if kind in ("name", "arg", "attr") else ""
        if own and own == head:
            kept += f" | {line.removeprefix(own)}"
            continue
        if kept:
            yield kept
        kept, head = line, own
    yield kept


def _names(release: Release) -> dict[str, set[str]]:
    """By module what can be imported from it, `from x import *` followed."""
    known = {module: {name for name in names if name[0] != "*"} for module, names in release.modules.items()}
    for _ in range(3):
        for module, names in release.modules.items():
            for name in names:
                if name == "*transformers.models":  # of their files only what __all__ names is told
                    known[module] |= {each for each in known.get(name[1:], ()) if OF_FAMILY.match(each)}
                elif name[0] == "*":
                    known[module] |= known.get(name[1:], set())
    if release.version == "9.5.0" and "PIL.Image" in known:
        known["PIL.Image"] |= BY_A_LOOP
    for module in known:
        parent, _, last = module.rpartition(".")
        if parent in known:
            known[parent].add(last)
    return known


Spans = dict[tuple[int, int], list[str]]
"""Index of the first release that has them, and of the first without (-1: none) -> names."""


def _spans(having: Sequence[set[str] | None], *, again: bool = False) -> Spans:
    """None: that release tells nothing. What was always there is left out, and what was away for a while; `again`: of
    this the first time."""
    told = [at for at, names in enumerate(having) if names is not None]
    spans: Spans = {}
    for name in sorted(set().union(*(names for names in having if names is not None))):
        has = [at for at in told if name in (having[at] or ())]
        if has != told[told.index(has[0]) : told.index(has[-1]) + 1]:
            if not again:
                continue
            has = has[: next(at for at, each in enumerate(has) if each != told[told.index(has[0]) + at])]
        behind = told[told.index(has[-1]) + 1 :]
        first = has[0] if has[0] != told[0] else 0
        if first or behind:
            spans.setdefault((first, behind[0] if behind else -1), []).append(name)
    return spans


def _groups(
    kind: str, of: str, spans: Spans, every: Sequence[Release], today: Callable[[str, int], str]
) -> Iterator[str]:
    for (first, gone), names in sorted(spans.items()):
        shown = [
            f"{name}={now}" if gone >= 0 and (now := today(name, gone)) else name for name in names if name[0] != "_"
        ]
        if shown:
            head = (kind, of, every[first].version if first else "-", every[gone].version if gone >= 0 else "-")
            yield " ".join((*filter(None, head), *shown))


def _is_kept(
    name: str, module: str, span: tuple[int, int], names: Sequence[Mapping[str, set[str]]], every: Sequence[Release]
) -> bool:
    """What came is told of packages; what went, where a package's own __getattr__ cannot still find it."""
    first, gone = span
    is_package = any(each.rpartition(".")[0] == module for each in names[0])
    if (
        name in NOBODYS
        or name[0] == "_"
        or MANY.search(name)
        or (first and module.count(".") > (1 if is_package or not module.startswith(("torch.", "accelerate.")) else 2))
        or (gone < 0 and not first)
    ):
        return False
    if gone >= 0 and (OF_ALIASES.search(name) or (module == "PIL.Image" and name.isupper() and name not in BY_A_LOOP)):
        return False
    if module == "transformers.models":
        return gone >= 0 and OF_ATTENTION.search(name) is not None
    if gone < 0 and name.isupper():
        return False
    if not is_package:
        last = every[gone - 1] if gone >= 0 else every[first]
        whole = f"{module}.{name}"
        if not (name.isupper() or whole in last.calls or whole in last.bases):
            return False  # imported there, as everywhere
    return gone < 0 or not (is_package and any(name in others for others in names[gone].values()))


def _families(names: Iterable[str], older: Iterable[str]) -> list[str]:
    """Of `LlamaConfig`, `LlamaModel` and the like one `Llama*`, where nothing older begins so."""
    known = tuple(older)
    kept: dict[str, None] = {}
    for name in names:
        match = OF_FAMILY.match(name)
        is_new = match is not None and not any(each.startswith(match["family"]) for each in known)
        kept[f"{match['family']}*" if match is not None and is_new else name] = None
    return list(kept)


def _frameworks(names: Iterable[str], later: Iterable[str]) -> list[str]:
    """Of `TFBertModel` and the like one `TF*`, where nothing begins so any more."""
    left = {match[0] for each in later if (match := OF_FRAMEWORK.match(each))}
    kept: dict[str, None] = {}
    for name in names:
        match = OF_FRAMEWORK.match(name)
        kept[f"{match[0]}*" if match and match[0] not in left else name] = None
    return list(kept)


def _moved(name: str, module: str, later: Mapping[str, set[str]]) -> str:
    """The module that has it in the release that lacks it here; "": none, or several as near."""
    if len(name) < 4 or (name.islower() and "_" not in name):
        return ""
    found = sorted(
        (each.count("."), each)
        for each, names in later.items()
        if name in names and each != module and not any(part.startswith("_") for part in each.split("."))
    )
    return found[0][1] if found and [depth for depth, _ in found].count(found[0][0]) == 1 else ""


def _by_owner(calls: Mapping[str, Args]) -> dict[str, set[str] | None]:
    """Class, Class.method or function, without its module, -> the arguments; None where one of that name takes any."""
    found: dict[str, set[str] | None] = {}
    for call, arguments in calls.items():
        parts = call.split(".")
        owner = ".".join(parts[-2:]) if len(parts) > 2 and parts[-2][0].isupper() else parts[-1]
        known = found.get(owner, set())
        found[owner] = None if arguments is None or known is None else known | {*arguments}
    return found


def _moved_at(module: str, names: Sequence[Mapping[str, set[str]]], name: str, at: int) -> str:
    return OF_ANOTHER.get((module, name)) or _moved(name, module, names[at])


def _near_at(
    known: Sequence[set[str] | None], settings: Sequence[set[str] | None], call: str, name: str, at: int
) -> str:
    """The one argument that came as this one went, and is much like it; what a trainer's settings take since then."""
    if settings and name in (settings[at] or ()):
        new = RENAMED.get(name, name)
        own = new if name not in (settings[-1] or ()) and new in (settings[-1] or ()) else name
        return f"{call.replace('Trainer', 'Config')}({own}=...)"
    if (new := RENAMED.get(name, "")) in (known[at] or ()):
        return new
    before = next((each for each in reversed(known[:at]) if each is not None and name in each), set())
    came = (known[at] or set()) - before
    like = difflib.get_close_matches(name, sorted(came), n=2, cutoff=LIKE)
    return like[0] if len(like) == 1 else ""


def _members(release: Release) -> dict[str, set[str] | None]:
    """Of each class its methods and values, with those of its bases in the package."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for owner, names in release.bases.items():
        own.setdefault(owner.rpartition(".")[2], set())
        bases.setdefault(owner.rpartition(".")[2], set()).update(names)
    for call in release.calls:
        parts = call.split(".")
        if len(parts) > 2 and parts[-2] in own:
            own[parts[-2]].add(parts[-1])
    found: dict[str, set[str] | None] = {}
    for owner, methods in own.items():
        every, asked = set(methods), [owner]
        for each in asked:
            asked += [base for base in bases.get(each, ()) if base in own and base not in asked]
            every |= own[each]
        found[owner] = every
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["fetch"]:
        fetch(sys.argv[2:])
    else:
        TABLES.mkdir(exist_ok=True)
        for one in LIBRARIES:
            if all((folder(one.package) / f"{_kept(each)}.json").exists() for each in one.series.split()):
                (TABLES / f"{one.module}.txt").write_text(table(one), encoding="utf-8")
