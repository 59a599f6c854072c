"""`python -m tests.corpus.planted [-v]`: faults that a program plants into good starts, by kind: found or not.

Twelve kinds. Into each good start of the corpus each kind is planted where it has a place and is a fault, by
a seed; found is an error or a warning that the start without it does not have. Of keep only the sums are shown.
"""

import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpudoctor.lint import asked
from gpudoctor.lint.shell.syntax import read_script
from tests.corpus.starts import Start, starts
from tests.corpus.starts.score import Given, facts, given

LAUNCHED = re.compile(
    r"^(?!#).*\b(?:torchrun|torch\.distributed\.run|accelerate launch|deepspeed|srun|mpirun)\b", re.MULTILINE
)
NODES = re.compile(r"(--nnodes[= ])\"?(\d+|\$\w+|\$\{[^{}\n]+\})\"?(?![:\w])")
PER_NODE = re.compile(r"(--nproc[-_]per[-_]node[= ])\"?(\d+|\$\w+|\$\{[^{}\n]+\})\"?")
PORT = re.compile(r"((?:--master[-_]port|--main_process_port)[= ]|MASTER_PORT=)\"?(\d+)\"?")
ENDPOINT_PORT = re.compile(r"(--rdzv[-_]endpoint[= ]\"?[^\s\"]*:)(\d+)")
ADDRESS = re.compile(
    r"((?:--master[-_]addr|--main_process_ip)[= ]|MASTER_ADDR=)(\"?\$\([^)\n]*\)\"?|\"?\$\{?\w+\}?\"?|\"?[\w.]+\"?)"
)
TASKS = re.compile(r"^(#SBATCH --ntasks-per-node[= ])(\d+)", re.MULTILINE)
GPUS = re.compile(r"^(#SBATCH --(?:gres=gpu:(?:[a-z]\w*:)?|gpus-per-node=(?:[a-z]\w*:)?))(\d+)", re.MULTILINE)
CONTINUED = re.compile(r"(?<=[^\s&|] )\\\n(?=[ \t]*[^\s#])")  # behind && and | the line goes on anyway
QUOTED = re.compile(r"(?<==)\"[^\"\n]+(\")|(?<= )'[^'\n]+(')")
END = re.compile(r"^[ \t]*(?:fi|done|esac|EOF|END)[ \t]*$", re.MULTILINE)
RANK = re.compile(r"(--(?:node[-_]rank|machine[-_]rank)[= ])\"?(\\?\$\{?\w+\}?)\"?")
EXPORT = re.compile(r"^export (?=(?:MASTER_ADDR|MASTER_PORT)=)", re.MULTILINE)


class Planted(NamedTuple):
    kind: str
    start: Start
    text: str
    """With the fault in it."""
    line: int


Planter = Callable[[str, random.Random], tuple[str, int] | None]


def _one(pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], in_quotes: bool = True) -> Planter:
    """One place of the pattern, written anew; None where there is none, or nothing would change. `in_quotes`: also in
    quotes and arrays over lines, where the end of a line divides words as well as a backslash goes on."""

    def plant(text: str, chosen: random.Random) -> tuple[str, int] | None:
        over = read_script(text).over_lines if not in_quotes else ()
        spots = [
            each
            for each in pattern.finditer(text)
            if not _said(text, each.start()) and not any(first < each.start() < last for first, last in over)
        ]
        if not spots:
            return None
        spot = chosen.choice(spots)
        changed = text[: spot.start()] + new(spot) + text[spot.end() :]
        return (changed, text.count("\n", 0, spot.start()) + 1) if changed != text else None

    return plant


def _said(text: str, at: int) -> bool:
    """In a comment, or in what `echo` prints; a single quote inside of double ones, which is a letter to bash."""
    begin = text.rfind("\n", 0, at) + 1
    while text[:begin].endswith("\\\n"):
        begin = text.rfind("\n", 0, begin - 1) + 1
    line = text[begin:at].lstrip()
    if text[at] == "'" and line.count('"') % 2:
        return True
    return (line.startswith("#") and not line.startswith("#SBATCH")) or re.match(r"(?:echo|printf)\s", line) is not None


