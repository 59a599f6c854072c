"""`ibstatus` of infiniband-diags, a shell script that shows what sysfs says."""

import re

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted import ports
from gpudoctor.read.pasted.part import Pasted, ToolOutput

HEADING = lazy_re(r"Infiniband device '(?P<name>[\w-]{1,60})' port (?P<port>\d{1,3}) status:$", re.ASCII)
TOOL = ports.KeyedTool(
    "ibstatus",
    HEADING,
    None,
    {
        "state": ("state", ports.state),
        "phys state": ("physical_state", ports.physical),
        "rate": ("rate_gbps", ports.rate),
        "base lid": ("lid", ports.lid),
        "sm lid": ("subnet_manager_lid", ports.lid),
        "link_layer": ("link_layer", ports.layer),
    },
    "link_layer",
)


def parse(block: Pasted) -> ToolOutput:
    return ports.parse(TOOL, block)
