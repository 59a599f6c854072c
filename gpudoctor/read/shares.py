"""What reading one user's processes may cost: time and memory, so that nobody's keep others' from being read.

Users with few processes have their turn first: who has started three thousand waits, and spends a share of their own.
"""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType

from gpudoctor.crowded import slowdown

SECONDS = 3.0
"""For the processes of one user; five hundred take a tenth of one. More where others have the processors."""
SECONDS_OF_ALL = 10.0
"""After which nobody's are read any more: the head waits fifteen for the answer."""
MOST_KEPT = 64 * 1024 * 1024
"""Bytes of environments and command lines; 4,096 processes have some 40 MB."""


class Share:
    """Of one user. A context manager around each thing that is read: it counts the time."""

    def __init__(self, whole: "Shares") -> None:
        self._whole = whole
        self._begun = 0.0
        self.seconds = 0.0
        self.kept = 0
        self.late = False

    def __enter__(self) -> "Share":
        self._begun = time.monotonic()
        spent = self.seconds > SECONDS and self.seconds > SECONDS * slowdown()
        self.late = spent or self._begun > self._whole.deadline
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.monotonic() - self._begun

    def most(self, wanted: int) -> int:
        """How many bytes may be read now; 0 once the share is spent."""
        return 0 if self.late else max(0, min(wanted, MOST_KEPT - self.kept))

    def keep(self, size: int) -> None:
        self.kept += size

    def reason(self) -> str:
        """Which bound was met; "" for none."""
        if self.kept >= MOST_KEPT:
            return f"they have more than {MOST_KEPT >> 20} MiB of environments and command lines; the rest was not read"
        return f"reading them took more than {SECONDS:.0f} s; the rest was not read" if self.late else ""


class Shares:
    """The shares of all users; `users`: the number of each process's user."""

    def __init__(self, users: Mapping[int, int]) -> None:
        self.deadline = time.monotonic() + SECONDS_OF_ALL
        self._users = dict(users)
        self._shares: dict[int, Share] = {}

    def user(self, pid: int) -> int:
        return self._users.get(pid, -1)

    def of(self, pid: int) -> Share:
        user = self.user(pid)
        if user not in self._shares:
            self._shares[user] = Share(self)
        return self._shares[user]

    def in_turn(self, first: Iterable[int] = ()) -> Iterable[int]:
        """All processes, each once: those that were asked for, then those of users with the fewest."""
        owned: dict[int, list[int]] = {}
        for pid, user in self._users.items():
            owned.setdefault(user, []).append(pid)
        asked = [pid for pid in first if pid in self._users]
        yield from dict.fromkeys([*asked, *(pid for pids in sorted(owned.values(), key=len) for pid in pids)])

    def spent(self) -> dict[int, str]:
        """Users whose share was too small -> which bound was met."""
        return {user: reason for user, share in self._shares.items() if (reason := share.reason())}
