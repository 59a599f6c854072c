"""NCCL's configuration files, and the network plugins that the loader would find for it.

Sources: NCCL src/misc/param.cc (line syntax, order of the files), src/plugin/plugin_open.cc (names of plugins),
ld.so(8) (where the loader looks).
"""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor import programs
from gpudoctor.knowledge.environment import is_recorded, kept_value
from gpudoctor.knowledge.nccl.interfaces import COMMUNICATOR, host_of
from gpudoctor.knowledge.shapes import HIDDEN
from gpudoctor.lazy import lazy_re
from gpudoctor.read.names import Resolver, by_getaddrinfo, look_up
from gpudoctor.read.reader import reader
from gpudoctor.read.storage import home, home_of_passwd
from gpudoctor.read.system import System, attempt, within
from gpudoctor.snapshot import ConfigFile, Reading, absent, read

SYSTEM_FILE = "/etc/nccl.conf"
MAXIMUM_FILE_BYTES = 1024 * 1024
LONGEST_TEXT = 1023
"""NCCL's buffers: a longer name or value is cut there."""

LOADER_CACHE = "/etc/ld.so.cache"
DEFAULT_FOLDERS = (
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
)
PLUGIN = lazy_re(r"libnccl-net(-[\w.+-]+)?\.so(\.[\d.]+)?")
MOST_PLUGINS = 32
LIBRARY = b"\x7fELF\x02"
"""How a library of 64 bits begins."""


def absolute(path: str, folder: str | None) -> str:
    """A path as the training process would open it: NCCL expands neither ~ nor variables."""
    return os.path.normpath(os.path.join(folder or "/", path))  # noqa: PTH118 - text: it may lie on a dead mount


class Lines(NamedTuple):
    """What a file sets."""

    settings: dict[str, str]
    with_return: tuple[str, ...]
    """Names whose line ends in a carriage return: to some releases it belongs to the value."""


def lines(content: bytes) -> Lines:
    """The variables that NCCL would set from a file's lines, its first line of a name first.

    A line is NAME=VALUE as it stands: spaces and quotes belong to name and value, and "export NAME" is a name of its
    own. Lines without "=" and those that begin with "#" are passed over. A value that does not look as one of its
    variable does is hidden.
    """
    settings: dict[str, str] = {}
    returns: dict[str, bool] = {}
    for raw in content.decode("utf-8", "replace").split("\n"):
        line = raw.removesuffix("\r").partition("\0")[0]
        name, equals, value = line.partition("=")
        # Also a name that a mistake keeps from being one.
        plain = name.strip().removeprefix("export").strip()
        if equals and not line.startswith("#") and is_recorded(plain):
            settings.setdefault(name[:LONGEST_TEXT], kept_value(plain, value[:LONGEST_TEXT]))
            returns.setdefault(name[:LONGEST_TEXT], raw.endswith("\r") and "\0" not in raw)
    return Lines(settings, tuple(name for name, ends in returns.items() if ends))


def config_file(system: System, path: str, home_of: str = "") -> ConfigFile:
    returns: list[str] = []

    def look() -> dict[str, str]:
        settings = lines(within(system.patience, path, lambda: system.raw(path, MAXIMUM_FILE_BYTES)))
        returns.extend(settings.with_return)
        return settings.settings

    return ConfigFile(path, attempt(path, look), tuple(returns), home_of)


def paths_of_files(system: System, folder: str | None) -> dict[str, str]:
    """$NCCL_CONF_FILE (when it is set), ~/.nccl.conf and /etc/nccl.conf, each once, with `ConfigFile.home_of`.

    Whether the first takes the place of the second, and which of two homes counts, depends on NCCL's version:
    knowledge/nccl/settings.py. (userHomeDir in misc/param.cc: getpwuid up to 2.29.7, getenv("HOME") in 2.30.3)
    """
    named = system.environment.get("NCCL_CONF_FILE")
    homes = {"passwd": home_of_passwd(system), "HOME": system.environment.get("HOME")}
    if not homes["passwd"] or homes["passwd"] == homes["HOME"]:
        homes = {"": home(system)}  # where /etc/passwd does not know the user, another name service says the same
    paths = {absolute(named, folder): ""} if named else {}
    for home_of, place in homes.items():
        if place:
            paths.setdefault(absolute(".nccl.conf", place), home_of)
    paths.setdefault(SYSTEM_FILE, "")
    return paths


