"""A configuration as its program gets it: hydra's composed one, or a file that the program loads, as a tree of keys.

What is not certain is no answer: a file of the defaults that is not given, a package that is moved, more than one
document.
"""

import posixpath
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, TextSection

Tree = dict[str, "Tree | None"]
"""Keys and what is below them; None: a value, or a list."""
NULL = ("", "~", "null", "Null", "NULL")


class ComposedConfig(Struct, frozen=True):
    """`groups`: what the defaults list chooses: an option of such a name chooses another file."""

    tree: Tree
    section: TextSection
    groups: frozenset[str] = frozenset()


def of_file(section: TextSection) -> ComposedConfig | None:
    """The keys of a YAML or JSON file, where they are certain."""
    documents = read_manifests(section.text, section.start, section.line)
    if len(documents) != 1 or documents[0].fault or "<<" in section.text or "{{" in section.text:
        return None
    tree: Tree = {}
    for value in documents[0].values:
        if not _put(tree, value.path):
            return None
    for path in documents[0].empty:
        if not _put(tree, path):
            return None
    return ComposedConfig(tree, section) if tree else None


def _put(tree: Tree, path: tuple[str, ...]) -> bool:
    """A list and what is in it is a value of its key. Whether the file is a mapping."""
    if not path or path[0].isdecimal():
        return False
    end = next((at for at, key in enumerate(path) if key.isdecimal()), len(path))
    here = tree
    for key in path[: end - 1]:
        below = here.setdefault(key, {})
        if below is None:
            return True
        here = below
    here.setdefault(path[end - 1], None)
    return True


def of_hydra(job: LintJob, folder: str, name: str) -> ComposedConfig | None:
    """Of `@hydra.main(config_path=folder, config_name=name)`: the file and those of its defaults list."""
    name = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
    section = file_at(job, posixpath.join(folder, name))
    primary = of_file(section) if section is not None else None
    if primary is None or section is None or "@package" in section.text:
        return None
    tree, groups = dict(primary.tree), set()
    tree.pop("defaults", None)
    home = posixpath.dirname(section.name)
    for group, chosen in _defaults(section):
        if group.startswith(("hydra/", "override hydra/", "hydra")) or chosen == "_self_":
            continue
        if not group.replace("_", "").replace("-", "").isalnum() or not chosen or "@" in chosen or "$" in chosen:
            return None
        other = file_at(job, posixpath.join(home, group, f"{chosen}.yaml"))
        config = of_file(other) if other is not None else None
        if config is None or other is None or "@package" in other.text or "defaults" in config.tree:
            return None
        groups.add(group)
        below = tree.setdefault(group, {})
        tree[group] = _merged(below, config.tree) if below is not None else config.tree
    return ComposedConfig(tree, section, frozenset(groups))


def _defaults(section: TextSection) -> Iterator[tuple[str, str]]:
    """Group and choice of each entry; ("", ...) of what is no group's: it is not read further."""
    for value in read_manifests(section.text, section.start, section.line)[0].values:
        if value.path[:1] == ("defaults",):
            yield (value.path[2], value.value) if len(value.path) == 3 else ("", value.value)


def _merged(one: Tree, other: Tree) -> Tree:
    made = dict(one)
    for key, below in other.items():
        mine = made.get(key)
        made[key] = _merged(mine, below) if mine is not None and below is not None else mine or below
    return made


def file_at(job: LintJob, path: str, is_whole: bool = True) -> TextSection | None:
    """The one file of this path, from wherever the program stands. `is_whole`: not one that is given by the end of its
    path."""
    wanted = posixpath.normpath(path)
    names = [(each, each.name) for each in job.sections if each.kind == "file"]
    found = [
        each
        for each, name in names
        if f"/{name}".endswith(f"/{wanted.lstrip('./')}") or (not is_whole and wanted.endswith(f"/{name}"))
    ]
    return found[0] if len(found) == 1 else None


def missing(tree: Tree, path: tuple[str, ...]) -> tuple[str, Tree] | None:
    """The first key of a path that its mapping does not have, and that mapping; None: it is there, or below a value."""
    here = tree
    for key in path:
        if key not in here:
            return key, here
        below = here[key]
        if below is None:
            return None
        here = below
    return None


def added(tree: Tree, path: tuple[str, ...]) -> Tree:
    """With what `+a.b=1` adds."""
    if not path:
        return tree
    below = tree.get(path[0])
    rest = None if len(path) == 1 else added(below or {}, path[1:])
    return {**tree, path[0]: below if len(path) == 1 and path[0] in tree else rest}
