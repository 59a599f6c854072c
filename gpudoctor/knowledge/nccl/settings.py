"""NCCL's settings as NCCL sees them: the process environment, then its files, read the way its own parser reads.

Sources: NCCL src/misc/param.cc (every release from 2.3.5 to 2.30.7): a file's line never replaces a variable that is
already set, so the environment wins, then the first file. Integers are strtoll(text, NULL, 0), whose end nobody looks
at. `NCCL_CONF_FILE` is known since 2.23.4; it takes the place of ~/.nccl.conf. Since 2.30.3 a carriage return at the
end of a line is no part of the value, and ~ is $HOME; before, it is what the password file says.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.shapes import HIDDEN
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import ConfigFile, NotApplicable, NotRead, Reading, Snapshot, absent, missing, read, require

ENVIRONMENT = "environment"
CONF_FILE_VARIABLE = "NCCL_CONF_FILE"
CONF_FILE_SINCE = (2, 23, 4)
HOME_VARIABLE_SINCE = RETURN_DROPPED_SINCE = (2, 30, 3)
WORDS_ARE_DEFAULT_SINCE = (2, 32, 0)
"""Before, a word was 0 (asked of 2.31.2 and 2.32.3)."""
LARGEST = 2**63 - 1

HIDDEN_NAME = lazy_re(r"(?:^|,)[\s^=]*" + re.escape(HIDDEN))
"""Behind a colon nothing is missed: digits stay."""
NUMBER = lazy_re(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")


class Setting(NamedTuple):
    """One variable that NCCL would find set, and where."""

    name: str
    value: str
    origin: str
    """ "environment", or the path of the file."""
    word_is_default: bool = False
    """To this NCCL a number's default holds where its value begins with none; else that is 0."""


class Number(NamedTuple):
    """What strtoll makes of a text."""

    value: int
    rest: str
    """What it left unread; NCCL ignores it."""
    is_number: bool
    """False when not one digit was read: the value is 0 then."""
    too_large: bool
    """It does not fit 64 bits; NCCL then takes its default."""


def number(text: str) -> Number:
    """`text` as strtoll(text, NULL, 0) reads it: "0x10" is 16, "010" is 8, "4 MB" is 4, "true" is 0."""
    match = NUMBER.match(text)
    if match is None:
        return Number(0, text, False, False)
    sign, digits = match.groups()
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10
    # A number of many digits costs int() quadratic time (and Python refuses it): past 64 bits its value is the limit.
    significant = digits[2:].lstrip("0") if base == 16 else digits.lstrip("0")
    value = int(significant or "0", base) if len(significant) < 25 else LARGEST + 2
    signed = -value if sign == "-" else value
    too_large = not -LARGEST - 1 <= signed <= LARGEST
    return Number(max(-LARGEST - 1, min(LARGEST, signed)), text[match.end() :], True, too_large)


def integer(text: str) -> int:
    """The number that NCCL takes from `text`; garbage is 0, what follows a number is ignored."""
    return number(text).value


def effective(machine: Snapshot) -> dict[str, Setting]:
    """Every NCCL_* variable that NCCL would find, by name. Raises `NotRead` when the environment or a file is unread.

    An empty value is kept: to NCCL it mostly counts as unset, and it still keeps a file's line from being used.
    """
    settings: dict[str, Setting] = {}
    for file in reversed(files_in_use(machine)):
        settings |= {name: Setting(name, value, file.path) for name, value in file.settings.value.items()}
        settings |= {
            name: Setting(name, f"{settings[name].value}\r", file.path) for name in returns_kept(machine, file)
        }
    environment = machine.environment.value
    settings |= {name: Setting(name, value, ENVIRONMENT) for name, value in environment.items()}
    default = (version_if_known(machine) or (0,)) >= WORDS_ARE_DEFAULT_SINCE
    return {
        name: settings[name]._replace(word_is_default=default) for name in sorted(settings) if name.startswith("NCCL_")
    }


def files_in_use(machine: Snapshot) -> tuple[ConfigFile, ...]:
    """The files that are there and that NCCL reads, the one that wins first. Raises `NotRead`."""
    files = [file for file in machine.network.nccl_files.value if is_there(file)]
    named, home = named_file(machine), home_file(machine)
    if named is not None and any(file is named or file is home for file in files):
        unused = home if knows_named_files(machine) else named
        files = [file for file in files if file is not unused]
    if any(file.home_of for file in files):
        wanted = _home_of(machine)
        files = [file for file in files if file.home_of in ("", wanted)]
    return tuple(files)


def _home_of(machine: Snapshot) -> str:
    return "HOME" if nccl_version(machine) >= HOME_VARIABLE_SINCE else "passwd"


def returns_kept(machine: Snapshot, file: ConfigFile) -> tuple[str, ...]:
    """The names whose value ends in a carriage return to this NCCL. Raises `NotRead`."""
    return file.with_return if file.with_return and nccl_version(machine) < RETURN_DROPPED_SINCE else ()


