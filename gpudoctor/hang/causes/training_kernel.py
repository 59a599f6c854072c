"""Without a single stack: what the kernel says of the main threads, and which of them is not like the others."""

from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.hang.causes import LIKELY, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.doing import held_in
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.words import process_of, ranks_of, who
from gpudoctor.sure import BEST

MOST_NAMED = 4
TELLING = (
    ("slow-rank-timeout", ("hrtimer_nanosleep", "do_nanosleep"), "sleeps for a time of its own"),
    (
        "storage-stall",
        ("wait_for_partner", "fifo_open", "nfs", "rpc", "fuse", "lustre", "cl_sync", "ll_", "ceph", "gpfs"),
        "stands in file access",
    ),
    ("stopped-rank", ("n_tty_read", "wait_woken"), "waits for input"),
)
"""Cause, the beginning of the kernel function's name (wchan), what it means."""


def stands_out(job: HangJob) -> Iterator[HangCause]:
    """Main threads of which most sleep in one kernel function, and few in one that no waiter of a collective is in."""
    ranks = [*progress_of(job).away, *progress_of(job).waiting]
    if len(ranks) < 2 or any(rank.place.kind != "unknown" for rank in ranks):
        return
    if any(rank.moved is not False for rank in ranks):
        return
    by_function: defaultdict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        by_function[held_in(rank.evidence)].append(rank)
    largest = max(by_function.items(), key=lambda each: (len(each[1]), "futex" in each[0]))
    if "futex" not in largest[0]:
        return
    for function, party in by_function.items():
        for cause, names, words in TELLING:
            if not function.startswith(names) or len(party) > len(ranks) // 2:
                continue
            yield blame(
                cause,
                BEST if cause == "slow-rank-timeout" else LIKELY,  # libraries sleep too, to ask again
                party,
                f"{ranks_of(party)} {words if len(party) == 1 else words.replace('s ', ' ', 1)} "
                f"(kernel function {function}), and {who(largest[1], 'waits', 'wait')} in {largest[0]}; no stack "
                "could be read",
                (
                    *(Seen(f"{process_of(rank)} wchan", function) for rank in party[:MOST_NAMED]),
                    *(Seen(f"{process_of(rank)} wchan", largest[0]) for rank in largest[1][:2]),
                ),
                confirm="The Python stack of that rank decides. Why it could not be read is told among what was not "
                "read: often the permission to trace it, which root has.",
            )


RULES = (stands_out,)
