"""What a document holds against the tables of knowledge/schemas: fields nobody knows, values of another kind, what is
missing, words that are none of those to choose from.

A table's line is an object's name and its fields, each with its shape: s a string, i an integer, n a number, b a
boolean, q a quantity (number or string), x an integer or a string, * anything, @NAME an object, [..] a list, {..} a
mapping of any names, A/B either; s(a|b) one of these words (s(~a|b) in whatever capitals), i(1..9) a range. `!` behind
a name: it is required. `...` any other field, `x-...` those that begin with x-. `= KIND NAME` says which object a
document of a kind is, `+ VERSION KIND ...` which kinds an apiVersion has, `! lax` that it is read as pydantic reads.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources

from msgspec import Struct

from gpudoctor.knowledge.hugging_face_options import nearest
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Manifest, ManifestValue

Path = tuple[str, ...]
NULL = frozenset(("", "null", "Null", "NULL", "~"))
NUMBER = lazy_re(
    r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+|0o?[0-7]+)|[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+"
)
INTEGER = lazy_re(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+|0o?[0-7]+)(?:\.0*)?")
BOOLEAN = lazy_re(r"true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
"""What readers of YAML 1.1 take for a boolean (PyYAML, sigs.k8s.io/yaml); y and n are left out."""
_FILLED_IN = lazy_re(r"[$<{]|\b[A-Z]+_[A-Z_]+\b")
"""What somebody fills in before it is read."""
_READ = {
    "axolotl": "0.19", "azure": "1.35", "deepspeed": "0.19", "determined": "0.38", "dstack": "0.22",
    "kubernetes": "1.36", "llamafactory": "0.9.6", "skypilot": "0.14",
}  # fmt: skip
"""The releases that knowledge/schemas/README.txt names."""
_KIND_NAMES = {"s": "a string", "i": "a whole number", "n": "a number", "b": "true or false", "q": "a quantity",
               "x": "a whole number or a string", "[": "a list", "{": "a mapping", "@": "a mapping"}  # fmt: skip
_WORDS = {"string": "a string", "number": "a number", "boolean": "true or false", "list": "a list", "map": "a mapping"}


class Schema(Struct):
    """One table. Lines are taken apart when they are asked for."""

    lines: dict[str, str]
    kinds: dict[str, str]
    versions: dict[str, frozenset[str]]
    lax: bool = False
    """As pydantic reads: numbers and true in quotes are what they say, and so is 8.0 for 8."""
    objects: dict[str, dict[str, str]] = {}
    read: str = ""
    """Of which release it is: "skypilot 0.14"."""

    def fields(self, name: str) -> Mapping[str, str]:
        """The fields of an object with their shapes; `!` stays behind a required one's shape."""
        if name not in self.objects:
            self.objects[name] = dict(_field(word) for word in self.lines[name].split())
        return self.objects[name]


def _field(word: str) -> tuple[str, str]:
    name, _, shape = word.partition(":")
    return (name[:-1], shape + "!") if name.endswith("!") else (name, shape)


@lru_cache(maxsize=8)
def schema(name: str) -> Schema:
    text = resources.files("gpudoctor.knowledge").joinpath("schemas", f"{name}.txt").read_text(encoding="utf-8")
    lines, kinds, versions = {}, {}, {}
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        if first == "=":
            kind, _, of = rest.rpartition(" ")
            kinds[kind] = of
        elif first == "+":
            version, _, known = rest.partition(" ")
            versions[version] = frozenset(known.split())
        else:
            lines[first] = rest
    read = f"{name} {_READ[name]}" if name in _READ else ""
    return Schema(lines, kinds, versions, lines.pop("!", "") == "lax", read=read)


class SchemaProblem(Struct, frozen=True):
    """What a table has against a document."""

    what: str
    """unknown, kind, required, word, range."""
    path: Path
    value: ManifestValue
    """Where it is shown."""
    of: str
    """The object that stands there."""
    wanted: str = ""
    """In words: the kind that is wanted, the words to choose from, the field that is missing, or the nearest name."""
    is_: str = ""
    """What is there instead."""
    home: str = ""
    """Of an unknown field: where it belongs."""
    read: str = ""
    """Of an unknown field: the release of the table."""


