"""Texts that people have instead of what --from reads: what they are, and what to do."""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from gpudoctor.lazy import lazy_re
from gpudoctor.needles import needles

AMD = lazy_re(
    r"AMD-SMI Commands:|AMDSMI Tool: |AMD System Management Interface \||"
    r"\bamd-smi (?:metric|static|list|monitor|process)|^GPU: \d{1,3}\n {4}[A-Z]{3,12}:",
    re.MULTILINE,
)
"""amd-smi's help, which it prints without arguments before ROCm 7.0, its version, and its lists."""
OF_ANOTHER_MAKER = lazy_re(
    r"(?i:^\W{0,24}(?:[$#>] ?|intel )?(?P<tool>(?!nvidia-|amd-|rocm-)[a-z]{2,9}-[sg]mi|hccn_tool)\b"
    r"(?:.{0,80}\b(?:version|driver)\b|[ \w-]{0,40}$))",
    re.MULTILINE,
)
"""The titles, or the command, of Huawei's npu-smi, Habana's hl-smi, Intel's xpu-smi, Moore Threads' mthreads-gmi and
their like."""
HUAWEI = lazy_re(r"\bHugepages-Usage\(page\)|\bHBM-Usage\(MB\)")
"""The columns of npu-smi, without its title."""
LIKE_NVIDIA = lazy_re(r"^\W{0,24}\d{1,3} +(?P<tool>HL-\d|Intel\(R\) )", re.MULTILINE)
"""Rows of hl-smi and xpu-smi, whose tables have nvidia-smi's form, without their titles."""
OTHERS = "output of {}, which --from does not read: of these {} nothing is known; run `gpudoctor check` there"
THERE = "`gpudoctor capture -o FILE` there tells of the GPUs too"


def _line(pattern: str, what: str) -> tuple[re.Pattern[str], str]:
    """It begins a line, whatever mark stands before it."""
    return lazy_re(rf"^[ \t>|*`]{{0,24}}(?:{pattern})", re.MULTILINE), what


