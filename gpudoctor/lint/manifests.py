"""Manifests in YAML or JSON: PyTorchJob, TrainJob, JobSet, Job, Pod, MPIJob, RayJob; tasks of SkyPilot and dstack.

Only PyYAML's events are used: nothing is constructed, tags mean nothing, an alias costs what it adds, up to a bound.
`containers.invocations_of` reads the commands inside.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.containers import invocations_of
from gpudoctor.lint.model import Manifest, ManifestValue, Span

__all__ = ["invocations_of", "looks_like_manifest", "read_manifests"]

MOST_VALUES = 20_000
"""Values of one document; more come from aliases of aliases only (our own bound)."""
MOST_DOCUMENTS = 200
LONGEST_WITHOUT_C = 200_000
"""Characters that PyYAML's own parser is asked to read, without libyaml: about a second (measured)."""
DEEPEST = 100

KUBERNETES = lazy_re(
    r"""^[ \t{]{0,40}["']?apiVersion["']?[ \t]{0,9}:|,[ \t]{0,9}"apiVersion"[ \t]{0,9}:""", re.MULTILINE
)
KIND = lazy_re(r"""^[ \t{]{0,40}["']?kind["']?[ \t]{0,9}:|,[ \t]{0,9}"kind"[ \t]{0,9}:""", re.MULTILINE)


DOCUMENT = lazy_re(r"(?:[ \t]*(?:#(?!!)[^\n]*|---)?\n)*(?:[\w.\"-]+:(?:[ \t]|\n)|\{\s*\")")
COMMAND = lazy_re(
    r"^[ \t-]*[\"']?(?:command|run|entrypoint|cmd|script|args|start_?cmd|launch_?cmd|source|shell)s?[\"']?[ \t]*:",
    re.MULTILINE,
)
"""A document of a kind that we do not know, with a command in it."""
STARTS = lazy_re(
    r"\b(?:torchrun|python[\d.]*|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun|composer|colossalai|torch\.distributed"
    r"|fabric|litgpt|llamafactory-cli|axolotl|tune|ray)[\"',]*\s"
)


_KUSTOMIZATION = frozenset(
    (
        "apiVersion",
        "kind",
        "resources",
        "bases",
        "components",
        "patches",
        "patchesStrategicMerge",
        "patchesJson6902",
        "replicas",
        "images",
        "namespace",
        "namePrefix",
        "nameSuffix",
        "labels",
        "commonLabels",
        "commonAnnotations",
        "configMapGenerator",
        "secretGenerator",
        "generatorOptions",
    )
)
_TOP = lazy_re(r"^([A-Za-z]\w*):", re.MULTILINE)


def looks_like_manifest(text: str) -> bool:
    """Whether a text is YAML or JSON with apiVersion and kind, a kustomization, or a task of SkyPilot or dstack."""
    if KUBERNETES.search(text) and KIND.search(text):
        return True
    keys = set(_TOP.findall(text))
    if keys & {"resources", "bases"} and keys <= _KUSTOMIZATION and len(keys) > 1:
        return True
    return bool(_task(text))


def _task(text: str) -> str:
    """The kind of a task's file, which says no kind."""
    for kind in registry.manifest_kinds().values():
        if kind.looks and all(re.search(f"^{look}", text, re.MULTILINE) for look in kind.looks):
            return kind.kind
    document = DOCUMENT.match(text) and COMMAND.search(text) and STARTS.search(text)
    return "Document" if document else ""


def patched(manifests: list[Manifest]) -> list[Manifest]:
    """With the values of kustomize's patches: documents of the kind and name of another one that have no image."""
    by_name: dict[tuple[str, str, str], list[int]] = {}
    for index, manifest in enumerate(manifests):
        name = next((value.value for value in manifest.values if value.path == ("metadata", "name")), "")
        if name and manifest.api_version:
            by_name.setdefault((manifest.api_version, manifest.kind, name), []).append(index)
    for places in by_name.values():
        whole = [at for at in places if any(value.path[-1:] == ("image",) for value in manifests[at].values)]
        patches = [at for at in places if at not in whole]
        if len(whole) != 1 or not patches:
            continue
        new = {
            value.path: value
            for at in patches
            for value in manifests[at].values
            if not any(map(str.isdecimal, value.path))
        }
        base = manifests[whole[0]]
        manifests[whole[0]] = structs.replace(base, values=tuple(_with(value, new) for value in base.values))
    return _by_operations(manifests)


