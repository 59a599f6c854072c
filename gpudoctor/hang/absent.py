"""Ranks that no process is seen of: which node should have them, and what a launcher that is left says of them."""

import ipaddress
from collections import Counter, defaultdict

from gpudoctor.hang.job import HangJob, Launcher, Rank
from gpudoctor.hang.progress import STOPPED, JobProgress
from gpudoctor.launcher.registry import rank_setters
from gpudoctor.launcher.told import number
from gpudoctor.snapshot.evidence import Unread


def minders(job: HangJob) -> list[Launcher]:
    """Launchers that end all ranks of theirs when one fails (torchrun, accelerate, deepspeed), and can: they run."""
    return [
        launcher
        for launcher in job.launchers
        if launcher.kind in rank_setters() and launcher.evidence.state not in STOPPED
    ]


def minds(job: HangJob, hosts: list[str]) -> Launcher | None:
    """A launcher on one of these hosts that has ranks left there and has not ended them: what it lacks has ended
    well."""
    return next((minder for minder in minders(job) if minder.ranks and minder.node.host in hosts), None)


def hosts_of_gaps(job: HangJob) -> tuple[list[int], list[str]]:
    """Ranks that no process is seen of, where it is known that they belong on a node that was read; and these nodes."""
    missing = set(job.missing)
    proven = {rank: host for rank, host in local_gaps(job).items() if rank in missing}
    if not missing or not (proven or all_here(job)):
        return [], []
    return sorted(proven) or sorted(missing), list(dict.fromkeys(proven.values())) or [node.host for node in job.nodes]


def may_be_unread(job: HangJob) -> tuple[Unread, ...]:
    """What a rank without a process may be: processes that were not told, for time, number or permission."""
    known = {process.process.pid for node in job.nodes for process in node.processes}
    return tuple(
        unread
        # Of the first look, in which ranks are found, and of the second.
        for unreads in (job.evidence.unread, *(node.unread for node in job.nodes))
        for unread in unreads
        if unread.what.startswith(("processes", "environment"))
        and unread.pid not in known
        and unread.user in ("", job.user)
    )


def local_gaps(job: HangJob) -> dict[int, str]:
    """Ranks that their node should have by LOCAL_WORLD_SIZE of the others there -> the node."""
    seen: defaultdict[tuple[str, str], dict[int, Rank]] = defaultdict(dict)
    nodes: dict[tuple[str, str], str] = {}
    for rank in job.ranks:
        if rank.local_rank is not None:
            group = rank.environment.get("GROUP_RANK", "")
            key = (rank.node.host, group)
            seen[key][rank.local_rank] = rank
            nodes[key] = rank.node.host
    gaps: dict[int, str] = {}
    for key, ranks in seen.items():
        sizes = Counter(number(rank.environment.get("LOCAL_WORLD_SIZE")) for rank in ranks.values())
        size = sizes.most_common(1)[0][0]
        first = {rank.rank - local for local, rank in ranks.items()}
        if size is None or len(first) != 1 or size > 1024:
            continue
        base = first.pop()
        gaps.update({base + local: nodes[key] for local in range(size) if local not in ranks})
    return gaps


def all_here(job: HangJob) -> bool:
    """Whether no other node can have a rank of it: its master is the loopback address, and one node has ranks."""
    if len({rank.node.host for rank in job.ranks}) != 1:
        return False
    if job.master_address == "localhost":
        return True
    try:
        return ipaddress.ip_address(job.master_address).is_loopback
    except ValueError:
        return False


def waiting_ranks(progress: JobProgress) -> tuple[Rank, ...]:
    """Those that wait for somebody. Where nobody is in a collective, they may only sleep and ask again, for a file or
    a key: then all that live. Of a rank without a stack that is not told; it counts where it uses next to no CPU."""
    asleep = tuple(rank for rank in progress.away if rank.place.kind in ("sleep", "data") or _is_quiet(rank))
    return progress.waiting or (asleep if len(asleep) == len(progress.away) else ())


def _is_quiet(rank: Rank) -> bool:
    """Whether a rank whose stack was not read has used less than a twentieth of a core between two looks."""
    samples = rank.evidence.samples
    if rank.place.kind != "unknown" or len(samples) < 2:
        return False
    first, last = samples[0].cpu_seconds, samples[-1].cpu_seconds
    return first is not None and last is not None and last - first <= 0.05 * max(samples[-1].at - samples[0].at, 0.1)
