"""Whose a process is: root looks at the processes of one user at a time, and only one user's can be one job.

Whatever else a process says of its job (rank, master, job id) anybody can say; its user the kernel says. On one machine
that is the number; between machines it is the name, since numbers are given out anew on each that has no directory
service. A number without a name (in a container's user namespace) counts as the name that another node has for it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpudoctor.snapshot.evidence import NodeProcesses, Process

NOBODY = ""
"""Of a process whose user was not read; all of these count as one user."""


class Users:
    """The users of what was seen on these nodes.

    `same`: names and numbers that are one user by the word of whoever asks, as one user may have several numbers where
    each node maps those of its containers for itself.
    """

    def __init__(self, nodes: Sequence[NodeProcesses], same: Iterable[str] = ()) -> None:
        self._same = frozenset(each.removeprefix("#") for each in same)
        names: defaultdict[int, set[str]] = defaultdict(set)
        for node in nodes:
            for process in node.processes:
                if _is_name(process.user):
                    names[process.user_id].add(process.user)
        self._names = {number: next(iter(found)) for number, found in names.items() if len(found) == 1}

    def of(self, process: Process) -> str:
        """The name of its user; "#1234" where the number has none."""
        name = process.user if _is_name(process.user) else self._names.get(process.user_id, "")
        if self._same & {name, str(process.user_id)}:
            return "+".join(sorted(self._same))
        return name or (f"#{process.user_id}" if process.user_id >= 0 else NOBODY)


def _is_name(user: str) -> bool:
    """A number stands where no name is known."""
    return bool(user) and not user.isdecimal()


def words(user: str) -> str:
    """ "mara", "uid 1234"."""
    return f"uid {user[1:]}" if user.startswith("#") else user or "an unknown user"


def is_meant(user: str, wanted: str) -> bool:
    """Whether a user is meant by what was typed: a name, or a number with or without "#"."""
    return user in (wanted, f"#{wanted}")