@reader("nccl files", "network.nccl_files")
def read_files(system: System, folder: str | None = None) -> Reading[tuple[ConfigFile, ...]]:
    paths = paths_of_files(system, folder or programs.folder())
    files = tuple(config_file(system, path, home_of) for path, home_of in paths.items())
    return read(", ".join(paths), files)


# ---------------------------------------------------------------- files that settings name

NAME_FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_IBVERBS_LIB")


def values_of(system: System, name: str, folder: str | None) -> list[str]:
    """Every value that the environment and the files give a variable; which one holds depends on NCCL's version."""
    files = (config_file(system, path).settings.value_or({}) for path in paths_of_files(system, folder))
    values = [kept_value(name, system.environment.get(name, "")), *(settings.get(name) for settings in files)]
    return list(dict.fromkeys(value for value in values if value and value != HIDDEN))


@reader("nccl paths", "network.nccl_paths")
def read_paths(system: System, folder: str | None = None) -> Reading[dict[str, bool]]:
    source = f"the files that {', '.join(NAME_FILES)} name"
    place = folder or programs.folder()

    def look() -> dict[str, bool]:
        named = [value for name in NAME_FILES for value in values_of(system, name, place)]
        # A library's plain name is for the loader to find.
        return {path: system.exists(absolute(path, place)) for path in named if "/" in path or ".so" not in path}

    return attempt(source, lambda: within(system.patience, source, look))


@reader("communicator", "network.communicator_addresses")
def read_communicator(
    system: System, folder: str | None = None, resolver: Resolver = by_getaddrinfo
) -> Reading[tuple[str, ...]]:
    values = values_of(system, COMMUNICATOR, folder or programs.folder())
    if not values:
        return absent("environment, NCCL's files", f"{COMMUNICATOR} is not set")
    return look_up(host_of(values[0]), system.patience, resolver)


# ---------------------------------------------------------------- plugins


def wanted_names(system: System, folder: str | None) -> list[str]:
    """What NCCL_NET_PLUGIN names, of the environment or of a file, as paths and file names."""
    lists = values_of(system, "NCCL_NET_PLUGIN", folder)
    return [entry for text in lists for entry in text.split(",") if entry][:MOST_PLUGINS]


def loader_folders(system: System, folder: str | None) -> Iterator[str]:
    """The folders of LD_LIBRARY_PATH; an empty entry is the working folder, to the loader too."""
    path = system.environment.get("LD_LIBRARY_PATH")
    if path:
        yield from (absolute(entry, folder) for entry in re.split("[:;]", path))


def is_library(system: System, path: str) -> bool:
    """Whether the loader can take the file for one: NCCL goes on without a plugin that is cut off or no library."""
    try:
        return system.raw(path, len(LIBRARY)) == LIBRARY
    except OSError:
        return False


def plugins(system: System, folder: str | None) -> tuple[str, ...]:
    """Paths of the network plugins, in the loader's order. Folders that cannot be listed are passed over."""
    wanted = wanted_names(system, folder)
    named = [absolute(name, folder) for name in wanted if "/" in name and system.exists(absolute(name, folder))]
    plain = {name for name in wanted if "/" not in name}

    def in_folder(place: str) -> list[str]:
        names = system.names_or_none(place)
        return [f"{place}/{name}" for name in names if PLUGIN.fullmatch(name) or name in plain]

    for place in loader_folders(system, folder):
        named += in_folder(place)
    try:
        strings = re.findall(rb"/[^\0]{1,4096}(?=\0)", system.raw(LOADER_CACHE))
    except OSError:
        strings = []
    for path in map(os.fsdecode, strings):
        name = path.rpartition("/")[2]
        if (PLUGIN.fullmatch(name) or name in plain) and system.exists(path):
            named.append(path)
    for place in DEFAULT_FOLDERS:
        named += in_folder(place)
    found = [path for path in dict.fromkeys(named[: 4 * MOST_PLUGINS]) if is_library(system, path)]
    return tuple(path.encode("utf-8", "backslashreplace").decode() for path in found)[:MOST_PLUGINS]


@reader("nccl plugins", "network.net_plugins")
def read_plugins(system: System, folder: str | None = None) -> Reading[tuple[str, ...]]:
    source = "LD_LIBRARY_PATH, /etc/ld.so.cache and the loader's own folders"
    where = folder or programs.folder()
    return attempt(
        source, lambda: within(system.patience, "a folder of LD_LIBRARY_PATH", lambda: plugins(system, where))
    )
