"""Who cannot take part: ranks that were stopped, that ended, that are missing, and GPUs that are lost."""

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from gpudoctor.command import command
from gpudoctor.hang.job import Job, Launcher, Rank
from gpudoctor.hang.progress import STARTING, STOPPED, progress_of
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.words import (
    at,
    confirm_for,
    ended_words,
    fix_for,
    on_host,
    process_of,
    ranks_of,
    stacks_of,
    verb,
    waiting_words,
    where,
)
from gpudoctor.knowledge.wording import listed, ranges
from gpudoctor.snapshot.evidence import KernelEvent, NodeEvidence, ProcessEvidence

SIGTERM = 15
SIGKILL = 9
MOST_NAMED = 8
"""Culprits of one kind whose evidence is written out."""


def stopped_ranks(job: Job) -> Iterator[HangCause]:
    """State T or t, of the rank or of one of its data loaders; or a debugger's prompt on standard input."""
    found = [rank for rank in job.ranks if rank.state in STOPPED]
    if found:
        traced = all(rank.state == "t" for rank in found)
        how = "held by a debugger (state t)" if traced else "stopped (state T)"
        continues = tuple(on_host(job, rank, command("kill -CONT {:pid}", rank.pid)) for rank in found[:MOST_NAMED])
        yield HangCause(
            cause="stopped-rank",
            confidence=0.97,
            ranks=tuple(rank.rank for rank in found),
            where=where(found[0].place.user_frame),
            evidence=tuple(
                Seen(f"{process_of(rank)} /proc/{rank.pid}/stat", f"state {rank.state}{at(rank.place.user_frame)}")
                for rank in found[:MOST_NAMED]
            ),
            summary=f"{ranks_of(found)} {verb(found, 'is', 'are')} {how}{_others(job, found)}",
            fix=fix_for(
                "stopped-rank",
                "Let it go on, and find what stopped it: Ctrl-Z, a debugger, a scheduler that suspends jobs, a frozen "
                "cgroup."
                if not traced
                else "Let the debugger go on or detach; it holds the process.",
                () if traced else continues,
            ),
        )
    if progress_of(job).verdict == "moves":
        return  # nobody waits for what is asked or stopped there
    for rank in job.ranks:
        stopped = [each for each in rank.data_loaders if _state(each) in STOPPED] if rank.place.kind == "data" else []
        if stopped:
            pid = stopped[0].process.pid
            yield HangCause(
                cause="stopped-rank",
                confidence=0.9,
                ranks=(rank.rank,),
                where=where(rank.place.user_frame),
                evidence=(Seen(f"data loader pid {pid} of rank {rank.rank}", f"state {_state(stopped[0])}"),),
                summary=f"A data loader process (pid {pid}) of rank {rank.rank} is stopped, and the rank waits for it"
                f"{at(rank.place.user_frame)}",
                fix=fix_for(
                    "stopped-rank",
                    "Let it go on, and find what stopped it.",
                    (on_host(job, rank, command("kill -CONT {:pid}", pid)),),
                ),
            )
    asks = [rank for rank in job.ranks if rank.place.kind == "input" and rank.moved is not True]
    if asks:
        yield HangCause(
            cause="stopped-rank",
            confidence=0.93,
            ranks=tuple(rank.rank for rank in asks),
            where=where(asks[0].place.user_frame),
            evidence=stacks_of(asks),
            summary=f"{ranks_of(asks)} {verb(asks, 'waits', 'wait')} for input{at(asks[0].place.user_frame)}"
            f"{_others(job, asks)}",
            fix=fix_for(
                "stopped-rank",
                "Remove the breakpoint, or the question on standard input: a rank under a launcher has nobody who "
                "answers.",
            ),
        )
    for launcher in job.launchers:
        if _state(launcher.evidence) in STOPPED:
            yield from _stopped_launcher(job, launcher)


