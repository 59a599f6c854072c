"""The verdict over a run: each collective's bus bandwidth against what the limiting link reaches elsewhere.

all_gather and reduce_scatter go by rings and show the wire. all_reduce does not where the NVSwitch adds up (NVLS), or
where two nodes take a tree: it is compared with runs of the same kind, and the links are judged by the others. What
makes a run slow whatever its numbers say (TCP beside idle RDMA ports, no GPUDirect, host memory between GPUs that could
talk directly) is `misconfigured`, and its fix comes first.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from gpudoctor.knowledge.bandwidth.expected import DEGRADED, HEALTHY, LEAST_SIZE, Expected, Way, asked, at_size, inside
from gpudoctor.knowledge.bandwidth.families import family
from gpudoctor.knowledge.bandwidth.links import Link, between_nodes, inside_node, limiting, reduces_in_switch
from gpudoctor.knowledge.nccl.log import LogFacts
from gpudoctor.knowledge.wording import counted, size
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.grade_data import wrong_data
from gpudoctor.nccl.grade_distance import worth_comparing
from gpudoctor.nccl.grade_paths import PathFault, misconfigured
from gpudoctor.nccl.grade_places import GradedPlace, merged, places, sharing_gpus
from gpudoctor.nccl.grade_rates import far_below, rates_of, unlike_rates
from gpudoctor.nccl.grade_speed import busy_gpus, nvls_off, ring_settings, slow
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import Grade, RunResult, Verdict
from gpudoctor.snapshot import Snapshot

GRADED = ("all_reduce", "all_gather", "reduce_scatter")
"""What published runs measured. Others are compared with nothing."""
NCCL_NAMES = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter"}


def grade(
    run: RunResult, snapshots: Mapping[str, Snapshot], backend: str, logs: Mapping[int, str]
) -> tuple[tuple[Grade, ...], tuple[Finding, ...]]:
    """Grades by collective, at the largest size measured, and what was found.

    `snapshots` by the nodes' names, `logs` NCCL's log by rank. Never raises for what was not read: it is not graded.
    """
    rows = largest(run.rows)
    graded_places = places(run, snapshots, logs)
    rates = rates_of(graded_places, backend)
    findings = [*wrong_data(run, graded_places), *unlike_rates(graded_places, rates)]
    if refusal := why_not(run, backend, graded_places):
        link, reason = refusal
        findings += far_below(rows, graded_places, rates)
        return tuple(_ungraded(row, link, reason) for row in rows), tuple(findings)
    faults = misconfigured(graded_places)
    links = Links(graded_places)
    grades = tuple(_grade(row, links, faults) for row in rows)
    findings += [fault.finding for fault in faults]
    findings += nvls_off(graded_places) if any(row.collective == "all_reduce" for row in rows) else []
    findings += slow(grades, rows, graded_places, bool(faults))
    if not any(graded.verdict in ("degraded", "broken", "misconfigured") for graded in grades):
        findings += far_below(rows, graded_places, rates)
    findings += busy_gpus(graded_places, any(graded.verdict in ("degraded", "broken") for graded in grades))
    findings += worth_comparing(graded_places)
    return grades, tuple(findings)


def largest(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The row of the largest size of each collective, in the order in which they were measured."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.collective not in best or row.size_bytes >= best[row.collective].size_bytes:
            best[row.collective] = row
    return tuple(best.values())


def why_not(run: RunResult, backend: str, graded_places: Sequence[GradedPlace]) -> tuple[str, str] | None:
    """What the data went over, and why nothing of this run can be graded; None when it can."""
    if backend != "nccl":
        return backend, f"{backend} over CPU, not NCCL"
    if any(member.device == "cpu" for member in run.members):
        return "the CPUs", "the ranks ran on CPUs"
    if shared := sharing_gpus(graded_places):
        ranks = ", ".join(str(member.rank) for member in shared[0])
        return "a shared GPU", f"ranks {ranks} share one GPU and take turns on it, so bandwidth says nothing"
    if not run.members:
        return "an unknown path", "the ranks did not say where they ran"
    if run.members[0].world_size < 2:
        return "no link", "one rank alone sends nothing"
    return None


class Links:
    """The parts of the path, worked out once for all collectives."""

    def __init__(self, found: Sequence[GradedPlace]) -> None:
        self.found = found
        self._inside: dict[Way, list[Link]] = {}

    @cached_property
    def between(self) -> list[Link]:
        """The network of each node; none for a single one."""
        several = len(self.found) > 1
        return [
            between_nodes(place.machine, place.addresses, place.log)
            for place in self.found
            if several and place.machine
        ]

    def inside(self, way: Way) -> list[Link]:
        """The link between the GPUs of each node that has several ranks."""
        if way not in self._inside:
            self._inside[way] = [
                inside_node(place.machine, place.addresses, way, place.log)
                for place in self.found
                if place.machine and len(place.members) > 1
            ]
        return self._inside[way]

    def along(self, way: Way) -> list[Link]:
        """All parts, and an unknown one for each node of which nothing was read."""
        unread = [place.node for place in self.found if place.machine is None]
        unknown = [Link("an unknown path", reason=f"nothing was read of {node}") for node in unread]
        return [*unknown, *self.inside(way), *self.between]


def _grade(row: Row, links: Links, faults: Sequence[PathFault]) -> Grade:
    graded_places = links.found
    way, link = path_of(row, links)
    if faults:
        return _misconfigured(row, link, faults)
    if row.collective not in GRADED:
        return _ungraded(row, link.words, f"nothing is published for {row.collective}")
    wanted = asked(row.size_bytes, sum(len(place.members) for place in graded_places))
    if wanted < LEAST_SIZE:
        return _ungraded(row, link.words, f"{size(wanted)} is too small to say; {size(LEAST_SIZE)} is the least")
    if link.expected is None:
        return _ungraded(row, link.words, link.reason)
    measured, expected = row.bus_bandwidth, at_size(link.expected, wanted)
    if row.collective == "all_reduce" and len(graded_places) > 1 and measured > link.expected.peak:
        return _ungraded(
            row,
            link.words,
            f"{measured:.4g} GB/s is more than the wire's {link.expected.peak:.4g}: a tree, NVLS or SHARP sends less "
            "than a ring, so all_gather is what shows the links",
        )
    found_so = verdict(measured, expected)
    if found_so != "healthy" and link.doubt:
        return _ungraded(
            row,
            link.words,
            f"{measured:.4g} GB/s is less than the {expected.reached:.4g} of such ports, but {link.doubt}",
        )
    return Grade(
        collective=row.collective,
        verdict=found_so,
        link=link.words,
        measured=measured,
        expected=round(expected.reached, 1),
        source=expected.source,
        reason=_remark(row, wanted, way, graded_places, expected),
    )


def verdict(measured: float, expected: Expected) -> Verdict:
    """healthy, degraded or broken, by the shares of knowledge/bandwidth/expected.py."""
    if expected.only_alarm:
        return _by(measured, expected.reached, expected.reached * DEGRADED / HEALTHY)
    return _by(measured, HEALTHY * expected.reached, DEGRADED * expected.reached)


def _by(measured: float, healthy: float, degraded: float) -> Verdict:
    return "healthy" if measured >= healthy else "degraded" if measured >= degraded else "broken"


def path_of(row: Row, links: Links) -> tuple[Way, Link]:
    """How this collective goes, and the part of the path that limits it."""
    graded_places = links.found
    world = sum(len(place.members) for place in graded_places)
    log = merged(graded_places)
    way = way_of(row, graded_places, log)
    if any(path.transport == "P2P/MNNVL" for path in log.paths) and "NET" not in log.transports():
        return way, _nvlink_domain(graded_places, world, way)
    if (
        all("MI300X" in member.device for place in graded_places for member in place.members)
        and len(graded_places) == 1
    ):
        expected = inside("xgmi", "MI300X", world, "ring")
        reason = "" if expected else f"nothing is published for {world} x MI300X"
        return "ring", Link(f"Infinity Fabric, {counted(world, 'GPU')}", expected, reason)
    return way, limiting(links.along(way))


def way_of(row: Row, graded_places: Sequence[GradedPlace], log: LogFacts) -> Way:
    """nvls where the NVSwitch adds up for all_reduce inside one node or NVLink domain; ring for all else."""
    if row.collective != "all_reduce" or any(ring_settings(place) for place in graded_places):
        return "ring"
    algorithm = log.algorithm(NCCL_NAMES[row.collective], row.size_bytes)
    if algorithm:
        return "nvls" if algorithm == "NVLS" else "ring"
    domain = any(path.transport == "P2P/MNNVL" for path in log.paths)
    switched = all(place.machine is not None and reduces_in_switch(place.machine, place.log) for place in graded_places)
    return "nvls" if switched and (len(graded_places) == 1 or domain) else "ring"


def _nvlink_domain(graded_places: Sequence[GradedPlace], world: int, way: Way) -> Link:
    names = {family(member.device) for place in graded_places for member in place.members}
    name = names.pop() if len(names) == 1 else ""
    expected = inside("mnnvl", name, world, way)
    reason = (
        "" if expected else f"nothing is published for {world} x {name or 'this GPU'} in one NVLink domain this way"
    )
    return Link(f"NVLink between nodes (MNNVL), {counted(world, 'GPU')}", expected, reason)


def _remark(row: Row, wanted: int, way: Way, graded_places: Sequence[GradedPlace], expected: Expected) -> str:
    """What a reader has to know to read the verdict rightly."""
    said = []
    if wanted < 2**30:
        said.append(f"measured at {size(wanted)}, where less is expected than at 1 GiB")
    if row.collective == "all_reduce" and len(graded_places) == 2:
        said.append(
            "between two nodes all_reduce may take a tree, which hides half of a slow link; all_gather does not"
        )
    if way == "nvls":
        said.append("the NVSwitch reduces (NVLS), which hides a slow link; all_gather shows the links")
    if row.collective == "all_reduce" and (
        settings := [text for place in graded_places for text in ring_settings(place)]
    ):
        said.append(f"compared with rings because of {settings[0]}")
    return "; ".join(said)


def _misconfigured(row: Row, link: Link, faults: Sequence[PathFault]) -> Grade:
    """Without an expectation: that of the path as it is would mislead, and the right path is not in use."""
    return Grade(
        collective=row.collective,
        verdict="misconfigured",
        link=link.words,
        measured=row.bus_bandwidth,
        reason="; ".join(fault.reason for fault in faults),
    )


def _ungraded(row: Row, link: str, reason: str) -> Grade:
    return Grade(
        collective=row.collective,
        verdict="not graded",
        link=link,
        measured=row.bus_bandwidth,
        reason=reason,
    )
