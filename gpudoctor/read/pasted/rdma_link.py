"""`rdma link` of iproute2: a line a port."""

import re
from typing import Any

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted import ports
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.snapshot import Reading, missing, read

SOURCE = "rdma link"
HEADING = lazy_re(
    r"(?:link |\d{1,4}/\d{1,3}: )(?P<name>[\w-]{1,60})/(?P<port>\d{1,3}):? (?P<rest>(?:\S+ \S+ )*?state \S.*)", re.ASCII
)


def parse(block: Pasted) -> ToolOutput:
    devices: dict[str, dict[str, Reading[Any]]] = {}
    by_device: dict[str, dict[int, dict[str, Reading[Any]]]] = {}
    interfaces: dict[str, tuple[str, ...]] = {}
    for line in block.lines:
        if (link := HEADING.match(line)) is None:
            continue
        words = link["rest"].split()
        said = dict(zip(words[::2], words[1::2], strict=False))
        name, where = link["name"], f"{SOURCE} {link['name']}/{link['port']}"
        devices.setdefault(name, {})
        port = by_device.setdefault(name, {}).setdefault(int(link["port"]), {})
        for field, key, meanings in (
            ("state", "state", ports.state),
            ("physical_state", "physical_state", ports.physical),
        ):
            try:
                port[field] = read(where, meanings(said.get(key, "")))
            except KeyError:
                port[field] = missing(where, f"unexpected value {said.get(key, '')[:40]!r}")
        if "netdev" in said:
            port["link_layer"] = read(where, "Ethernet")
            interfaces[name] = (*interfaces.get(name, ()), said["netdev"])
        elif "subnet_prefix" in said:
            port["link_layer"] = read(where, "InfiniBand")
    return ToolOutput(SOURCE, rdma=ports.made(SOURCE, devices, by_device, interfaces))
