"""Wrong numbers: elements that a collective returned and that are not what they must be."""

from collections.abc import Iterator, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.knowledge.wording import counted, listed, ranges, size
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.grade_places import GradedPlace
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import read


def wrong_data(run: RunResult, places: Sequence[GradedPlace]) -> Iterator[Finding]:
    """One finding for all sizes at which elements were wrong, however fast they came."""
    rows = [row for row in run.rows if row.wrong]
    if not rows:
        return
    ranks = tuple(sorted({rank for row in rows for rank in row.wrong_ranks}))
    nodes = tuple(place.node for place in places if any(member.rank in ranks for member in place.members))
    gpus = [
        f"{member.device} {member.bus_id} on {place.node}"
        for place in places
        for member in place.members
        if member.rank in ranks and member.bus_id
    ]
    worst = max(rows, key=lambda row: row.wrong or 0)
    amount = counted(worst.wrong or 0, "wrong element")
    where = f"; seen by {'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}" if ranks else ""
    on = f" on {listed(nodes)}" if nodes else ""
    yield finding(
        "collective-data-wrong",
        "error",
        f"{worst.collective} of {size(worst.size_bytes)} returned {amount}, 0 are allowed{where}{on}",
        meaning="Gradients would be wrong without any message, and the model would not converge or differ between "
        "ranks. A GPU's memory, an NVLink, a NIC or a peer transfer through an IOMMU corrupts data."
        + (f" Concerned: {listed(gpus)}." if gpus else ""),
        fix=Fix(
            "Take the node out of use. Run the same test with GPUs kept from reading each other's memory: if the "
            "data is right then, peer access through ACS or the IOMMU is at fault; if not, the GPU or the NIC.",
            commands=(
                command("gpudoctor nccl-test --compare NCCL_P2P_DISABLE=0,1"),
                command("gpudoctor check gpu host --deep"),
                *(command("gpudoctor nccl-test --hosts {:host}", node) for node in nodes[:4] if len(places) > 1),
            ),
        ),
        evidence=tuple(
            read(f"{row.collective} of {row.size_bytes} bytes", f"{row.wrong} wrong elements") for row in rows[:4]
        ),
        nodes=nodes,
        ranks=ranks,
    )
