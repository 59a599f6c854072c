"""NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or TP_SOCKET_IFNAME names no interface of this machine.

Why it matters: all three mean "find it or fail". NCCL ends with "no socket interface found", gloo and TensorPipe with
"Unable to find address for" the name. The value most often comes from another machine, where the card sits in another
slot, or holds a blank after a comma.
"""

import difflib

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.nccl.interfaces import IFNAME, is_set, parse
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, Setting, effective
from gpudoctor.knowledge.network import gloo_interface
from gpudoctor.knowledge.network.interface_roles import has_address, recommended, seen
from gpudoctor.knowledge.wording import listed

TENSORPIPE = "TP_SOCKET_IFNAME"


@check("socket-interface-missing", title="The interfaces that variables name are there")
def socket_interface_missing(machine: Snapshot) -> Problems:
    names = [interface.name for interface in machine.network.interfaces.value]
    environment = machine.environment.value
    setting = effective(machine).get(IFNAME)
    if setting is not None and is_set(setting.value):
        pattern = parse(setting.value)
        if not any(pattern.takes(name) for name in names):
            wanted = pattern.entries if not pattern.excludes else ()
            yield _problem(machine, setting, wanted, "NCCL ends with an error: it finds no socket interface.", "error")
    for variable, meaning, severity in (
        (gloo_interface.IFNAME, "gloo ends with an error as soon as a process group is made.", "error"),
        (TENSORPIPE, "torch.distributed.rpc ends with an error, or falls back to the loopback address.", "warning"),
    ):
        value = environment.get(variable, "")
        wanted = gloo_interface.listed(value) if variable == gloo_interface.IFNAME else tuple(filter(None, (value,)))
        lost = tuple(name for name in wanted if name not in names)
        if lost:
            yield _problem(machine, Setting(variable, value, ENVIRONMENT), lost, meaning, _severity(severity))


def _severity(word: str) -> Severity:
    return "error" if word == "error" else "warning"


def _problem(machine: Snapshot, setting: Setting, wanted: tuple[str, ...], meaning: str, severity: Severity) -> Problem:
    interfaces = machine.network.interfaces.value
    here = [interface.name for interface in interfaces if has_address(interface)] or [
        interface.name for interface in interfaces
    ]
    where = "" if setting.origin == ENVIRONMENT else f" in {setting.origin}"
    what = listed([repr(name) if name != name.strip() else name for name in wanted]) or "none"
    fault = f"{what} of it is not here" if len(wanted) == 1 else f"{what} of it are not here"
    if not wanted:
        fault = "it excludes every interface"
    elif setting.value.lstrip("^=") == what:
        fault = "there is no such interface"
    return Problem(
        severity=severity,
        summary=f"{setting.name}{where} is {setting.value!r}, and {fault}; this machine has {listed(here)}",
        meaning=meaning,
        evidence=(machine.environment, seen(machine, *here)),
        fix=_fix(machine, setting, wanted, here),
    )


def _fix(machine: Snapshot, setting: Setting, wanted: tuple[str, ...], here: list[str]) -> Fix:
    best = recommended(machine)
    alike = difflib.get_close_matches(wanted[0].strip(), here, n=1) if wanted else []
    name = alike[0] if alike else best.name if best else ""
    if not name:
        return Fix(
            f"Remove {setting.name}, and the choice is made by itself.",
            commands=(command("unset {:variable}", setting.name),),
        )
    value = f"={name}" if setting.name == IFNAME else name
    why = f"Did you mean {name}?" if alike else f"{name} leads out of this machine."
    return Fix(
        f"{why} Name the interface that the other nodes are behind, or remove the variable.",
        commands=(command("export {:variable}={:value}", setting.name, value),),
    )