def _stopped_launcher(job: Job, launcher: Launcher) -> Iterator[HangCause]:
    pid, host = launcher.evidence.process.pid, launcher.node.name or launcher.node.hostname
    bare = not launcher.ranks
    yield HangCause(
        cause="stopped-rank",
        confidence=0.9 if bare else 0.4,
        ranks=launcher.ranks,
        evidence=(Seen(f"{launcher.kind} pid {pid} on {host}", f"state {_state(launcher.evidence)}"),),
        summary=f"{launcher.kind} (pid {pid} on {host}) is stopped"
        + (", and has no ranks yet" if bare else "; its ranks run on without it"),
        meaning="A stopped launcher neither starts its ranks nor notices that one ends.",
        fix=fix_for("stopped-rank", "Let it go on, and find what stopped it.", (command("kill -CONT {:pid}", pid),)),
        confirm="" if bare else confirm_for("stopped-rank"),
    )


def _others(job: Job, culprits: Sequence[Rank]) -> str:
    """ "; ranks 0,2-3 wait in all_reduce at train.py:41"."""
    own = {id(rank) for rank in culprits}
    waiting = [rank for rank in progress_of(job).waiting if id(rank) not in own]
    return f"; {waiting_words(waiting)}" if waiting else ""


def _state(process: ProcessEvidence) -> str:
    return process.samples[-1].state if process.samples else process.process.state


# ---------------------------------------------------------------- ended and missing


def died_ranks(job: Job) -> Iterator[HangCause]:
    """Ranks that ended otherwise than with status 0 and were not collected, and those that their own node lacks."""
    progress = progress_of(job)
    failed = [rank for rank in progress.ended if rank.state == "Z" and rank.evidence.process.exit_code != 0]
    first = [rank for rank in failed if rank.evidence.process.exit_code & 0x7F != SIGTERM] or failed
    if first:
        yield _zombies(job, first)
        return
    vanished = [rank for rank in progress.ended if rank.state != "Z"]
    alive = [*progress.waiting, *progress.away, *progress.stopped]
    if vanished and alive:
        yield HangCause(
            cause="rank-died",
            confidence=0.6,
            ranks=tuple(rank.rank for rank in vanished),
            evidence=tuple(Seen(process_of(rank), "was gone when it was to be read") for rank in vanished[:MOST_NAMED]),
            summary=f"{ranks_of(vanished)} ended while the job was looked at{_others(job, vanished)}",
            fix=fix_for("rank-died"),
            confirm="Look again: when the other ranks are gone too, the job has come to its end by itself.",
        )
    if progress.gets_on:
        return
    # Nobody waits in a collective: then only those that sleep and ask again, for a file or a key, wait for somebody.
    # Of a rank without a stack that is not told; it counts where it uses next to no CPU time.
    asleep = [rank for rank in progress.away if rank.place.kind in ("sleep", "data") or _is_quiet(rank)]
    if progress.waiting or (asleep and len(asleep) == len(progress.away)):
        yield from _missing(job, progress.waiting or asleep)


def _zombies(job: Job, failed: Sequence[Rank]) -> HangCause:
    evidence: list[Seen] = []
    oom: list[Rank] = []
    for rank in failed:
        process = rank.evidence.process
        event = _kernel_event(rank.node, process.pid)
        if len(evidence) < MOST_NAMED:
            evidence.append(Seen(f"{process_of(rank)} /proc/{rank.pid}/stat", f"{ended_words(process.exit_code)}"))
            if event is not None:
                evidence.append(Seen(f"kernel log of {rank.node.name}", event.text))
        if (event is not None and event.kind == "oom") or (
            process.exit_code & 0x7F == SIGKILL and (rank.evidence.oom_kills or 0) > 0
        ):
            oom.append(rank)
    words = Counter(ended_words(rank.evidence.process.exit_code) for rank in failed).most_common(1)[0][0]
    if oom:
        how = "was killed for memory" if len(failed) == 1 else "were killed, for memory"
        fix = fix_for(
            "rank-died",
            "Give the job more memory or let it need less: smaller batches, fewer data loader workers "
            "(num_workers x ranks processes share the limit), no copy of the data set in every worker.",
        )
    else:
        how = words if len(failed) == 1 else f"have {words}"
        how = how if how.startswith(("have", "was")) else f"has {how}"
        fix = fix_for("rank-died", "Find its own output: a traceback or a signal there is the cause. Start again then.")
    return HangCause(
        cause="rank-died",
        confidence=0.95,
        ranks=tuple(rank.rank for rank in failed),
        evidence=tuple(evidence),
        summary=f"{ranks_of(failed)} {how}, and nobody has collected it{_others(job, failed)}",
        fix=fix,
    )


