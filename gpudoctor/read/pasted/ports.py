"""What the tools for RDMA ports have in common: a device, its ports, and lines of names and values below them."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpudoctor.read.pasted.part import Pasted, ToolOutput, never_told
from gpudoctor.snapshot import RdmaDevice, RdmaPort, Reading, missing, read

STATES = {
    "active": "ACTIVE",
    "down": "DOWN",
    "initializing": "INIT",
    "init": "INIT",
    "initialize": "INIT",
    "armed": "ARMED",
    "active_defer": "ACTIVE_DEFER",
    "nop": "NOP",
}
"""The tools' words -> those of sysfs."""
PHYSICAL = {
    "linkup": "LinkUp",
    "polling": "Polling",
    "disabled": "Disabled",
    "sleep": "Sleep",
    "linkerrorrecovery": "LinkErrorRecovery",
    "portconfigurationtraining": "PortConfigurationTraining",
    "phytest": "Phy Test",
}
MOST_DEVICES, MOST_PORTS = 256, 16


class KeyedTool(NamedTuple):
    """How a tool writes."""

    source: str
    device: re.Pattern[str]
    """The line of a device; with `port` in it, of a port."""
    port: re.Pattern[str] | None
    keys: Mapping[str, tuple[str, Callable[[str], Any]]]
    """Its names -> the field of the port, or of the device where it starts with "device."."""
    last: str
    """The last name of a port, by which one is whole."""


def parse(tool: KeyedTool, block: Pasted) -> ToolOutput:
    devices: dict[str, dict[str, Reading[Any]]] = {}
    ports: dict[str, dict[int, dict[str, Reading[Any]]]] = {}
    name, number = "", 0
    wholes: set[tuple[str, int]] = set()
    for line in block.lines:
        if (match := tool.device.match(line)) is not None:
            name, number = match["name"], int(match["port"]) if "port" in tool.device.groupindex else 0
            devices.setdefault(name, {})
            ports.setdefault(name, {})
        elif tool.port is not None and (match := tool.port.match(line)) is not None:
            number = int(match["port"])
        elif name:
            key, _, text = line.partition(":")
            _keep(
                tool,
                f"{tool.source} {name}",
                (key.strip().casefold(), text.strip()),
                devices[name],
                ports,
                (name, number),
            )
            if key.strip().casefold() == tool.last and text.strip():
                wholes.add((name, number))
        if name and number:
            ports[name].setdefault(number, {})
    cut = [(name, number) for name, own in ports.items() for number in own if (name, number) not in wholes]
    cut += [(name, 0) for name, own in ports.items() if not own]
    gave_up = next((line for line in block.lines if line.startswith("ibpanic:")), "")
    lacks = [f"`{tool.source}` is cut in {cut[0][0]}"] if cut else []
    lacks += [f"`{tool.source}` gave up ({gave_up[:150]})"] if gave_up else []
    unknown = ((name, fact) for name, own in ports.items() for facts in own.values() if (fact := facts.get("state")))
    lacks += [f"the state of {name} is not understood ({fact.reason})" for name, fact in unknown if not fact.is_read][
        :1
    ]
    return ToolOutput(tool.source, rdma=made(tool.source, devices, ports), lacks=tuple(lacks))


def _keep(
    tool: KeyedTool,
    where: str,
    said: tuple[str, str],
    device: dict[str, Reading[Any]],
    ports: dict[str, dict[int, dict[str, Reading[Any]]]],
    place: tuple[str, int],
) -> None:
    key, text = said
    field, convert = tool.keys.get(key, ("", str))
    if not field or not text:
        return
    source = f"{where}: {key}"
    try:
        reading = read(source, convert(text))
    except (ValueError, KeyError):
        reading = missing(source, f"unexpected value {text[:40]!r}")
    name, number = place
    if field.startswith("device."):
        device[field.removeprefix("device.")] = reading
    elif number:
        ports[name].setdefault(number, {})[field] = reading


def made(
    source: str,
    devices: Mapping[str, Mapping[str, Reading[Any]]],
    ports: Mapping[str, Mapping[int, Mapping[str, Reading[Any]]]],
    interfaces: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[RdmaDevice, ...]:
    """The devices, with what is never told of them said to be so."""
    of_port, of_device = never_told(RdmaPort, source), never_told(RdmaDevice, source)
    return tuple(
        RdmaDevice(
            name,
            interfaces=(interfaces or {}).get(name, ()),
            ports=tuple(RdmaPort(number, **{**of_port, **facts}) for number, facts in sorted(ports[name].items()))[
                :MOST_PORTS
            ],
            **{**of_device, **found},
        )
        for name, found in list(devices.items())[: MOST_DEVICES + 1]
    )


def state(text: str) -> str:
    """ "4: ACTIVE", "PORT_ACTIVE (4)", "Active". Raises `KeyError`."""
    return STATES[_word(text).removeprefix("port_")]


def physical(text: str) -> str:
    """ "5: LinkUp", "LINK_UP (5)", "LinkUp". Raises `KeyError`."""
    return PHYSICAL[_word(text).replace("_", "").replace(" ", "")]


def _word(text: str) -> str:
    return re.sub(r"^\d+: |\s*\(\d+\)$", "", text.partition("#")[0].strip()).casefold()


def lid(text: str) -> int:
    """Decimal or hexadecimal. Raises `ValueError`."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|\d{1,8}", text, re.ASCII):
        raise ValueError
    return int(text, 0)


def rate(text: str) -> float:
    """ "400", "200 Gb/sec (4X HDR)". Raises `ValueError`."""
    match = re.match(r"\d{1,5}(?:\.\d{1,3})?(?= |$)", text, re.ASCII)
    if match is None:
        raise ValueError
    return float(match[0])


def layer(text: str) -> str:
    if text not in ("InfiniBand", "Ethernet", "Unspecified"):
        raise ValueError
    return text


def version(text: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,60}", text, re.ASCII):
        raise ValueError
    return text
