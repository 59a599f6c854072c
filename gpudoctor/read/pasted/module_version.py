"""`cat /proc/driver/nvidia/version`: which driver the kernel has loaded."""

from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia import MODULE_VERSION
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.snapshot import missing, read

SOURCE = "/proc/driver/nvidia/version"
HEADING = lazy_re(r"NVRM version: ")


def parse(block: Pasted) -> ToolOutput:
    match = next(filter(None, map(MODULE_VERSION.search, block.lines)), None)
    version = read(SOURCE, match[1]) if match else missing(SOURCE, "no version in it")
    return ToolOutput(SOURCE, nvidia={"kernel_module_version": version}, tells="which driver is loaded")