def named_file(machine: Snapshot) -> ConfigFile | None:
    """What $NCCL_CONF_FILE names, which the reader puts first; None when it is not set. Raises `NotRead`."""
    files = machine.network.nccl_files.value
    return files[0] if machine.environment.value.get(CONF_FILE_VARIABLE) and files else None


def home_file(machine: Snapshot) -> ConfigFile | None:
    """~/.nccl.conf; None without a home folder, or when $NCCL_CONF_FILE names this very file. Raises `NotRead`."""
    named = named_file(machine)
    files = machine.network.nccl_files.value
    homes = [file for file in files if file is not named and file.path.endswith("/.nccl.conf")]
    if any(file.home_of and is_there(file) for file in homes):
        homes = [file for file in homes if file.home_of == _home_of(machine)]
    return homes[0] if homes else None


def is_there(file: ConfigFile) -> bool:
    """Whether the file exists. One that exists and could not be read raises `NotRead` where its settings are wanted."""
    return file.settings.missing_kind != "absent"


def knows_named_files(machine: Snapshot) -> bool:
    """Whether this NCCL reads $NCCL_CONF_FILE. Raises `NotRead`."""
    return nccl_version(machine) >= CONF_FILE_SINCE


def nccl_version(machine: Snapshot) -> tuple[int, int, int]:
    """The version of the libnccl that training runs with. Raises `NotRead`; `NotApplicable` where torch has no NCCL.

    The file that torch loaded tells it best: torch.cuda.nccl.version() is the version that torch was compiled for.
    """
    torch, libraries = machine.training.torch, machine.training.libraries.value_or(())
    facts = torch.value_or(None)
    loaded = facts.loaded_libraries.get("nccl") if facts else None
    for library in libraries:
        if library.name == "nccl" and library.version and library.path == loaded:
            return _three(parsed(library.version))
    if facts and facts.nccl_version:
        return _three(facts.nccl_version)
    for library in libraries:
        if library.name == "nccl" and library.version:
            return _three(parsed(library.version))
    require(torch)  # the reason why nobody could tell
    raise NotApplicable(absent("torch.cuda.nccl.version", "this torch has no NCCL"))


def _three(version: tuple[int, ...]) -> tuple[int, int, int]:
    return (*version, 0, 0, 0)[0], (*version, 0, 0, 0)[1], (*version, 0, 0, 0)[2]


def dotted(version: tuple[int, ...]) -> str:
    """ "2.29.7" of (2, 29, 7)."""
    return ".".join(str(part) for part in version)


def version_if_known(machine: Snapshot) -> tuple[int, int, int] | None:
    """The version, or None: for what is said beside a verdict, never for one."""
    try:
        return nccl_version(machine)
    except NotRead:
        return None


def set_integer(settings: Mapping[str, Setting], name: str, default: int) -> int:
    """An integer parameter as NCCL takes it: unset, empty or too large is its default, and since 2.32 a word."""
    setting = settings.get(name)
    if setting is None or not setting.value:
        return default
    whole = number(setting.value)
    return default if whole.too_large or (setting.word_is_default and not whole.is_number) else whole.value


def topology_file(machine: Snapshot) -> str:
    """The file by which NCCL knows what lies between devices, in place of what it finds; "" where there is none.

    (NCCL graph/topo.cc, ncclTopoGetSystem: of a device that the file has, the tree is not read.)"""
    name = set_text(effective(machine), "NCCL_TOPO_FILE")
    return name if name and machine.network.nccl_paths.value_or({}).get(name) else ""


def set_text(settings: Mapping[str, Setting], name: str) -> str:
    """A text parameter; empty when it is unset."""
    setting = settings.get(name)
    return setting.value if setting else ""


def set_names(settings: Mapping[str, Setting], name: str) -> str:
    """A list of interfaces or devices; empty when it is unset. Raises `NotRead` where a snapshot does not show all."""
    text = set_text(settings, name)
    if HIDDEN_NAME.search(text):
        raise NotRead(missing(name, "what it names does not look like a device, and is not recorded"))
    return text


def where(setting: Setting) -> str:
    """The end of a sentence: nothing for the environment, " (from /etc/nccl.conf)" for a file."""
    return "" if setting.origin == ENVIRONMENT else f" (from {setting.origin})"


def evidence(machine: Snapshot, *seen: Setting | Reading[Any]) -> tuple[Reading[Any], ...]:
    """The readings that a verdict rests on: each setting with its place, and what else was looked at.

    Without a setting, the environment and the files as a whole.
    """
    named = any(isinstance(thing, Setting) for thing in seen)
    whole = () if named else (machine.environment, machine.network.nccl_files)
    return (*whole, *(_as_reading(thing) if isinstance(thing, Setting) else thing for thing in seen))


def _as_reading(setting: Setting) -> Reading[Any]:
    if setting.origin == ENVIRONMENT:
        return read(f"environment {setting.name}", setting.value)
    return read(setting.origin, {setting.name: setting.value})


def version_seen(machine: Snapshot) -> Reading[str]:
    """The version as evidence. Raises `NotRead`."""
    return read(machine.training.torch.source, f"NCCL {dotted(nccl_version(machine))}")
