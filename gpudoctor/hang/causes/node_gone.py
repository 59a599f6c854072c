"""Nodes that nobody reaches, while the ranks of others wait for theirs."""

from collections.abc import Iterator

from gpudoctor.hang.addresses import owners
from gpudoctor.hang.causes import CAUSES, LIKELY, SEEN, HangCause, HangJob, HangRule, Seen, blame, command
from gpudoctor.hang.causes.start_network import dead_connections, unacknowledged
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.words import ranks_of, verb, waiting_words
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.launcher.told import number

GONE = ("unreachable", "no answer", "connection lost")
"""Kinds of `Lost` of a node that itself, or the way to it, does not work; not one that refuses who asks."""
MOST_SHOWN = 8


def nodes_do_not_answer(job: HangJob) -> Iterator[HangCause]:
    """The job's other nodes were asked in the same way and have answered."""
    lost = {host: why for host, why in job.evidence.lost.items() if why.startswith(GONE)}
    progress = progress_of(job)
    if not lost or not progress.waiting or progress.verdict == "moves":
        return
    nodes = job.evidence.nodes
    dead = [one for one in dead_connections(job) if not any(True for _ in owners(nodes, one.remote))]
    per_node = max((number(rank.environment.get("LOCAL_WORLD_SIZE")) or 0 for rank in job.ranks), default=0)
    missing = job.missing if len(job.missing) <= (per_node or len(job.missing)) * len(lost) else ()
    if not dead and not missing:
        return  # a node of the list that this job may not run on
    told = []
    if missing:
        told.append(f"{ranks_of(missing)} {verb(missing, 'was', 'were')} not seen")
    if dead:
        ends = f"{listed(dict.fromkeys(one.remote for one in dead))}, which none of the others has,"
        told.append(f"{counted(len(dead), 'connection')} with {ends} {verb(dead, 'is', 'are')} dead")
    yield blame(
        "node-lost",
        SEEN if dead else LIKELY,
        missing,
        f"{listed(lost)} {verb(list(lost), 'does', 'do')} not answer: {' and '.join(told)}; "
        f"{waiting_words(progress.waiting)}",
        [
            *(Seen(f"node {host}", why) for host, why in list(lost.items())[:MOST_SHOWN]),
            *(unacknowledged(one) for one in dead[:MOST_SHOWN]),
        ],
        fix=CAUSES["node-lost"].remedy(
            "unreached", *(command("ping -c 3 {:host}", host) for host in lost), nodes=listed(lost)
        ),
    )


RULES: tuple[HangRule, ...] = (nodes_do_not_answer,)
