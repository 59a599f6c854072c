"""What one launch is told, whatever the launcher calls it: rank, nodes, address, port, backend."""

import ipaddress
import re
from collections.abc import Iterator

from msgspec import Struct, structs

from gpudoctor.launcher import registry
from gpudoctor.launcher.traits import LauncherTraits
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Expansion, Invocation, LintJob, LintLaunch, SbatchOption, Span, Word

TORCHRUN = ("torchrun", "torch.distributed.launch", "ft_launcher")
"""Launchers with torchrun's options and rendezvous."""
_VARIABLES = {
    "node-rank": ("NODE_RANK", "GROUP_RANK"),
    "master-addr": ("MASTER_ADDR",),
    "master-port": ("MASTER_PORT",),
}


def traits(launch: LintLaunch) -> LauncherTraits:
    """What its launcher is."""
    return registry.traits(launch.launcher)


class Value(Struct, frozen=True):
    """A setting of the start, from an option or from the environment."""

    text: str | None
    """What it is; None when the text does not tell."""
    shown: str
    written: str
    """The option or variable as the user wrote it: "--master_addr", "MASTER_ADDR"."""
    word: Word
    """The word that it stands in (an endpoint holds an address and a port)."""
    span: Span

    @property
    def sure(self) -> str | None:
        """`text`, unless it is only the default of `${X:-default}`: then the text is written for other values too."""
        return None if any(expansion.default is not None for expansion in self.word.expansions) else self.text


_COUNT = lazy_re(r"[0-9]{1,6}", re.ASCII)


def whole(text: str | None) -> int | None:
    return int(text) if text is not None and _COUNT.fullmatch(text.strip()) else None


def number(value: Value | None) -> int | None:
    """The value as a whole number, when it certainly is one."""
    text = value.sure if value else None
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]{1,9}", text.strip(), re.ASCII) else None


def value(launch: LintLaunch, name: str) -> Value | None:
    """The setting under torchrun's name of it ("master-addr"), as this launcher takes it."""
    kind = traits(launch)
    option = None if kind.bare else launch.option(kind.own_names.get(name, name))
    if option is not None and option.value is not None:
        word = option.value
        return Value(word.text, word.shown, option.written, word, word.span)
    if kind.reads_master:
        for variable in _VARIABLES.get(name, ()):
            setting = launch.invocation.settings.get(variable)
            if setting is not None and setting.exported:
                word = setting.word
                return Value(word.text, word.shown, variable, word, word.span)
    return None


def backend(launch: LintLaunch) -> str | None:
    """The rendezvous backend ("static" when none is named); None when it comes from outside the text."""
    if launch.launcher not in (*TORCHRUN, "accelerate"):
        return "static"
    option = launch.option("rdzv-backend")
    if option is None:
        return None if may_hide_options(launch) else "static"
    return option.value.text if option.value is not None else None


def is_static(launch: LintLaunch) -> bool:
    return backend(launch) == "static"


def is_dynamic(launch: LintLaunch) -> bool:
    """The rendezvous hands the ranks out by itself: c10d and etcd."""
    return backend(launch) in ("c10d", "etcd", "etcd-v2")


def standalone(launch: LintLaunch) -> bool:
    return launch.launcher in TORCHRUN and launch.option("standalone") is not None


def split_endpoint(text: str) -> tuple[str, str]:
    """("10.0.0.1", "29400") of an endpoint; the port is empty when there is none. Brackets stay. A colon inside
    `[...]`, `${...}` or `$(...)` does not separate."""
    depth, cut = 0, -1
    for index, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == ":" and depth == 0:
            cut = index
    return (text, "") if cut < 0 else (text[:cut], text[cut + 1 :])


def _piece(whole: Value, text: str) -> Value:
    known = None if re.search(r"[$`]", text) and whole.text is None else text
    return Value(known, text, whole.written, whole.word, whole.span)


def endpoint(launch: LintLaunch) -> Value | None:
    """--rdzv-endpoint, where this launcher has it."""
    return value(launch, "rdzv-endpoint") if launch.launcher in TORCHRUN else None


def master(launch: LintLaunch) -> Value | None:
    """The head's address: of the endpoint where there is one, else of --master-addr and its likes."""
    whole = endpoint(launch)
    if whole is not None:
        return _piece(whole, split_endpoint(whole.shown)[0])
    if launch.launcher in TORCHRUN and is_dynamic(launch):
        return None  # c10d takes no notice of --master-addr (R07)
    return value(launch, "master-addr")


def port(launch: LintLaunch) -> Value | None:
    """The rendezvous port, where the text names one."""
    whole = endpoint(launch)
    if whole is not None:
        text = split_endpoint(whole.shown)[1]
        return _piece(whole, text) if text else None
    if launch.launcher in TORCHRUN and is_dynamic(launch):
        return None
    return value(launch, "master-port")


def nnodes(launch: LintLaunch) -> tuple[int, int] | None:
    """(smallest, largest) number of nodes that the launcher is told; None when it is not told or not known."""
    given = value(launch, "nnodes")
    text = given.sure if given else None
    match = re.fullmatch(r"\s*([0-9]{1,6})(?::([0-9]{1,6}))?\s*", text or "", re.ASCII)
    if match is None:
        return None
    return int(match[1]), int(match[2] or match[1])


def may_hide_options(launch: LintLaunch) -> bool:
    """A word before the script may hold more options: `torchrun $DISTRIBUTED_ARGS train.py`."""
    return bool(launch.unread)


def origins(word: Word, invocation: Invocation) -> Iterator[Expansion]:
    """The expansions in a word, and in the assignments that their variables were filled by."""
    seen: set[str] = set()
    waiting = list(word.expansions)
    while waiting and len(seen) < 64:
        expansion = waiting.pop()
        yield expansion
        setting = invocation.settings.get(expansion.name) if expansion.name and expansion.name not in seen else None
        seen.add(expansion.name)
        if setting is not None:
            waiting += setting.word.expansions


def is_loopback(address: str) -> bool:
    """localhost, 127.x, ::1, in whatever way it is written."""
    name = address.strip().strip("[]").rstrip(".").lower()
    if name in ("localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def header(job: LintJob, launch: LintLaunch, name: str) -> SbatchOption | None:
    """An option of the batch script that SLURM reads; of a heterogeneous job that of the component in which srun
    starts the launch: --het-group, the first unless it is given (srun(1))."""
    option = job.sbatch.get(name)
    if option is None or option.ignored or not option.components:
        return None if option is None or option.ignored else option
    sruns = [around for around in (*launch.around, launch) if around.launcher == "srun"]
    group = sruns[-1].option("het-group") if sruns else None
    number = 0 if group is None else whole(group.value.text if group.value is not None else None)
    if number is None or number >= len(option.components):
        return option
    value = option.components[number]
    return structs.replace(option, value=value, components=()) if value is not None else None