KINDS: dict[str, Planter] = {
    "an open quote": _one(QUOTED, lambda found: found[0][:-1]),
    "a blank behind a backslash": _one(CONTINUED, lambda _: "\\ \n"),
    "a backslash left out": _one(CONTINUED, lambda _: "\n", in_quotes=False),
    "an end left out": _one(END, lambda _: ""),
    "32 processes on a node": _one(PER_NODE, lambda found: f"{found[1]}32"),
    "twice the nodes": _one(NODES, lambda found: f"{found[1]}64"),
    "a port out of range": _one(PORT, lambda found: f"{found[1]}99500"),
    "a port that is no number": _one(ENDPOINT_PORT, lambda found: f"{found[1]}295OO"),
    "localhost for the head": _one(ADDRESS, lambda found: f"{found[1]}localhost"),
    "four times the tasks": _one(TASKS, lambda found: f"{found[1]}{4 * int(found[2])}"),
    "one GPU asked for": _one(GPUS, lambda found: f"{found[1]}1" if int(found[2]) > 1 else found[0]),
    "rank 0 on every node": _one(RANK, lambda found: f"{found[1]}0"),
}
"""Quotes, backslashes, ends, counts, nodes, ports, hosts, tasks, GPUs and ranks."""

_OWN_TASKS = re.compile(r"\s(?:-n[= ]?\d|--ntasks(?:-per-node)?[= ])")
_STEP = re.compile(r"^(?!#).*?\b(?:srun|mpirun|mpiexec)\b((?:\\\n|[^\n])*)", re.MULTILINE)
_TOTAL = re.compile(r"^#SBATCH (?:-n[= ]?|--ntasks[= ])\d", re.MULTILINE)
_ASKS_GPUS = re.compile(r"^#SBATCH .*gpu", re.MULTILINE | re.IGNORECASE)
_SEVERAL = re.compile(
    r"(?:n_?proc|num_proc|procs?_per|processes|n_?gpus?|num_gpu|gpus?_per|gpus_per_node|ntasks|tasks-per|gpus-per-task|devices)"
    r"[a-z_-]*[=: \"]+(?:\$\{\w+:-)?\"?(?:[2-9]|\d\d)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"^(?!\s*echo).*SLURM_GPUS_(?:ON|PER)_NODE|node[= ](?:gpu|auto)\b"
    r"|\$\(.*(?:CUDA_VISIBLE_DEVICES|nvidia-smi|device_count)",
    re.MULTILINE,
)
_ON_EACH = re.compile(r"\b(?:srun|mpirun|mpiexec|pdsh|clush|ssh|salloc)\b")


def _own_tasks(text: str) -> bool:
    """Each step says its number of tasks by itself, in its words or in a variable that they name."""
    for step in _STEP.findall(text):
        names = "|".join(re.findall(r"\$\{?(\w+)", step)) or "-"
        told = [step, *re.findall(rf"^\s*(?:{names})=(.*)", text, re.MULTILINE)]
        if not any(_OWN_TASKS.search(f" {each}".replace('"', " ")) for each in told):
            return False
    return True