LOOKALIKES = (
    _line(r"#\s{0,8}gpu\s+(?:pwr|pid)\b", "what `nvidia-smi dmon` or `pmon` shows; run `nvidia-smi -q > FILE`"),
    _line(
        r"(?=[a-z])(?=.{0,300}\b(?:memory\.|utilization\.|pid|name|uuid))"
        r"[a-z][a-z0-9_.]*(?: \[[^\]\n]*\])?(?:, [a-z][a-z0-9_.]*(?: \[[^\]\n]*\])?)+[ \t]*$",
        "a table of another `nvidia-smi --query-...`; run `nvidia-smi -q > FILE`",
    ),
    (
        lazy_re(
            r"--query-gpu\S{0,400}.{0,60}\bnoheader\b|^(?:\d{1,3}, )?GPU-[0-9a-f]{8}-[0-9a-f-]{27}, ", re.MULTILINE
        ),
        "a table of `nvidia-smi --query-gpu` without its heading; leave out noheader, or run `nvidia-smi -q > FILE`",
    ),
    (AMD, OTHERS.format("amd-smi, AMD's tool", "GPUs")),
    (OF_ANOTHER_MAKER, OTHERS.format("{tool}, the tool of another maker", "accelerators")),
    (LIKE_NVIDIA, OTHERS.format("hl-smi or xpu-smi, tools of other makers", "accelerators")),
    (HUAWEI, OTHERS.format("npu-smi, the tool of another maker", "accelerators")),
    (
        lazy_re(r"\bRAM \d+/\d+MB\b.*\bGR3D_FREQ\b"),
        "what tegrastats shows of a Jetson, and nothing of its health; run `gpudoctor capture -o FILE` there",
    ),
    _line(
        r"GPU instance profiles:|GPU instances:|Compute instances?(?: profiles)?:",
        "a table of `nvidia-smi mig`, which tells what can be parted and not how the GPUs are; run "
        "`nvidia-smi -q > FILE`",
    ),
    _line(
        r"HSA System Attributes|ROCk module is loaded",
        "what rocminfo shows, and nothing of the GPUs' health; run `gpudoctor check` there",
    ),
    _line(
        r"Health Monitor Report|\d{1,3} GPUs? found\.",
        "what dcgmi shows, whose own words count; run `nvidia-smi -q > FILE`",
    ),
    _line(
        r"\S{1,40}(?: \([^)\n]{1,60}\))? port \d{1,2} (?:\(\w+\) )?==> \S{1,20} \((?:Up|Down)\)",
        "what ibdev2netdev shows: the interfaces of RDMA devices, and not how their ports are; run `ibstat > FILE`",
    ),
    _line(
        r"# nThread \d+ nGpus|# Avg bus bandwidth",
        "a table of nccl-tests, which tells how fast and not how fast it should be; `gpudoctor explain FILE` tells "
        "whether its results were right",
    ),
    _line(
        r"nvbandwidth Version|\S{0,60} ?Bandwidth \([^)\n]{1,30}\) Matrix|\[(?:CUDA )?P2P|P2P Connectivity Matrix|"
        r".{0,60}\b(?:P2P=Enabled|P2P=Disabled)",
        "what was measured between GPUs (nvbandwidth, p2pBandwidthLatencyTest), and not how they are; run "
        "`nvidia-smi -q > FILE`",
    ),
    (
        lazy_re(r"^.{0,60}Traceback \(most recent call last\)|ProcessGroupNCCL|\bNCCL (?:INFO|WARN)\b", re.MULTILINE),
        "the log of a job; `gpudoctor explain FILE` reads it",
    ),
)
"""A name in braces is a group of the pattern."""
ALONE = (
    _line(
        r"JobId=\d+ |NodeName=\S+ |PartitionName=\S+|PARTITION +AVAIL|\s*JOBID +PARTITION",
        "what SLURM tells of jobs and nodes (scontrol, sinfo, squeue); `gpudoctor explain FILE` reads it, and "
        "`gpudoctor check` on a node tells of its GPUs",
    ),
    _line(
        r"(?:Allocatable|Capacity|Allocated resources|Conditions):$|NAME +READY +STATUS",
        "what kubectl shows of nodes or pods; `gpudoctor explain FILE` reads its events, and `gpudoctor check` in a "
        "pod there tells of the GPUs",
    ),
    _line(
        r"\[ {0,6}\d{1,7}\.\d{6}\] \S|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ kernel: ",
        "a kernel log in which no driver of a GPU tells of an error; `gpudoctor explain FILE` reads all of it",
    ),
    _line(
        r"(?:.{0,120}[$#] ?|#)?(?:mst|mlx)link\b|Operational Info$",
        "what mlxlink shows of a port; `ibstat` and `ibstatus` are read",
    ),
    _line(
        r"# Port (?:extended )?counters: |(?:CA/RT )?PortInfo:$|# Port info: |DEV\s+PORT\s+INDEX\s+GID",
        "counters or settings of RDMA ports (perfquery, ibportstate, show_gids), and not how they are; run "
        "`ibstat > FILE`",
    ),
    _line(
        r"(?:ClusterName|SlurmctldHost|ControlMachine|AutoDetect|SlurmctldPort)=|(?:NodeName=\S+ +)?Name=gpu\b",
        "SLURM's settings (slurm.conf, gres.conf), and no machine; `gpudoctor check` on a node tells of its GPUs",
    ),
    _line(r".{0,60}\bslurm(?:ctl)?d(?:\[\d{1,8}\])?: ", "a log of SLURM's daemons; `gpudoctor explain FILE` reads it"),
    _line(
        r"(?:export )?(?:NCCL_[A-Z0-9_]+|CUDA_VISIBLE_DEVICES|LD_LIBRARY_PATH)=",
        "variables of an environment, and no machine; `gpudoctor check` there, or `gpudoctor lint` of the script that "
        "sets them",
    ),
    _line(r"(?:Server Version|Storage Driver|Default Runtime): ", f"what `docker info` shows; {THERE}"),
    _line(
        r"jax(?:lib)?: +\d",
        "what jax.print_environment_info shows, and nothing of a driver; run `nvidia-smi -q > FILE`",
    ),
    _line(r"available: \d+ nodes? \(", f"what `numactl -H` shows of CPUs and memory; {THERE}"),
    _line(r"(?:CPU op-mode\(s\)|NUMA node\(s\)):", f"what lscpu shows of CPUs; {THERE}"),
    _line(r"MemTotal: +\d| +total +used +free", f"what /proc/meminfo or free shows of memory; {THERE}"),
    _line(r"Filesystem +\S*(?:[Ss]ize|blocks)", f"what df shows of file systems; {THERE}"),
    _line(r"(?:max locked memory|core file size) +", f"what `ulimit -a` shows; {THERE}"),
    _line(r"Settings for \w[\w.-]{0,15}:", f"what ethtool shows of an interface; {THERE}"),
    _line(r"\d{1,4}: [\w.@-]{1,20}: <[A-Z,_]{2,80}>", f"what `ip addr` shows of interfaces; {THERE}"),
)
"""Named only where nothing else is read: reports that are read hold such lines too."""


needles_of = cache(needles)


def found_in(text: str, patterns: Iterable[tuple[re.Pattern[str], str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Those that fit, each searched for only where the text holds what its every match does."""
    for pattern, what in patterns:
        words = needles_of(pattern.pattern)
        if (not words or any(word in text for word in words)) and (match := pattern.search(text)) is not None:
            yield match, what


def seems(text: str) -> tuple[re.Match[str], str] | None:
    """The first that fits."""
    return next(found_in(text, (*LOOKALIKES, *ALONE)), None)


def of_others(text: str) -> bool:
    """It is about accelerators of which nothing is read: of the machine nothing can be told."""
    return any(pattern.search(text) for pattern in (AMD, OF_ANOTHER_MAKER, HUAWEI, LIKE_NVIDIA))


def is_of_nvidia(text: str) -> bool:
    """No table in it is another maker's with nvidia-smi's form."""
    return "NVIDIA-SMI" in text or not (OF_ANOTHER_MAKER.search(text) or LIKE_NVIDIA.search(text))
