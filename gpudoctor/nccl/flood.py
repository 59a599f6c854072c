"""Ranks that say more than is theirs to say: what is taken of it, and that the rest was dropped."""

from gpudoctor.command import command
from gpudoctor.fleet.messages import Launch
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import read

PER_MEASUREMENT = 4
"""Rows, or sizes skipped, that are taken for each measurement of the plan. One is said; the rest is for surprises."""
MOST_MEMBERS = 65_536
"""Of a world that others started, whose size the launch does not tell."""


def most_rows(launch: Launch) -> int:
    """Rows that are taken of a launch, and sizes that it skipped."""
    return PER_MEASUREMENT * len(launch.measurements)


def may_be_rank(launch: Launch, rank: int) -> bool:
    """Whether the world of a launch can have this rank."""
    return 0 <= rank < (MOST_MEMBERS if launch.outer is not None else sum(launch.ranks_per_node))


def ranks_of(launch: Launch, node: int) -> range:
    """The ranks that a node of a launch has, in torchrun's order. All, of a world that others started."""
    if launch.outer is not None:
        return range(MOST_MEMBERS)
    place = launch.nodes.index(node)
    first = sum(launch.ranks_per_node[:place])
    return range(first, first + launch.ranks_per_node[place])


def flood_finding(run: RunResult) -> tuple[Finding, ...]:
    """That messages were dropped."""
    if not run.dropped:
        return ()
    taken = len(run.rows)
    return (
        finding(
            "too-many-messages",
            "warning",
            f"The ranks said {run.dropped} lines more than the plan has room for; {taken} rows were taken, the rest "
            "was dropped",
            meaning="Something else writes into the ranks' output, or the rank program there is another one: the "
            "figures above may be its.",
            fix="Compare the installed gpudoctor of all nodes, and look what the interpreter loads at its start.",
            commands=(command("gpudoctor check --hosts {:name}", ",".join(run.nodes[:8])),)
            if len(run.nodes) > 1
            else (),
            evidence=(read("messages of the ranks beyond the plan", run.dropped),),
            nodes=run.nodes,
        ),
    )