HARMLESS: dict[str, Callable[[str], bool]] = {
    # torch/distributed/elastic/rendezvous/dynamic_rendezvous.py: the order of coming counts, and no --node-rank. What
    # nothing starts on each node may be the line of the first one.
    "rank 0 on every node": lambda text: (
        re.search(r"rdzv[-_]backend[= ]\W?(?:c10d|etcd)", text) is not None or _ON_EACH.search(text) is None
    ),
    # who names the head by another word reads no MASTER_ADDR (torch/distributed/run.py: --rdzv-endpoint)
    "localhost for the head": lambda text: (
        re.search(r"rdzv[-_]endpoint|\bray start\b", text) is not None
        and re.search(r"\$\{?MASTER_ADDR", re.sub(r"^\s*echo.*", "", text, flags=re.MULTILINE)) is None
        and "MASTER_ADDR=" in text
    ),
    # srun(1): a step's own --ntasks wins over the header's number; without a step nobody starts the tasks. sbatch(1):
    # --ntasks takes precedence over --ntasks-per-node. A program that asks for no GPU may be started as often as one
    # likes, a launcher not.
    "four times the tasks": lambda text: (
        _TOTAL.search(text) is not None
        or _own_tasks(text)
        or (_ASKS_GPUS.search(text) is None and PER_NODE.search(text) is None)
    ),
    # the ranks are counted by what SLURM gives, or the text counts none
    "one GPU asked for": lambda text: _COUNTED.search(text) is not None or _SEVERAL.search(GPUS.sub("", text)) is None,
    # the launcher's own option wins over the variable, and an endpoint over both
    "a port out of range": lambda text: (
        ("MASTER_PORT=" in text or re.search(r"rdzv[-_]endpoint", text) is not None)
        and re.search(r"port[= ]\"?\d", text) is not None
    ),
    "twice the nodes": lambda text: re.search(r"^#SBATCH (?:-N|--nodes)[= ]?64\b", text, re.MULTILINE) is not None,
}
"""Where a kind of fault would be none: what is started stays as it was, by the programs' own rules."""


def planted() -> Iterator[Planted]:
    for start in starts():
        if start.verdict != "good" or start.ranks is None or start.ranks < 2:
            continue
        first = start.texts[0]
        text = first.text
        if len(start.texts) > 1 and any(each.node for each in start.texts):
            continue  # each node its own line: what is wrong on one is another fault
        if not LAUNCHED.search(text) or not re.match(r"#!\S*(?:/|env )(?:ba)?sh\b", text):
            continue
        for kind, plant in KINDS.items():
            if kind in ("twice the nodes", "localhost for the head", "rank 0 on every node") and start.facts.get(
                "nodes"
            ) in (None, "1"):
                continue  # on one node it is none
            if kind == "32 processes on a node" and start.facts.get("gpus") == "0":
                continue  # on CPUs there may be as many
            if kind in HARMLESS and HARMLESS[kind](text):
                continue
            done = plant(text, random.Random(zlib.crc32(f"{start.id} {kind}".encode())))
            if done is not None:
                yield Planted(kind, start._replace(texts=(first._replace(text=done[0]), *start.texts[1:])), *done)


def _told(whole: Given, start: Start) -> set[tuple[str, str]]:
    """Codes and summaries: lines move."""
    report = asked.lint(whole.text, facts(start)).report
    return {(each.code, each.summary) for each in report.problems if each.severity != "info"}


def found(case: Planted, before: set[tuple[str, str]]) -> bool:
    return bool(_told(given(case.start), case.start) - before)


def main(arguments: list[str]) -> None:
    good = {each.id: each for each in starts()}
    before: dict[str, set[tuple[str, str]]] = {}
    sums: dict[tuple[str, str], list[bool]] = {}
    for case in planted():
        whole = good[case.start.id]
        if whole.id not in before:
            before[whole.id] = _told(given(whole), whole)
        seen = found(case, before[whole.id])
        sums.setdefault((case.kind, whole.half), []).append(seen)
        if not seen and "-v" in arguments and whole.half == "tune":
            print(f"{case.kind}: {whole.id} line {case.line}: {case.text.splitlines()[case.line - 1][:100]}")
    for half in ("tune", "keep"):
        print(f"{half}:")
        for kind in KINDS:
            these = sums.get((kind, half), [])
            print(f"  {kind:30} {sum(these):3} of {len(these)}")
        every = [each for (_, of), these in sums.items() for each in these if of == half]
        print(f"  {'all':30} {sum(every):3} of {len(every)} ({sum(every) / max(1, len(every)):.0%})")


if __name__ == "__main__":
    main(sys.argv[1:])
