"""Where the ranks were: one that is behind all others, one that is elsewhere, and what is left to say otherwise."""

from collections import Counter
from collections.abc import Iterator, Mapping

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.nccl import story
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import Reading, Snapshot, read


def behind(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """The ranks whose phase all others have passed."""
    ranks = story.ranks(run)
    places = {rank.state.rank: story.progress(rank.state.phase, run) for rank in ranks}
    if len(set(places.values())) < 2:
        return
    least = min(places.values())
    late = [rank for rank in ranks if places[rank.state.rank] == least]
    seconds = max(rank.state.seconds_in_phase for rank in late)
    since = f" for {seconds:.0f} s" if seconds >= 1 else ""
    where = story.nodes_of(late)
    yield story.blamed(
        "slow-rank-timeout",
        f"{story.rank_names(late)} on {folded(where)} {'was' if len(late) == 1 else 'were'}{since} "
        f"{story.in_phase(late[0].state.phase)}, which all others have passed",
        run,
        where,
        story.numbers_of(late),
        meaning=f"The others cannot go on without that. {story.others(run, late)}",
        fix=_hurry(late[0], snapshots.get(late[0].node)),
        evidence=story.evidence(late),
    )


def _hurry(rank: story.TestedRank, machine: Snapshot | None) -> Fix:
    late = CAUSES["slow-rank-timeout"]
    if rank.state.phase in ("", "import torch"):
        python = machine.training.python.value_or("python3") if machine is not None else "python3"
        return late.remedy("import", command("time {:python} -c 'import torch'", python))
    return late.remedy("cuda" if rank.state.phase == "CUDA start" else "node")


def elsewhere(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Equally far ranks that do different things: other collectives, or a few at another line than most."""
    ranks = [rank for rank in story.ranks(run) if rank.state.ended == ""]
    phases = Counter(rank.state.phase for rank in ranks)
    at = Counter(rank.stack[0] for rank in ranks if rank.stack)
    if len(phases) > 1:
        usual = phases.most_common(1)[0][0]
        few = [rank for rank in ranks if rank.state.phase != usual]
        what, most = story.in_phase(few[0].state.phase), story.in_phase(usual)
    elif len(at) > 1:
        frame = at.most_common(1)[0][0]
        few = [rank for rank in ranks if rank.stack and rank.stack[0] != frame]
        what, most = f"in {few[0].stack[0]}", f"in {frame}"
    else:
        return
    if 2 * len(few) >= len(ranks):
        return  # no side is the odd one
    where = story.nodes_of(few)
    yield story.blamed(
        "slow-rank-timeout",
        f"{story.rank_names(few)} on {folded(where)} was {what}, while the others were {most}",
        run,
        where,
        story.numbers_of(few),
        meaning="A collective ends when all ranks have come to it; these have not.",
        fix=CAUSES["slow-rank-timeout"].remedy("node"),
        evidence=story.evidence([*few[:2], *[rank for rank in ranks if rank not in few][:1]]),
    )


def unexplained(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """What is known where nothing names a cause."""
    ranks = story.ranks(run)
    groups: dict[str, list[story.TestedRank]] = {}
    for rank in ranks:
        groups.setdefault(rank.state.phase, []).append(rank)
    where = listed([f"{story.rank_names(some)} {story.in_phase(phase)}" for phase, some in groups.items()], most=3)
    stalled = run.outcome == "stalled"
    what = "no rank got on any more" if stalled else "the test ended early"
    nccl = any(member.nccl for member in run.members) or any(rank.state.log for rank in ranks)
    commands = [story.on(node, command("gpudoctor check"), run) for node in run.nodes[:1]]
    text = "Examine the nodes; --find-slow runs the test on halves and pairs of them, and names the odd one."
    if nccl and stalled:
        text = (
            "All ranks have launched the operation, so what is left is the way between GPUs, the driver, or NCCL. The "
            "first line says whether GPUs reach each other through PCIe (ACS and an IOMMU break that); --find-slow "
            "names a node by halves and pairs."
        )
        commands.insert(0, command("NCCL_P2P_DISABLE=1 gpudoctor nccl-test"))
    if len(run.nodes) > 1:
        commands.append(command("gpudoctor nccl-test --find-slow"))
    yield finding(
        "test-stalled" if stalled else "test-died",
        "error",
        f"{what}: {where or 'no rank had begun'}; the cause is not visible from outside",
        meaning=f"{counted(len(ranks), 'rank')} and their processes looked alive, and none said what it waits for."
        if stalled
        else "What the ranks said is about each other; none names a cause of its own.",
        fix=Fix(text, tuple(commands)),
        evidence=tuple(_everything(run)) or (read("ranks", "none had begun"),),
        nodes=run.nodes,
        ranks=story.numbers_of(ranks),
    )


def _everything(run: RunResult) -> Iterator[Reading[str]]:
    ranks = story.ranks(run)
    for rank in ranks[:3]:
        if rank.state.error:
            yield story.error_reading(rank)
    yield from story.evidence(ranks)
    for end in run.ends[:4]:
        if end.error:
            yield story.launcher_reading(end)
