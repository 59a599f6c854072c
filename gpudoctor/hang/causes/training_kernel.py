"""Without a single stack: what the kernel says of the main threads, and which of them is not like the others."""

from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.words import fix_for, numbers_of, process_of, ranks_of, verb
from gpudoctor.knowledge.places import main_thread

MOST_NAMED = 4
TELLING = (
    ("slow-rank-timeout", 0.55, ("hrtimer_nanosleep", "do_nanosleep"), "sleeps for a time of its own"),
    (
        "storage-stall",
        0.65,
        ("wait_for_partner", "fifo_open", "nfs", "rpc", "fuse", "lustre", "cl_sync", "ll_", "ceph", "gpfs"),
        "stands in file access",
    ),
    ("stopped-rank", 0.6, ("n_tty_read", "wait_woken"), "waits for input"),
)
"""Cause, confidence, the beginning of the kernel function's name (wchan), what it means."""


def stands_out(job: Job) -> Iterator[HangCause]:
    """Main threads of which most sleep in one kernel function, and few in one that no waiter of a collective is in."""
    ranks = [*progress_of(job).away, *progress_of(job).waiting]
    if len(ranks) < 2 or any(rank.place.kind != "unknown" for rank in ranks):
        return
    if any(rank.moved is not False for rank in ranks):
        return
    by_function: defaultdict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        by_function[_sleeps_in(rank)].append(rank)
    largest = max(by_function.items(), key=lambda each: (len(each[1]), "futex" in each[0]))
    if "futex" not in largest[0]:
        return
    for function, party in by_function.items():
        for cause, confidence, names, words in TELLING:
            if not function.startswith(names) or len(party) > len(ranks) // 2:
                continue
            yield HangCause(
                cause=cause,
                confidence=confidence,
                ranks=numbers_of(party),
                evidence=(
                    *(Seen(f"{process_of(rank)} wchan", function) for rank in party[:MOST_NAMED]),
                    *(Seen(f"{process_of(rank)} wchan", largest[0]) for rank in largest[1][:2]),
                ),
                summary=f"{ranks_of(party)} {words if len(party) == 1 else words.replace('s ', ' ', 1)} "
                f"(kernel function {function}), and {ranks_of(largest[1])} {verb(largest[1], 'waits', 'wait')} in "
                f"{largest[0]}; no stack could be read",
                fix=fix_for(cause),
                confirm="The Python stack of that rank decides: run gpudoctor as the job's user with ptrace allowed, "
                "or as root.",
            )


def _sleeps_in(rank: Rank) -> str:
    """The kernel function of its main thread, where it is the same in both looks."""
    names = {
        thread.waits_in
        for sample in rank.evidence.samples
        if (thread := main_thread(sample, rank.pid)) is not None and thread.waits_in
    }
    return names.pop() if len(names) == 1 else ""


RULES = (stands_out,)
