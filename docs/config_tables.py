"""Write tables of knowledge/schemas from the sources of programs and services that read a configuration by classes:
`python -m docs.config_tables FOLDER`.

FOLDER holds, fetched by hand: axolotl/*.py (axolotl's utils/schemas), dstack/*.py (core/models), determined/*.json
(schemas/expconf/v0), azure/ (azure-ai-ml's package folder azure/ai/ml), llamafactory/*.py (hparams and
extras/constants.py) and llamafactory_releases/VERSION/*.py (hparams of its releases). Nothing of them is imported:
classes are read by their syntax trees. Not shipped. A field whose value a validator may change before it is held
against its kind takes anything.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from docs.schema_tables import HERE, Reader, Table
from gpudoctor.knowledge.hugging_face_options import arguments_of

PLAIN = {"bool": "b", "int": "i", "float": "n", "str": "s", "NonNegativeInt": "i(0..)", "PositiveInt": "i(1..)"}
EMPTY = frozenset(("None", "NoneType"))
MAPPINGS = frozenset(("ResourcesSpec", "RegistryAuth", "UtilizationPolicy"))
"""Classes of dstack that are written as mappings alone; others are parsed from texts too."""


class Classes:
    """The classes of a package, by name; whose fields are annotated (pydantic, dataclasses)."""

    def __init__(self, folder: Path, *, closed: bool, any_text: bool = False) -> None:
        self.nodes: dict[str, ast.ClassDef] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.closed = closed
        self.any_text = any_text
        """Kinds are of words and names alone, where validators are everywhere."""
        self.table = Table()
        for path in sorted(folder.rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    self.nodes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases.setdefault(node.targets[0].id, node.value)

    def lines(self, name: str) -> Iterator[ast.stmt]:
        """Those of a class and of its bases; its own come last."""
        node = self.nodes.get(name)
        for base in reversed(node.bases) if node is not None else ():
            inside = base.slice if isinstance(base, ast.Subscript) else None
            for each in ast.walk(base):
                if isinstance(each, ast.Name) and each.id in self.nodes and each is not inside:
                    yield from self.lines(each.id)
        yield from node.body if node is not None else ()

    def object(self, name: str) -> str:
        if name in self.table.types:
            return f"@{name}"
        self.table.types[name] = {}
        changed = set(self._changed(name))
        fields: dict[str, str] = {}
        for line in self.lines(name):
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            field = line.target.id
            if field.startswith("_") or field == "model_config" or "ClassVar" in ast.unparse(line.annotation):
                continue
            shape = "*" if field in changed else self.shape(line.annotation)
            given = {keyword.arg: keyword.value for keyword in line.value.keywords} if isinstance(
                line.value, ast.Call
            ) else {}  # fmt: skip
            alias = given.get("alias")
            fields[alias.value if isinstance(alias, ast.Constant) else field] = shape  # type: ignore[index]
        if not self.closed:
            fields["..."] = "*"
        self.table.types[name] = fields
        return f"@{name}"

    def _changed(self, name: str) -> Iterator[str]:
        """Fields that a validator looks at before their kind is held against them."""
        for line in self.lines(name):
            for decorator in line.decorator_list if isinstance(line, ast.FunctionDef) else ():
                if isinstance(decorator, ast.Call) and re.search(r"validator|before", ast.unparse(decorator)):
                    yield from (arg.value for arg in decorator.args
                                if isinstance(arg, ast.Constant) and isinstance(arg.value, str))  # fmt: skip

    def shape(self, node: ast.expr) -> str:
        shapes = list(dict.fromkeys(filter(None, self._ways(node))))
        if not shapes or "*" in shapes:
            return "*"
        return "/".join(shapes)

    def _ways(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.BinOp(left, ast.BitOr(), right):
                yield from self._ways(left)
                yield from self._ways(right)
            case ast.Constant(None):
                yield ""
            case ast.Constant(str(text)):
                yield from self._ways(ast.parse(text, mode="eval").body)
            case ast.Name(name) if name in PLAIN:
                yield "*" if self.any_text else PLAIN[name]
            case ast.Name(name) if name in EMPTY:
                yield ""
            case ast.Name(name) if name in self.nodes:
                is_enum = any("Enum" in ast.unparse(base) for base in self.nodes[name].bases)
                yield "*" if self.any_text and name not in MAPPINGS and not is_enum else self._of_class(name)
            case ast.Name(name) if name in self.aliases:
                yield from self._ways(self.aliases[name])
            case ast.Subscript(ast.Name("Optional"), inner):
                yield from self._ways(inner)
            case ast.Subscript(ast.Name("Union"), ast.Tuple(parts)):
                for part in parts:
                    yield from self._ways(part)
            case ast.Subscript(ast.Name("Annotated"), ast.Tuple([first, *rest])):
                yield "*" if "Validator" in "".join(map(ast.unparse, rest)) else self.shape(first)
            case ast.Subscript(ast.Name("list" | "List" | "Sequence"), inner):
                yield f"[{self.shape(inner)}]"
            case ast.Subscript(ast.Name("Literal"), inner):
                words = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                yield _words([word.value if isinstance(word, ast.Constant) else None for word in words])
            case _:
                yield "*"

    def _of_class(self, name: str) -> str:
        bases = [ast.unparse(base) for base in self.nodes[name].bases]
        if any("Enum" in base for base in bases):
            values = [
                line.value.value
                for line in self.nodes[name].body
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
            ]
            return _words(values)
        if any(isinstance(line, ast.AnnAssign) for line in self.lines(name)):
            return self.object(name)
        return "*"


def _words(values: list[Any]) -> str:
    plain = all(isinstance(value, str) and re.fullmatch(r"[\w.+-]+", value) for value in values)
    return f"s({'|'.join(values)})" if values and plain else "*"


def axolotl(folder: Path) -> None:
    classes = Classes(folder, closed=False)
    classes.table.kinds["axolotl"] = classes.object("AxolotlInputConfig").removeprefix("@")
    classes.table.write(HERE / "axolotl.txt", ["! lax"])


def dstack(folder: Path) -> None:
    classes = Classes(folder, closed=True, any_text=True)
    for name in ("TaskConfiguration", "ServiceConfiguration", "DevEnvironmentConfiguration"):
        classes.table.kinds[name] = classes.object(name).removeprefix("@")
    classes.table.write(HERE / "dstack.txt", ["! lax"])


def determined(folder: Path) -> None:
    root: dict[str, Any] = {"definitions": {}}
    for path in sorted(folder.glob("*.json")):
        root["definitions"][path.stem.replace("-", "_")] = json.loads(path.read_text())
    for schema in root["definitions"].values():
        _local(schema)
    for name, schema in root["definitions"].items():
        _joined(root, name, schema)
    table = Table()
    reader = Reader(table, root, closed=True)
    reader.closed = False  # no object of Kubernetes is looked for
    table.kinds["determined"] = reader.shape({"$ref": "#/definitions/experiment"}, "Experiment").removeprefix("@")
    table.write(HERE / "determined.txt", ["! lax"])


def _local(schema: Any) -> None:
    if isinstance(schema, dict):
        for key in ("$ref", "optionalRef", "eventuallyRef"):
            if isinstance(schema.get(key), str):
                name = schema.pop(key).rpartition("/")[2].removesuffix(".json").replace("-", "_")
                plain = [kind for kind in schema.get("type", []) if kind not in ("object", "array", "null")]
                for other in [key for key in schema if key != "unionKey"]:
                    del schema[other]
                if isinstance(plain, list) and plain:
                    schema["oneOf"] = [{"$ref": f"#/definitions/{name}"}, *({"type": kind} for kind in plain)]
                else:
                    schema["$ref"] = f"#/definitions/{name}"
        for value in schema.values():
            _local(value)
    elif isinstance(schema, list):
        for value in schema:
            _local(value)


def _joined(root: Mapping[str, Any], name: str, schema: dict[str, Any]) -> None:
    """A union of objects as one object with the fields of all; one of other things is any of them."""
    if "allOf" in schema and "properties" not in schema:
        first = schema["allOf"][0]
        schema.clear()
        schema |= first
    union = schema.get("union") or schema.get("then", {}).get("union")
    parts = [root["definitions"][part["$ref"].rpartition("/")[2]] for part in (union or {}).get("items", ())
             if "$ref" in part]  # fmt: skip
    is_checked = [key for key in ("checks", "conditional", "if") if key in schema]
    if union and parts and len(parts) == len(union["items"]) and all("properties" in part for part in parts):
        kept = {key: value for key, value in (schema.get("properties") or {}).items() if isinstance(value, dict)}
        for part in parts:
            for key, value in part["properties"].items():
                kept.setdefault(key, value if isinstance(value, dict) and "const" not in value else {})
        names = [
            part["properties"]["name"]["const"] for part in parts if "const" in str(part["properties"].get("name"))
        ]
        if names:
            kept["name"] = {"enum": names}
        schema.clear()
        schema |= {"type": "object", "properties": kept, "additionalProperties": False}
    elif union:
        items = [{key: value for key, value in item.items() if key != "unionKey"} for item in union["items"]]
        schema.clear()
        schema |= {"oneOf": items} if all(item.keys() & {"$ref", "type"} for item in items) else {}
    for key in is_checked:
        schema.pop(key, None)
    schema.pop("required", None)  # "eventually", by the defaults of the cluster
    if "properties" in schema:
        schema["properties"] = {
            key: value if isinstance(value, dict) else {} for key, value in schema["properties"].items()
        }


def llamafactory(folder: Path, releases: Mapping[str, set[str]]) -> None:
    """Words of enumerations (kinds are held against nothing by parse_dict), and the keys that releases have dropped."""
    classes = Classes(folder, closed=False, any_text=True)
    words = {}
    for name in [name for name in classes.nodes if name.endswith(("Arguments", "Argument"))]:
        classes.table.types.pop(name, None)
        for line in classes.lines(name):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                shape = classes.shape(line.annotation)
                words[line.target.id] = shape if shape.startswith("s(") else "*"
    gone: dict[str, str] = {}
    order = list(releases)
    for before, after in pairwise(order):
        gone |= {name: after.lstrip("v") for name in releases[before] - releases[after]}
    known = words.keys() | releases[order[-1]] | arguments_of("Seq2SeqTrainingArguments", "transformers")
    table = Table()
    table.types["Config"] = {name: shape for name, shape in words.items() if shape != "*"} | {"...": "*"}
    table.types["Gone"] = {name: version for name, version in sorted(gone.items()) if name not in known}
    table.kinds["llamafactory"] = "Config"
    table.write(HERE / "llamafactory.txt", ["! lax"])


def fields_of(sources: Iterator[str]) -> set[str]:
    """Every annotated name of the classes of arguments."""
    return {
        line.target.id
        for source in sources
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and "Argument" in node.name
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


AZURE = {"CommandJob": "CommandJobSchema", "PipelineJob": "PipelineJobSchema"}
MARSHMALLOW = {"Str": "*", "Int": "i", "Integer": "i", "Bool": "b", "Boolean": "b"}


def azure(folder: Path) -> None:
    """marshmallow's schemas, which refuse every other field."""
    nodes: dict[str, ast.ClassDef] = {}
    for path in sorted((folder / "_schema").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                nodes.setdefault(node.name, node)
    table = Table()

    def lines(name: str) -> Iterator[ast.stmt]:
        for base in reversed(nodes[name].bases):
            if isinstance(base, ast.Name) and base.id in nodes:
                yield from lines(base.id)
        yield from nodes[name].body

    def shape(value: ast.expr) -> str:
        call = value if isinstance(value, ast.Call) else None
        name = ast.unparse(call.func).rpartition(".")[2] if call is not None else ""
        if call is None:
            return "*"
        if name == "ExperimentalField":
            return shape(call.args[0])
        if name == "NestedField" and isinstance(call.args[0], ast.Name) and call.args[0].id in nodes:
            return made(call.args[0].id)
        if name == "DistributionField":
            return "@Distribution"
        return MARSHMALLOW.get(name, "*")

    def made(name: str) -> str:
        if name not in table.types:
            fields: dict[str, str] = {}
            table.types[name] = fields
            for line in lines(name):
                target = line.targets[0] if isinstance(line, ast.Assign) else None
                if isinstance(line, ast.Assign) and isinstance(target, ast.Name) and isinstance(line.value, ast.Call):
                    fields[target.id] = shape(line.value)
            if any("ComputeResource" in ast.unparse(base) for base in nodes[name].bases):
                fields["..."] = "*"
        return f"@{name}"

    for kind, name in AZURE.items():
        table.kinds[kind] = made(name).removeprefix("@")
        table.types[name] |= {"$schema": "*"}
    merged: dict[str, str] = {}
    for name in ("MPIDistributionSchema", "TensorFlowDistributionSchema", "PyTorchDistributionSchema",
                 "RayDistributionSchema"):  # fmt: skip
        made(name)
        merged |= table.types.pop(name)
    merged.pop("type")
    table.types["Distribution"] = merged | {"type!": "s(~mpi|pytorch|tensorflow|ray)"}
    reachable: set[str] = set()
    waiting = list(table.kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in reachable:
            reachable.add(name)
            waiting += re.findall(r"@(\w+)", " ".join(table.types[name].values()))
    table.types = {name: table.types[name] for name in reachable}
    table.write(HERE / "azure.txt", ["! lax"])


if __name__ == "__main__":
    given = Path(sys.argv[1])
    axolotl(given / "axolotl")
    dstack(given / "dstack")
    determined(given / "determined")
    azure(given / "azure")
    tags = sorted((given / "llamafactory_releases").iterdir(), key=lambda path: [*map(int, path.name.split("."))])
    llamafactory(
        given / "llamafactory",
        {tag.name: fields_of(path.read_text() for path in tag.glob("*.py")) for tag in tags},
    )