def _kernel_event(node: NodeEvidence, pid: int) -> KernelEvent | None:
    return next((event for event in node.kernel if event.pid == pid and event.kind in ("oom", "segfault")), None)


def _missing(job: Job, waiting: Sequence[Rank]) -> Iterator[HangCause]:
    """Ranks that no process is seen of, where it is known that they belong on a node that was read."""
    missing = set(job.missing)
    if not missing:
        return
    proven = {rank: node for rank, node in _local_gaps(job).items() if rank in missing}
    if not proven and not _all_here(job):
        return
    gone = sorted(proven) or sorted(missing)
    nodes = list(dict.fromkeys(proven.values())) or [node.name for node in job.nodes]
    watcher = next(
        (
            launcher
            for launcher in job.launchers
            if launcher.kind in ("torchrun", "accelerate", "deepspeed")
            and launcher.node.name in nodes
            and launcher.ranks
            and _state(launcher.evidence) not in STOPPED
        ),
        None,
    )
    if watcher is not None:
        return  # it ends all ranks when one fails: this one has come to its end, see collective_divergence
    closed = [(rank, _closed(rank)) for rank in waiting]
    closed = [(rank, number) for rank, number in closed if number]
    starting = all(rank.place.kind in STARTING for rank in waiting)
    known = {process.process.pid for node in job.nodes for process in node.processes}
    events = [
        (node, event) for node in job.nodes for event in node.kernel if event.kind == "oom" and event.pid not in known
    ]
    evidence = [Seen("processes of " + listed(nodes), f"no process has rank {ranges(gone)} of {job.world_size}")]
    evidence += [
        Seen(f"{process_of(rank)} sockets", f"{number} in CLOSE_WAIT: the other end has closed")
        for rank, number in closed[:MOST_NAMED]
    ]
    evidence += [Seen(f"kernel log of {node.name}", event.text) for node, event in events[:MOST_NAMED]]
    kills = max((rank.evidence.oom_kills or 0 for rank in waiting), default=0)
    if kills:
        evidence.append(Seen(f"{process_of(waiting[0])} memory.events", f"oom_kill {kills}"))
    shown = bool(proven or closed or events)
    confidence = 0.6 if starting and not events else 0.9 if shown else 0.75
    if not progress_of(job).waiting:
        confidence = 0.5 if not shown or any(rank.place.kind == "unknown" for rank in waiting) else 0.8
    for_memory = bool(events)
    yield HangCause(
        cause="rank-died",
        confidence=confidence,
        ranks=tuple(gone),
        evidence=tuple(evidence),
        summary=f"{ranks_of(gone)} {verb(gone, 'has', 'have')} no process any more"
        + (", killed for memory" if for_memory else "")
        + f"; {waiting_words(waiting)}",
        fix=fix_for(
            "rank-died",
            "Give the job more memory or let it need less: smaller batches, fewer data loader workers."
            if for_memory
            else "Find what ended it: the end of its output, the exit status that its launcher saw, the kernel log.",
            () if for_memory else (command("dmesg -T | grep -iE 'killed process|segfault|xid' | tail"),),
        ),
        confirm="" if confidence >= 0.9 else confirm_for("rank-died"),
    )


