"""`ibv_devinfo` of libibverbs, also with -v."""

import re

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted import ports
from gpudoctor.read.pasted.part import Pasted, ToolOutput

HEADING = lazy_re(r"hca_id:\s*(?P<name>[\w-]{1,60})$", re.ASCII)
TOOL = ports.KeyedTool(
    "ibv_devinfo",
    HEADING,
    lazy_re(r"port:\s*(?P<port>\d{1,3})$", re.ASCII),
    {
        "fw_ver": ("device.firmware", ports.version),
        "board_id": ("device.board_id", ports.version),
        "state": ("state", ports.state),
        "phys_state": ("physical_state", ports.physical),
        "port_lid": ("lid", ports.lid),
        "sm_lid": ("subnet_manager_lid", ports.lid),
        "link_layer": ("link_layer", ports.layer),
    },
    "link_layer",
)


def parse(block: Pasted) -> ToolOutput:
    return ports.parse(TOOL, block)
