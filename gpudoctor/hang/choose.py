"""Which jobs are looked at, of all that were found: one user's at a time, and who else is there.

A job of which somebody else's processes claim to be a part is looked at without them; they are said in a note.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpudoctor.hang.find import masters
from gpudoctor.hang.job import Members
from gpudoctor.hang.report import OtherJob
from gpudoctor.hang.users import is_meant, words
from gpudoctor.read.users import user_name

MOST_USERS = 4
"""Users whose jobs are looked at in one call, each after the other: a look takes three seconds and more."""
MOST_OTHERS = 32
"""Jobs of other users that are listed."""


class ChosenJobs(NamedTuple):
    looks: tuple[tuple[Members, ...], ...]
    """The jobs of one user each."""
    others: tuple[Members, ...]
    """Jobs that were not asked for, or are left for another call."""


def choose(jobs: Sequence[Members], *, named: bool, first: str = "", most: int = MOST_USERS) -> ChosenJobs:
    """The jobs to look at, of those that fit what was asked for.

    `named`: a process or a user was named, and what does not fit is left out already. Else the jobs of `first`, whoever
    asks, are looked at alone where there are any; without, each user's in turn, the users of the largest jobs first.
    A process that ended while it was read has no user that is known.
    """
    owned: defaultdict[str, list[Members]] = defaultdict(list)
    for job in jobs:
        owned[job.user].append(job)
    looked = [first] if not named and first and first in owned else list(owned)[:most]
    chosen = tuple(tuple(owned[user]) for user in looked)
    return ChosenJobs(chosen, tuple(job for job in jobs if job.user not in looked))


def who_asks(environment: Mapping[str, str]) -> str:
    """The user whose jobs are meant where none is named: our own, behind sudo the one who called it; "" for root."""
    if not hasattr(os, "geteuid"):
        return ""
    number = os.geteuid()
    if number == 0:
        caller = environment.get("SUDO_UID", "")
        if not (caller.isascii() and caller.isdecimal() and 0 < len(caller) < 11 and int(caller)):
            return ""
        number = int(caller)
    name = user_name(number)
    return f"#{number}" if name.isdecimal() else name


def fits_user(job: Members, wanted: str) -> bool:
    """Whether a job is of one of the users that were named, comma between them."""
    return any(is_meant(job.user, part) or is_meant(job.user, wanted.replace(",", "+")) for part in wanted.split(","))


def others(rest: Sequence[Members], looked: Sequence[Members]) -> tuple[OtherJob, ...]:
    """Jobs that were not looked at; of another user's, which of the jobs that were it claims as its own."""
    listed = []
    for job in rest[:MOST_OTHERS]:
        claimed = next((own for own in looked if own.user != job.user and _claims(job, own)), None)
        ranks = [member for member in job.members if member.role == "rank"]
        listed.append(
            OtherJob(
                id=job.id,
                user=words(job.user),
                ranks=len(ranks),
                pid=job.members[0].process.pid,
                claims=claimed.id if claimed is not None else "",
            )
        )
    return tuple(listed)


def _claims(one: Members, other: Members) -> bool:
    """Whether two users' processes name one master or one Slurm job."""
    if one.slurm_job and one.slurm_job == other.slurm_job:
        return True
    (addresses, ports), (theirs, others_ports) = masters(one), masters(other)
    return bool(set(addresses) & set(theirs)) and bool(set(ports) & set(others_ports))