def patches_of(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Those that are a part of another one, which has their kind, their name and the image that they lack."""
    named: dict[tuple[str, str, str], list[tuple[Manifest, bool]]] = {}
    for manifest in manifests:
        name = next((value.value for value in manifest.values if value.path == ("metadata", "name")), "")
        has_image = any(value.path[-1:] == ("image",) for value in manifest.values)
        named.setdefault((manifest.api_version, manifest.kind, name), []).append((manifest, has_image))
    return [
        manifest
        for (_, _, name), alike in named.items()
        for manifest, has_image in alike
        if name and not has_image and any(of_other for _, of_other in alike)
    ]


def _by_operations(manifests: list[Manifest]) -> list[Manifest]:
    """With the operations of a kustomization's patches (`op: replace, path: /spec/completions, value: 4`) and its
    `replicas`, in what they name."""
    for overlay in list(manifests):
        values = {value.path: value for value in overlay.values}
        for path, text in values.items():
            if path[-1:] == ("patch",) and path[:1] in (("patches",), ("patchesJson6902",)):
                named = {key: values.get((*path[:-1], "target", key)) for key in ("kind", "name")}
                target = {key: value.value for key, value in named.items() if value is not None}
                _change(manifests, target, dict(_operations(text)))
            count = values.get((*path[:-1], "count"))
            if path[:1] == ("replicas",) and path[-1:] == ("name",) and count is not None:
                place = ("spec", "replicas")
                _change(manifests, {"name": text.value}, {place: ManifestValue(place, count.value, count.span)})
    return manifests


def _operations(patch: ManifestValue) -> Iterator[tuple[tuple[str, ...], ManifestValue]]:
    """What a JSON patch puts where."""
    for document in read_manifests(patch.value):
        steps = {value.path: value.value for value in document.values}
        for path, pointer in steps.items():
            if path[1:] != ("path",) or steps.get((path[0], "op")) not in ("replace", "add"):
                continue
            place = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
            new = steps.get((path[0], "value"))
            if new is not None:
                yield place, ManifestValue(place, new, patch.span)


def _change(manifests: list[Manifest], target: dict[str, str], new: dict[tuple[str, ...], ManifestValue]) -> None:
    for index, base in enumerate(manifests):
        name = next((value.value for value in base.values if value.path == ("metadata", "name")), "")
        if not base.api_version or not name or not new or target.get("name", name) != name:
            continue
        if target.get("kind", base.kind) == base.kind:
            manifests[index] = structs.replace(base, values=tuple(_with(value, new) for value in base.values))


def _with(value: ManifestValue, new: dict[tuple[str, ...], ManifestValue]) -> ManifestValue:
    """The patch's text at the place of the one that it replaces."""
    other = new.get(value.path)
    return ManifestValue(value.path, other.value, value.span) if other is not None else value


class _YamlNode:
    """A scalar (value), a mapping (pairs) or a sequence (items) of a document."""

    __slots__ = ("items", "key", "pairs", "span", "value")

    def __init__(self, span: Span, value: str | None = None) -> None:
        self.span = span
        self.value = value
        self.items: list[_YamlNode] | None = None
        self.pairs: list[tuple[str | None, _YamlNode]] | None = None
        self.key: str | None = None


def read_manifests(text: str, start: int = 0, line: int = 1) -> tuple[Manifest, ...]:
    """One for each document. Never raises; what cannot be read has a `fault`, and what was read before it is kept."""
    import yaml  # 15 ms that a shell script need not wait for

    loader = getattr(yaml, "CSafeLoader", None)
    if loader is None:
        if len(text) > LONGEST_WITHOUT_C:
            return (Manifest("", "", (), f"{len(text)} characters are more than PyYAML reads here without libyaml"),)
        loader = yaml.SafeLoader
    places = _Places(text, start, line)
    manifests: list[Manifest] = []
    root: list[_YamlNode] = []
    fault = ""
    try:
        for document in _documents(text, loader, places, root):
            if document is not None and (read := _manifest(document)).kind != "CustomResourceDefinition":
                manifests.append(read)  # of a kind's schema the fields are no object's
            if len(manifests) >= MOST_DOCUMENTS:
                break
        root = []
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
        fault = f"line {line + mark.line}: {problem}" if mark is not None else str(problem)
    except (ValueError, RecursionError, MemoryError) as error:
        fault = str(error) or f"it is not YAML ({type(error).__name__})"
    if fault:
        partial = _manifest(root[0]) if root else Manifest("", "", ())
        manifests.append(structs.replace(partial, fault=fault))
    return tuple(manifests)


class _Places:
    """Offsets for rows and columns: PyYAML's own `index` is not to be trusted where libyaml saw a byte order mark."""

    def __init__(self, text: str, start: int, line: int) -> None:
        self.rows = [0, *(match.end() for match in re.finditer(r"\r\n|[\r\n\x85\u2028\u2029]", text))]
        self.text = text
        self.start = start
        self.line = line
        self.newlines = [match.end() for match in re.finditer("\n", text)]

    def offset(self, mark: Any) -> int:
        row: int = self.rows[min(mark.line, len(self.rows) - 1)]
        shift = int(mark.line == 0 and self.text.startswith("\ufeff") and mark.column > 0)
        return min(row + int(mark.column) + shift, len(self.text))

    def span(self, first: Any, last: Any) -> Span:
        begin, end = self.offset(first), self.offset(last)
        while end > begin and self.text[end - 1].isspace():
            end -= 1  # a block scalar ends where the next key begins
        return Span(self.start + begin, self.start + max(begin, end), self.line + bisect_right(self.newlines, begin))


def _documents(text: str, loader: type, places: _Places, current: list[_YamlNode]) -> Iterator[_YamlNode | None]:
    """The documents' roots (None: an empty one). `current` is the one being read: what stands before a fault."""
    import yaml

    stack: list[_YamlNode] = []
    anchors: dict[str, _YamlNode] = {}

    def add(node: _YamlNode) -> None:
        if not stack:
            current[:] = [node]
            return
        parent = stack[-1]
        if parent.items is not None:
            parent.items.append(node)
        elif parent.pairs is not None:
            if parent.key is None:
                parent.key = node.value if node.value is not None else "?"
            else:
                parent.pairs.append((parent.key, node))
                parent.key = None

    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        if count > 3 * MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        if isinstance(event, yaml.DocumentStartEvent):
            anchors.clear()
            current.clear()
        elif isinstance(event, yaml.DocumentEndEvent):
            yield current[0] if current else None
            current.clear()
        elif isinstance(event, yaml.AliasEvent):
            add(anchors.get(event.anchor or "") or _YamlNode(places.span(event.start_mark, event.end_mark), ""))
        elif isinstance(event, yaml.ScalarEvent):
            node = _YamlNode(places.span(event.start_mark, event.end_mark), event.value)
            if event.anchor:
                node.span = _without_anchor(places, node.span)
                anchors[event.anchor] = node
            add(node)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            node = _YamlNode(places.span(event.start_mark, event.end_mark))
            if isinstance(event, yaml.MappingStartEvent):
                node.pairs = []
            else:
                node.items = []
            if event.anchor:
                anchors[event.anchor] = node
            add(node)
            stack.append(node)
            if len(stack) > DEEPEST:
                raise ValueError(f"it is nested deeper than {DEEPEST}")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            stack.pop()


def _without_anchor(places: _Places, span: Span) -> Span:
    """The scalar without `&name` and `!tag` before it."""
    raw = places.text[span.start - places.start : span.end - places.start]
    before = re.match(r"(?:[&!]\S*\s+)+", raw)
    return Span(span.start + before.end(), span.end, span.line) if before else span


def _manifest(root: _YamlNode) -> Manifest:
    values: list[ManifestValue] = []
    empty: list[tuple[str, ...]] = []
    twice: list[ManifestValue] = []
    pending: list[tuple[tuple[str, ...], _YamlNode]] = [((), root)]
    steps = 0
    fault = ""
    while pending:
        path, node = pending.pop()
        steps += 1
        if steps > 4 * MOST_VALUES or len(values) >= MOST_VALUES or len(path) > DEEPEST:
            fault = f"it has more than {MOST_VALUES} values, or is nested deeper than {DEEPEST}"
            break
        if node.value is not None:
            values.append(ManifestValue(path, node.value, node.span))
        elif not node.items and not node.pairs:
            empty.append(path)
        elif node.items is not None:
            pending += [((*path, str(index)), yaml_node) for index, yaml_node in reversed(list(enumerate(node.items)))]
        else:
            names = [key for key, _ in node.pairs or []]
            for at, (key, child) in reversed(list(enumerate(node.pairs or []))):
                if key != "<<" and key in names[:at]:
                    twice.append(ManifestValue((*path, key or ""), child.value or "", child.span))
                if key == "<<":  # a merged mapping: its values are the surrounding one's
                    pending.append((path, child))
                else:
                    pending.append(((*path, key or ""), child))
    named = {value.path: value.value for value in values if len(value.path) == 1}
    kind = named.get(("kind",), "") or _task("\n".join(_top_level(values)))
    return Manifest(kind, named.get(("apiVersion",), ""), tuple(values), fault, tuple(empty), tuple(twice))


def _top_level(values: list[ManifestValue]) -> Iterator[str]:
    """The document's own keys, as a text has them."""
    for value in values:
        if value.path:
            yield f"{value.path[0]}: {value.value}" if len(value.path) == 1 else f"{value.path[0]}:"
