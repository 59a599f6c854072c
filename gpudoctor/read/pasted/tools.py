"""The tools whose output is read, and their headings."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpudoctor.read.pasted import (
    amd_smi,
    collect_env,
    diagnosed,
    environments,
    gpu_list,
    ibstat,
    ibstatus,
    ibv_devinfo,
    kernel_lines,
    lspci,
    module_version,
    query,
    rdma_link,
    rocm_smi,
    table,
    topology,
)
from gpudoctor.read.pasted.blocks import blocks, joined
from gpudoctor.read.pasted.part import Pasted, ToolOutput


class Tool(NamedTuple):
    """One of them: by which lines it is known, and what reads it."""

    name: str
    heading: re.Pattern[str]
    parse: Callable[[Pasted], ToolOutput]
    goes_on: re.Pattern[str] | None = None
    """Lines that begin another tool's output, but for behind this one's heading."""


TOOLS: Sequence[Tool] = (
    Tool("nvidia-smi", table.HEADING, table.parse),
    Tool("nvidia-smi -L", gpu_list.HEADING, gpu_list.parse),
    Tool("nvidia-smi --query-gpu", query.HEADING, query.parse),
    Tool("nvidia-smi topo -m", topology.HEADING, topology.parse),
    Tool("ibstatus", ibstatus.HEADING, ibstatus.parse),
    Tool("ibstat", ibstat.HEADING, ibstat.parse),
    Tool("ibv_devinfo", ibv_devinfo.HEADING, ibv_devinfo.parse),
    Tool("rdma link", rdma_link.HEADING, rdma_link.parse),
    Tool("amd-smi", amd_smi.HEADING, amd_smi.parse, amd_smi.GOES_ON),
    Tool("rocm-smi", rocm_smi.HEADING, rocm_smi.parse),
    Tool("lspci", lspci.HEADING, lspci.parse),
    Tool("NVRM version", module_version.HEADING, module_version.parse),
    Tool("collect_env", collect_env.HEADING, collect_env.parse, collect_env.GPU),
    Tool("environment", environments.HEADING, environments.parse, environments.GOES_ON),
    Tool("dcgmi diag", diagnosed.DCGM_HEADING, diagnosed.parse),
    Tool("gpu-burn", diagnosed.BURN_HEADING, diagnosed.parse_burn),
    Tool("kernel log", kernel_lines.HEADING, kernel_lines.parse),
)
"""The most telling first."""


def parts_of(text: str) -> list[ToolOutput]:
    """What each tool in the text says."""
    further = {tool.name: tool.goes_on for tool in TOOLS if tool.goes_on is not None}
    parts = blocks(text, {tool.name: tool.heading for tool in TOOLS}, further)
    return [tool.parse(joined(parts[tool.name])) for tool in TOOLS if tool.name in parts]
