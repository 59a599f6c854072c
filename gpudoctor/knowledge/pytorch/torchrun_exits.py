"""Which ranks ended how: torchrun's table and lines of its agent, which are written over several lines."""

from collections.abc import Sequence

from msgspec import Struct, structs

from gpudoctor.lazy import lazy_re

NEEDLES = ("  exitcode  :", "failed (exitcode:", "closing signal SIG", ", forcefully exiting via ")
ROW = lazy_re(r"exitcode\s{0,6}: (?P<exitcode>-?\d{1,5})\s{0,3}\(pid: (?P<pid>\d{1,8})\)")
FAILED = lazy_re(
    r"failed \(exitcode: (?P<exitcode>-?\d{1,5})\) local_rank: (?P<local>\d{1,5}) \(pid: (?P<pid>\d{1,8})\)"
)
ENDED = lazy_re(r"Sending process (?P<pid>\d{1,8}) closing signal (?P<signal>SIG[A-Z]{1,6})")
FORCED = lazy_re(r"Unable to shutdown process (?P<pid>\d{1,8}) via (?:Signals\.)?(?:SIG|\d)")
"""Torch 2.14 writes the signals as numbers: "via 15, forcefully exiting via 9"."""
RANK = lazy_re(r"\brank\s{1,8}: (?P<rank>\d{1,6}) \(local_rank: (?P<local>\d{1,5})\)")
HOST = lazy_re(r"\bhost\s{1,8}: (?P<host>[\w.-]{1,253})")
TIME = lazy_re(r"\btime\s{1,8}: (?P<date>\d{4}-\d\d-\d\d)_(?P<clock>\d\d:\d\d:\d\d)")
LAUNCHER_LINE = lazy_re(r"torch/distributed/(elastic|run\.py|launcher)|ChildFailedError")
BEFORE = 8
"""Lines of a row before its exit code."""


class LauncherExit(Struct, frozen=True, kw_only=True):
    """How a process ended, as its launcher saw it."""

    line: int
    text: str
    exitcode: int | None = None
    """Negative: the signal. None: it was alive when the launcher ended it."""
    forced: bool = False
    """The launcher itself killed it, because it did not end by itself."""
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str = ""
    date: str = ""
    """ISO, of torchrun's table."""


def read_exit(lines: Sequence[bytes], index: int, number: int) -> LauncherExit | None:
    """The exit that `lines[index]` tells of. Never raises."""
    text = lines[index][:2000].decode("utf-8", "replace").rstrip()
    if match := FAILED.search(text):
        return LauncherExit(
            line=number,
            text=text,
            exitcode=int(match["exitcode"]),
            local_rank=int(match["local"]),
            pid=int(match["pid"]),
        )
    if match := ENDED.search(text):
        return LauncherExit(line=number, text=text, pid=int(match["pid"]))
    if match := FORCED.search(text):
        return LauncherExit(line=number, text=text, pid=int(match["pid"]), forced=True)
    match = ROW.search(text)
    if match is None:
        return None
    rank = local = None
    host = date = ""
    for raw in reversed(lines[max(0, index - BEFORE) : index]):
        line = raw[:500].decode("utf-8", "replace")
        if row := RANK.search(line):
            if rank is not None:  # of two nodes' tables, woven line by line: neither can be said to be this one's
                rank, local, host = None, None, ""
                break
            rank, local = int(row["rank"]), int(row["local"])
        elif ROW.search(line):
            break  # another row, in a table without times or in one that is woven into this
        elif row := HOST.search(line):
            host = row["host"]
        elif row := TIME.search(line):
            date = f"{row['date']}T{row['clock']}"
            break
    return LauncherExit(
        line=number,
        text=text,
        exitcode=int(match["exitcode"]),
        rank=rank,
        local_rank=local,
        pid=int(match["pid"]),
        host=host,
        date=date,
    )


def rank_exits(text: str) -> dict[int, LauncherExit]:
    """Local rank -> its end, of the processes that torchrun names on its standard error. None is of a process that
    torchrun ended itself, because another had failed: it is the last word only where it is the only one."""
    lines = text.encode("utf-8", "replace").splitlines()
    exits = [
        launcher_exit
        for index, line in enumerate(lines)
        if (b"exitcode" in line or b"closing signal" in line) and (launcher_exit := read_exit(lines, index, index))
    ]
    closed = {launcher_exit.pid for launcher_exit in exits if launcher_exit.exitcode is None}
    ends: dict[int, LauncherExit] = {}
    # The line names the failure that it saw first, which it cannot have caused itself: it counts before the table.
    for launcher_exit in sorted(exits, key=lambda one: one.rank is None):
        if launcher_exit.exitcode is None or launcher_exit.local_rank is None:
            continue
        local = launcher_exit.local_rank
        if launcher_exit.rank is None:
            launcher_exit = structs.replace(launcher_exit, rank=ends[local].rank if local in ends else None)
        elif launcher_exit.pid in closed:
            continue
        ends[local] = launcher_exit
    return ends


def before_launcher(text: str) -> str:
    """What the ranks wrote before torchrun began to speak of their failure."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if LAUNCHER_LINE.search(line) and (FAILED.search(line) or ENDED.search(line)):
            return "".join(lines[:number])
    return text