def _local_gaps(job: Job) -> dict[int, str]:
    """Ranks that their node should have by LOCAL_WORLD_SIZE of the others there -> the node."""
    seen: defaultdict[tuple[str, str], dict[int, Rank]] = defaultdict(dict)
    nodes: dict[tuple[str, str], str] = {}
    for rank in job.ranks:
        if rank.local_rank is not None:
            group = rank.evidence.process.environment.get("GROUP_RANK", "")
            key = (rank.node.name, group)
            seen[key][rank.local_rank] = rank
            nodes[key] = rank.node.name
    found: dict[int, str] = {}
    for key, ranks in seen.items():
        sizes = Counter(_number(rank, "LOCAL_WORLD_SIZE") for rank in ranks.values())
        size = sizes.most_common(1)[0][0]
        first = {rank.rank - local for local, rank in ranks.items()}
        if size is None or len(first) != 1 or size > 1024:
            continue
        base = first.pop()
        found.update({base + local: nodes[key] for local in range(size) if local not in ranks})
    return found


def _number(rank: Rank, name: str) -> int | None:
    text = rank.evidence.process.environment.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None


def _all_here(job: Job) -> bool:
    """Whether no other node can have a rank of it: its master is the loopback address, and one node has ranks."""
    if len({rank.node.name for rank in job.ranks}) != 1:
        return False
    if job.master_address == "localhost":
        return True
    try:
        return ipaddress.ip_address(job.master_address).is_loopback
    except ValueError:
        return False


def _is_quiet(rank: Rank) -> bool:
    """Whether a rank whose stack was not read has used less than a twentieth of a core between two looks."""
    samples = rank.evidence.samples
    if rank.place.kind != "unknown" or len(samples) < 2:
        return False
    first, last = samples[0].cpu_seconds, samples[-1].cpu_seconds
    return first is not None and last is not None and last - first <= 0.05 * max(samples[-1].at - samples[0].at, 0.1)


def _closed(rank: Rank) -> int:
    return sum(socket.state == "CLOSE_WAIT" for socket in rank.evidence.sockets)


# ---------------------------------------------------------------- GPUs


def lost_gpus(job: Job) -> Iterator[HangCause]:
    """An Xid in the kernel log since the job began, or a GPU that does not answer any more."""
    for node in job.nodes:
        ages = [rank.evidence.process.age_seconds for rank in job.ranks if rank.node is node]
        since = max(ages, default=0.0)
        lost = [gpu for gpu in node.gpus if gpu.lost]
        events = [
            event
            for event in node.kernel
            if event.kind == "xid" and (event.seconds_ago is None or event.seconds_ago <= since + 1)
        ]
        if not lost and not events:
            continue
        known = any(event.seconds_ago is not None for event in events)
        pids = {event.pid for event in events if event.pid}
        ranks = tuple(rank.rank for rank in job.ranks if rank.node is node and (rank.pid in pids))
        evidence = [Seen(f"NVML on {node.name}", f"GPU {gpu.index}: {gpu.lost}") for gpu in lost]
        evidence += [Seen(f"kernel log of {node.name}", event.text) for event in events]
        what = f"GPU {ranges([gpu.index for gpu in lost])} of {node.name} does not answer" if lost else ""
        xid = f"the driver reported {events[0].text[:100]} on {node.name}" if events else ""
        text = what or xid
        yield HangCause(
            cause="xid-gpu-lost",
            confidence=0.95 if lost and events else 0.9 if lost else 0.8 if known else 0.45,
            ranks=ranks or tuple(rank.rank for rank in job.ranks if rank.node is node),
            evidence=tuple(evidence[:MOST_NAMED]),
            summary=text[:1].upper() + text[1:],
            fix=fix_for("xid-gpu-lost"),
            confirm=confirm_for("xid-gpu-lost"),
        )


RULES = (stopped_ranks, died_ranks, lost_gpus)
