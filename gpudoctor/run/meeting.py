"""Where the doctors of one job meet that the same line has started on several nodes: read from the environment and the
command, nothing is asked.

One of them, the head, keeps the report: SLURM's first task, node 0 of the launcher, or whoever has the address at which
the ranks meet. What proves that a doctor belongs to the job is a token as in join mode: GPUDOCTOR_TOKEN, the same on
all nodes; of a step of SLURM's, where none is given, one that the head leaves in the state folder, if all see that.
"""

import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from gpudoctor.fleet.hosts import BadHosts, from_hosts
from gpudoctor.fleet.join import FIRST_PORT
from gpudoctor.fleet.take_part import TOKEN
from gpudoctor.launcher.told import address_and_port
from gpudoctor.lazy import lazy_re
from gpudoctor.run.batch import OF_SLURM, nodes_of, word_of
from gpudoctor.run.kept import NoFolder, state_folder

HEADS = lazy_re(r"--(?:master[-_]addr|rdzv[-_]endpoint|main[-_]process[-_]ip)(?:=|$)(?P<value>.*)")
HEADS_PORTS = lazy_re(r"--(?:master|main[-_]process)[-_]port(?:=|$)(?P<value>.*)")
NODE_RANKS = lazy_re(r"--(?:node|machine)[-_]rank(?:=|$)(?P<value>.*)")
PORTS = 4
"""Of a token, one after the other: another program may have one of them."""
MOST_PORTS = 4000
TOKEN_SECONDS = 30.0
"""For which a task of SLURM looks for the head's token: tasks of a step start within seconds."""


class Meeting(Struct, frozen=True, kw_only=True):
    """Of one job."""

    nodes: int
    head: str
    """Its name or address."""
    is_head: bool | None
    """None: it is the node that has that address."""
    shared: str = ""
    """The file in which the head leaves a token, where none was given."""


def meeting(command: Sequence[str], environment: Mapping[str, str]) -> tuple[Meeting | None, str]:
    """Where to meet; or why not, as a phrase, which is empty where there is one node only."""
    nodes = nodes_of(command, environment)
    if nodes < 2 or command[0].rpartition("/")[2] in OF_SLURM:
        return None, ""
    given = environment.get(TOKEN, "")
    step = environment.get("SLURM_STEP_NUM_NODES", "")
    if step.isdecimal() and int(step) == nodes:
        try:
            first = from_hosts(environment.get("SLURM_STEP_NODELIST", ""))[0].name
        except BadHosts as error:
            return None, f"SLURM_STEP_NODELIST names no nodes: {error}"
        try:
            name = "-".join(environment.get(f"SLURM_{each}", "0") for each in ("JOB_ID", "STEP_ID", "RESTART_COUNT"))
            shared = "" if given else str(state_folder(environment).parent / "meetings" / name)
        except NoFolder as error:
            return None, str(error)
        return Meeting(nodes=nodes, head=first, is_head=environment.get("SLURM_PROCID") == "0", shared=shared), ""
    head, _ = told_rendezvous(command, environment)
    if not head or head in ("localhost", "127.0.0.1", "::1"):
        return None, "the line names no node at which they could meet (--master-addr, --rdzv-endpoint)"
    if not given:
        return None, f"they have no way to know each other: set {TOKEN} to the same secret on all of them"
    rank = word_of(command, NODE_RANKS) or environment.get("PET_NODE_RANK", "")
    return Meeting(nodes=nodes, head=head, is_head=rank == "0" if rank.isdecimal() else None), ""


def told_rendezvous(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, int]:
    """Where the ranks will meet, as far as the line or an operator tells; "" and 0 where not."""
    where, port = word_of(command, HEADS), word_of(command, HEADS_PORTS)
    if not where:
        names = ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR")
        where = next((environment[name] for name in names if environment.get(name)), "")
    port = port or environment.get("PET_MASTER_PORT", "") or environment.get("MASTER_PORT", "")
    return address_and_port(where, int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0)


def ports(token: str) -> list[int]:
    """At which the head of that token listens: the first of them that is free."""
    start = int.from_bytes(hashlib.sha256(b"gpudoctor run\0" + token.encode()).digest()[:4], "big")
    return [FIRST_PORT + (start + number) % MOST_PORTS for number in range(PORTS)]


def leave_token(shared: str) -> str:
    """A new token for this step, in a file that only its user can read. Raises `OSError`."""
    place = Path(shared)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        for old in place.parent.iterdir():
            if time.time() - old.stat().st_mtime > 86400:
                old.unlink()
    token = secrets.token_urlsafe(24)
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:  # noqa: PTH123
        file.write(token)
    beside.replace(place)
    return token


def take_back_token(shared: str, token: str) -> None:
    """As its head ends: the next job of that number, on another cluster with the same home, shall not find it."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if Path(shared).read_text(encoding="ascii") == token:
            Path(shared).unlink()


def found_token(shared: str, seconds: float = TOKEN_SECONDS) -> str:
    """The token that the head of this step has left; empty where none comes."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            file = os.open(shared, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(file, encoding="ascii") as stream:  # noqa: PTH123
                facts = os.fstat(file)
                mine = facts.st_uid == os.geteuid() and stat.S_ISREG(facts.st_mode) and not facts.st_mode & 0o077
                if mine and (token := stream.read(200)):
                    return token
        if time.monotonic() >= deadline:
            return ""
        time.sleep(0.2)