class Tree(Struct):
    """A document as mappings and lists of each other. `first` is the first scalar below."""

    children: "dict[str, Tree]" = {}
    scalar: ManifestValue | None = None
    first: ManifestValue | None = None

    @property
    def is_list(self) -> bool:
        return bool(self.children) and all(key.isdecimal() for key in self.children)


def tree_of(manifest: Manifest) -> Tree:
    root = Tree()
    for value in manifest.values:
        node = root
        node.first = node.first or value
        for key in value.path:
            node = node.children.setdefault(key, Tree())
            node.first = node.first or value
        node.scalar = value
    for path in manifest.empty:
        node = root
        for key in path:
            node = node.children.setdefault(key, Tree())
    return root


def problems(table: Schema, of: str, manifest: Manifest, text: str, *, whole: bool = True) -> Iterator[SchemaProblem]:
    """All of a document that is such an object. `whole`: what is required is looked for too."""
    yield from _SchemaWalk(table, text, whole).object(of, tree_of(manifest), ())


class _SchemaWalk:
    def __init__(self, table: Schema, text: str, whole: bool) -> None:
        self.table = table
        self.text = text
        self.whole = whole
        self.above: list[tuple[str, Path]] = []
        """The objects that hold the one that is looked at."""

    def object(self, name: str, tree: Tree, path: Path) -> Iterator[SchemaProblem]:
        fields = self.table.fields(name)
        self.above.append((name, path))
        for key, child in tree.children.items():
            at = (*path, key)
            shape = fields.get(key)
            if shape is not None:
                yield from self.shape(shape.rstrip("!"), child, at, name)
            elif child.first is not None and not self._is_open(fields, key):
                wanted, home = nearest(key, frozenset(fields)), self._home(key, name, tree)
                wanted = "" if home else wanted
                yield SchemaProblem("unknown", at, child.first, name, wanted, "", home, self.table.read)
        self.above.pop()
        if self.whole and tree.first is not None and "<<" not in tree.children:
            for key, shape in fields.items():
                present = tree.children.get(key)
                is_null = present is not None and present.scalar is not None and self._plain(present.scalar) in NULL
                if shape.endswith("!") and (present is None or is_null):
                    yield SchemaProblem("required", (*path, key), tree.first, name, key)

    @staticmethod
    def _is_open(fields: Mapping[str, str], key: str) -> bool:
        filled_in = re.search(r"[$<{*]|^\?", key) is not None
        return "..." in fields or filled_in or key == "<<" or ("x-..." in fields and key.startswith("x-"))

    def _home(self, key: str, name: str, tree: Tree) -> str:
        """Where a field belongs that stands too high or too low."""
        for above, path in reversed(self.above[:-1]):
            if key in self.table.fields(above):
                return ".".join(re.sub(r"^\d+$", "*", part) for part in path) or "the top"
        waiting: list[tuple[str, Path]] = [(name, ())] if name in self.table.lines else []
        seen: set[str] = set()
        for _ in range(60):
            if not waiting:
                break
            inside, way = waiting.pop(0)
            for field, shape in self.table.fields(inside).items():
                for of in re.findall(r"@(\w+)", shape) if len(way) < 3 else ():
                    if of not in seen and (way or field in tree.children or len(self.above) == 1):
                        if key in self.table.fields(of):
                            return ".".join((*way, field))
                        seen.add(of)
                        waiting.append((of, (*way, field)))
        return self._only_home(key, name)

    def _only_home(self, key: str, name: str) -> str:
        """The one object right below, written or not, that has the field."""
        fields = self.table.fields(name).items() if name in self.table.lines else ()
        homes = [
            field
            for field, shape in fields
            if shape.startswith("@") and any(key in self.table.fields(of) for of in re.findall(r"@(\w+)", shape))
        ]
        return homes[0] if len(homes) == 1 else ""

    def shape(self, shape: str, tree: Tree, path: Path, of: str) -> Iterator[SchemaProblem]:
        if shape == "*" or tree.first is None:
            return
        ways = _alternatives(shape)
        if len(ways) > 1:
            each = [list(self.shape(way, tree, path, of)) for way in ways]
            if all(each):  # none fits: what the one of the same kind says
                deep = [one for one in each if one[0].what != "kind" or one[0].path != path]
                yield from deep[0] if deep else [self._kind(path, tree, of, " or ".join(map(_in_words, ways)))]
            return
        if tree.scalar is not None:
            yield from self._scalar(shape, tree.scalar, path, of)
        elif shape[0] == "[":
            if not tree.is_list:
                yield self._kind(path, tree, of, "a list")
                return
            for key, child in tree.children.items():
                yield from self.shape(shape[1:-1], child, (*path, key), of)
        elif shape[0] in "{@":
            if tree.is_list and shape[0] == "@":
                yield self._kind(path, tree, of, "a mapping")
            elif shape[0] == "@":
                yield from self.object(shape[1:], tree, path)
            else:
                for key, child in tree.children.items():
                    yield from self.shape(shape[1:-1], child, (*path, key), of)
        else:
            yield self._kind(path, tree, of, _in_words(shape))

    @staticmethod
    def _kind(path: Path, tree: Tree, of: str, wanted: str) -> SchemaProblem:
        assert tree.first is not None
        is_ = "list" if tree.is_list else "map"
        return SchemaProblem("kind", path, tree.first, of, wanted, _WORDS[is_ if tree.scalar is None else "string"])

    def _plain(self, value: ManifestValue) -> str | None:
        """The text of a scalar without quotes, a patch's where kustomize puts it; None of one in quotes, or over
        lines."""
        raw = self.text[value.span.start : value.span.end]
        return None if raw.startswith(('"', "'", "|", ">")) else value.value

    def _scalar(self, shape: str, value: ManifestValue, path: Path, of: str) -> Iterator[SchemaProblem]:
        plain = value.value if self.table.lax and shape[0] in "inb" else self._plain(value)
        if plain in NULL or _FILLED_IN.search(value.value):
            return
        number = plain is not None and NUMBER.fullmatch(plain) is not None
        boolean = plain is not None and BOOLEAN.fullmatch(plain) is not None
        is_ = "number" if number else "boolean" if boolean else "string"
        letter = shape[0]
        whole = number and (INTEGER.fullmatch(plain or "") is not None or (self.table.lax and _is_whole(plain or "")))
        fits = {
            "s": is_ == "string", "i": whole or (self.table.lax and boolean),
            "n": number or (self.table.lax and boolean),
            "b": boolean or (self.table.lax and plain in ("0", "1")),
            "q": not boolean, "x": is_ == "string" or whole,
        }.get(letter, False)  # fmt: skip
        if not fits:
            yield SchemaProblem("kind", path, value, of, _in_words(shape), _WORDS[is_])
        elif letter == "s" and "(" in shape:
            words = shape[2:-1].removeprefix("~").split("|")
            folded = value.value.lower() if shape[2] == "~" else value.value
            if folded not in ([word.lower() for word in words] if shape[2] == "~" else words):
                yield SchemaProblem("word", path, value, of, ", ".join(filter(None, words)), value.value)
        elif letter == "i" and "(" in shape:
            least, _, most = shape[2:-1].partition("..")
            amount = int(float((plain or "0").replace("_", ""))) if re.fullmatch(r"[-+]?[\d.]+", plain or "") else None
            if amount is not None and ((least and amount < int(least)) or (most and amount > int(most))):
                yield SchemaProblem(
                    "range", path, value, of, f"{least or '...'} to {most}" if most else f"{least} or more"
                )


def _is_whole(text: str) -> bool:
    """5e8 and 8.0."""
    return (
        re.fullmatch(r"[-+]?\d{1,18}(?:\.\d{0,18})?(?:[eE]\+?\d{1,2})?", text) is not None and float(text).is_integer()
    )


def _alternatives(shape: str) -> list[str]:
    """The parts of A/B/[C/D]."""
    parts, depth, begin = [], 0, 0
    for index, letter in enumerate(shape):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "/" and not depth:
            parts.append(shape[begin:index])
            begin = index + 1
    return [*parts, shape[begin:]]


def _in_words(shape: str) -> str:
    return _KIND_NAMES.get(shape[0], "something else")
