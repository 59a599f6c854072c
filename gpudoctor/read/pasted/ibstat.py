"""`ibstat` of infiniband-diags."""

import re

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted import ports
from gpudoctor.read.pasted.part import Pasted, ToolOutput

HEADING = lazy_re(r"CA '(?P<name>[\w-]{1,60})'$", re.ASCII)
TOOL = ports.KeyedTool(
    "ibstat",
    HEADING,
    lazy_re(r"Port (?P<port>\d{1,3}):$", re.ASCII),
    {
        "firmware version": ("device.firmware", ports.version),
        "state": ("state", ports.state),
        "physical state": ("physical_state", ports.physical),
        "rate": ("rate_gbps", ports.rate),
        "base lid": ("lid", ports.lid),
        "sm lid": ("subnet_manager_lid", ports.lid),
        "link layer": ("link_layer", ports.layer),
    },
    "link layer",
)


def parse(block: Pasted) -> ToolOutput:
    return ports.parse(TOOL, block)
