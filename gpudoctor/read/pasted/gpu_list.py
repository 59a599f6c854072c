"""The GPUs of `nvidia-smi -L`, and below each of them its links where `nvidia-smi nvlink -s` wrote it."""

import re
from typing import Any

from msgspec.structs import replace

from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia_smi_values import label
from gpudoctor.read.pasted.part import Pasted, ToolOutput, gpu
from gpudoctor.snapshot import NEVER_IN_OUTPUT, NOT_IN_OUTPUT, Gpu, MigDevice, NvLink, Reading, missing, read

LIST, LINKS = "nvidia-smi -L", "nvidia-smi nvlink -s"
HEADING = lazy_re(
    r"GPU (?P<index>\d{1,3}): (?P<name>\S.*?) "
    r"\(UUID: (?P<uuid>GPU-[0-9A-Za-z-]{1,60}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{1,40})\)$",  # a Jetson has no "GPU-"
    re.ASCII,
)
MIG = lazy_re(r"MIG (?P<name>\S{1,40}) +Device +(?P<index>\d{1,3}): \(UUID: (?P<uuid>MIG-[\w/-]{1,100})\)", re.ASCII)
LINK = lazy_re(r"Link (?P<link>\d{1,2}): (?:(?P<speed>[\d.]{1,8}) GB/s|<inactive>)$", re.ASCII)
COUNTER = lazy_re(r"Link (?P<link>\d{1,2}): (?P<what>Replay|Recovery|CRC) Errors?: (?P<count>\d{1,18})$", re.ASCII)
"""`nvidia-smi nvlink -e`: of links that are up."""
ALL_INACTIVE = "as all links are inActive"
NOT_OFFERED = lazy_re(r"Nvlink queries are not supported|NVLink not supported|Not Supported", re.IGNORECASE)


class _Listed:
    """What stands below a GPU's line, of one of the two tools or both."""

    def __init__(self, found: re.Match[str]) -> None:
        self.index, self.name, self.uuid = int(found["index"]), found["name"], found["uuid"]
        self.mig: list[MigDevice] = []
        self.links: dict[int, bool] = {}
        self.errors: dict[int, dict[str, int]] = {}
        self.said = ""


def parse(block: Pasted) -> ToolOutput:
    listed: dict[int, _Listed] = {}
    current: _Listed | None = None
    is_of_another = has_links = False
    for line in block.lines:
        if (match := HEADING.match(line)) is not None:
            current = listed.setdefault(int(match["index"]), _Listed(match))
            is_of_another = is_of_another or current.uuid != match["uuid"]
        elif current is None:
            continue
        elif (match := MIG.match(line)) is not None:
            where = f"{LIST}, GPU {current.index}"
            never: Reading[Any] = missing(where, NEVER_IN_OUTPUT)
            names = (read(where, match["uuid"]), read(where, label(match["name"])))
            current.mig.append(MigDevice(int(match["index"]), *names, never, never, never, never))
        elif (match := LINK.match(line)) is not None:
            current.links[int(match["link"])] = match["speed"] is not None and float_of(match["speed"]) > 0
            has_links = True
        elif (match := COUNTER.match(line)) is not None:
            link = int(match["link"])
            current.links.setdefault(link, True)
            current.errors.setdefault(link, {})[f"{match['what'].lower()}_errors"] = int(match["count"])
            has_links = True
        elif ALL_INACTIVE in line or NOT_OFFERED.search(line):
            current.said, has_links = line, True
    return _output(listed, has_links=has_links, is_of_another=is_of_another)


def float_of(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII) else 0.0


def _output(listed: dict[int, _Listed], *, has_links: bool, is_of_another: bool) -> ToolOutput:
    most = max((len(each.links) for each in listed.values()), default=0)
    gpus = tuple(_gpu(each, most, has_links=has_links) for each in listed.values())
    cut = [each.index for each in listed.values() if has_links and len(each.links) < most and not each.said]
    lacks = [f"`{LINKS}` is cut in GPU {cut[0]}"] if cut else []
    if is_of_another:
        lacks.append("GPUs of several machines are listed, of which the first are judged")
    lacks += [
        f"link {link} of GPU {each.index} counts {errors['crc_errors']} CRC errors, which links correct; whether they "
        "grow, one look does not tell"
        for each in listed.values()
        for link, errors in each.errors.items()
        if errors.get("crc_errors")
    ][:4]
    if listed and sorted(listed) != list(range(len(listed))):
        lacks.append(f"the list is a part: it shows {len(listed)} GPUs, numbered up to {max(listed)}")
    return ToolOutput(
        LINKS if has_links else LIST,
        gpus,
        lacks=tuple(lacks),
        tells="names and NVLinks" if has_links else "names",
    )


def _gpu(listed: _Listed, most: int, *, has_links: bool) -> Gpu:
    source = f"{LINKS if has_links else LIST}, GPU {listed.index}"
    facts: dict[str, Reading[Any]] = {"name": _named(source, listed.name), "uuid": read(source, listed.uuid)}
    if listed.mig:
        facts["mig_devices"] = read(source, tuple(listed.mig))
    if ALL_INACTIVE in listed.said:
        facts["nvlinks"] = read(f"{source}: {listed.said}", ())
    elif listed.said:
        facts["nvlinks"] = missing(source, listed.said[:100], "absent")
    elif has_links and len(listed.links) < most:
        facts["nvlinks"] = missing(source, NOT_IN_OUTPUT)
    elif listed.links:
        links = (replace(NvLink(link, up), **listed.errors.get(link, {})) for link, up in sorted(listed.links.items()))
        facts["nvlinks"] = read(source, tuple(links))
    return gpu(listed.index, source, facts)


def _named(source: str, name: str) -> Reading[str]:
    try:
        return read(source, label(name))
    except ValueError:
        return missing(source, f"unexpected value {name[:40]!r}")
