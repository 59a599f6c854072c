"""What to say of a run that is slower than it should be: settings that explain it, others on the GPUs, what next."""

from collections.abc import Iterator, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.knowledge.bandwidth.links import gpus_at, reduces_in_switch
from gpudoctor.knowledge.nccl.fabric import has_nvlink_sharp
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import Setting, set_integer, set_text
from gpudoctor.knowledge.wording import listed, size
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.grade_paths import settings_of, suggested
from gpudoctor.nccl.grade_places import GradedPlace
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import Grade
from gpudoctor.snapshot import Gpu, NotRead, read

SLOWING = (
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_NET",
    "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE",
    "NCCL_PXN_DISABLE", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MIN_CTAS",
    "NCCL_NTHREADS", "NCCL_BUFFSIZE",
    "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_CUMEM_ENABLE",
)  # fmt: skip
"""Settings that change which way data goes, or how much of it at once."""
BUSY_PERCENT = 10
"""Utilisation from which a GPU counts as used by others; our rule of thumb."""


def ring_settings(place: GradedPlace) -> list[str]:
    """ "NCCL_ALGO=Ring", "NCCL_NVLS_ENABLE=0": the settings that leave all_reduce no NVLS."""
    settings = settings_of(place)
    set_here = []
    algorithms = set_text(settings, "NCCL_ALGO").lower()
    if algorithms and ("nvls" not in algorithms) != algorithms.startswith("^"):
        set_here.append(f"NCCL_ALGO={settings['NCCL_ALGO'].value}")
    if set_integer(settings, "NCCL_NVLS_ENABLE", 2) == 0:
        set_here.append(f"NCCL_NVLS_ENABLE={settings['NCCL_NVLS_ENABLE'].value}")
    return set_here


def nvls_off(places: Sequence[GradedPlace]) -> list[Finding]:
    """The NVSwitch could add up for all_reduce, and does not."""
    if len(places) != 1 or places[0].machine is None:
        return []
    place, machine = places[0], places[0].machine
    try:
        able = has_nvlink_sharp(machine) and len(place.members) == len(machine.nvidia.gpus.value)
    except NotRead:
        return []
    forced = ring_settings(place)
    if not able or not (forced or not reduces_in_switch(machine, place.log)):
        return []
    settings = settings_of(place)
    blamed = [settings[text.partition("=")[0]] for text in forced]
    why = f"because of {listed(forced)}" if forced else "and no setting says so: its multicast memory is not to be had"
    return [
        finding(
            "nvls-unused",
            "warning",
            f"all_reduce goes by rings on {place.node} though its NVSwitches could reduce (NVLS), {why}",
            # nccl-tests#212: 360 to 370 against 460 to 480 GB/s on 8 x H100.
            meaning="all_reduce inside the node loses about a fifth of its bandwidth.",
            fix=Fix("Take it out.", commands=take_out(*blamed))
            if blamed
            else Fix(
                "Restart Fabric Manager, in the driver's version, and look at what it says.",
                commands=(command("systemctl status nvidia-fabricmanager"), command("gpudoctor check driver")),
            ),
            evidence=(read(f"NCCL's log of {place.node}", f"{place.log.nvls_channels} NVLS channels"),),
            nodes=(place.node,),
        )
    ]


def slow(grades: Sequence[Grade], rows: Sequence[Row], places: Sequence[GradedPlace], explained: bool) -> list[Finding]:
    """One finding for the collective that is furthest below what is reached, unless a fault of the path explains it."""
    bad = [grade for grade in grades if grade.verdict in ("degraded", "broken") and grade.expected]
    if not bad or explained:
        return []
    worst = min(bad, key=lambda grade: grade.measured / (grade.expected or 1.0))
    expected = worst.expected or worst.measured
    row = next(row for row in rows if row.collective == worst.collective)
    nodes = tuple(place.node for place in places)
    blamed = slowing(places)
    return [
        finding(
            f"bandwidth-{worst.verdict}",
            "warning",
            f"{worst.collective} of {size(row.size_bytes)} reaches {worst.measured:.4g} GB/s bus bandwidth over "
            f"{worst.link}; {expected:.4g} GB/s is reached elsewhere ({worst.source})",
            meaning="What a step spends in this collective takes "
            f"{_times(expected, worst.measured)} as long as it should."
            + (
                f" Settings that may explain it: {listed(f'{each.name}={each.value}' for each in blamed)}."
                if blamed
                else ""
            ),
            fix=Fix(*_next(places, blamed)),
            evidence=(read(f"{row.collective} of {row.size_bytes} bytes", row.bus_bandwidth),),
            nodes=nodes,
        )
    ]


def _times(expected: float, measured: float) -> str:
    return f"{expected / measured:.1f} times" if measured > 0 else "far more than 100 times"


def slowing(places: Sequence[GradedPlace]) -> list[Setting]:
    """The settings in force that could explain it, each once."""
    every = {name: setting for place in places for name, setting in settings_of(place).items()}
    return [every[name] for name in SLOWING if name in every and every[name].value]


def _next(places: Sequence[GradedPlace], blamed: Sequence[Setting]) -> tuple[str, tuple[Command, ...]]:
    """What to do next, and its lines."""
    machine = places[0].machine
    if blamed:
        return "Take the settings out, and measure again.", (*take_out(*blamed), command("gpudoctor nccl-test"))
    if len(places) > 1:
        exports = suggested(machine) if machine is not None else ()
        return (
            "Find the node, link or NIC that is the slow one, with nothing else running on the nodes.",
            (
                *exports,
                command("gpudoctor nccl-test --hosts {:name} --find-slow", ",".join(place.node for place in places)),
            ),
        )
    return (
        "Look at the links, clocks and temperatures of the GPUs, with nothing else running on the node.",
        (command("gpudoctor check gpu driver host"), command("nvidia-smi nvlink -s"), command("gpudoctor topology")),
    )


def busy_gpus(places: Sequence[GradedPlace], is_slow: bool) -> list[Finding]:
    """GPUs of the run that others were using before it began: their share is missing in the numbers."""
    used = [(place, gpu, why) for place in places for gpu, why in _used(place)]
    if not used:
        return []
    place, gpu, why = used[0]
    nodes = tuple(dict.fromkeys(place.node for place, _, _ in used))
    more = f", and {len(used) - 1} more" if len(used) > 1 else ""
    return [
        finding(
            "gpu-busy",
            "warning" if is_slow else "info",
            f"GPU {gpu.index} of {place.node} was in use before the test began: {why}{more}; an idle GPU is wanted",
            meaning="Other work takes bandwidth and time on the GPU, so the numbers may be lower than the links'.",
            fix=Fix(
                "Measure again when the GPUs are idle.",
                commands=(command("nvidia-smi"), command("gpudoctor nccl-test")),
            ),
            evidence=(gpu.processes if gpu.processes.is_read else gpu.utilization_gpu_percent,),
            gpus=(gpu.index,),
            nodes=nodes,
        )
    ]


def _used(place: GradedPlace) -> Iterator[tuple[Gpu, str]]:
    if place.machine is None:
        return
    try:
        gpus = gpus_at(place.machine, place.addresses)
    except NotRead:
        return
    for gpu in gpus:
        others = [process for process in gpu.processes.value_or(()) if process.kind == "compute" and not process.is_own]
        percent = gpu.utilization_gpu_percent.value_or(0)
        if others:
            program = others[0].command.value_or("")
            yield gpu, f"pid {others[0].pid}{f' {program[:40]}' if program else ''}"
        elif percent >= BUSY_PERCENT:
            yield gpu, f"{percent}% utilisation"
