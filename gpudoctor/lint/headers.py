"""Lines for batch schedulers other than SLURM: `#PBS`, `#BSUB`, `#PJM`, `#$`."""

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.knowledge.schedulers.directives import KINDS, HeaderKind
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, Span, TextSection

_WORD = lazy_re(r"(?:\"[^\"\n]*\"|'[^'\n]*'|\\.|[^\s\"'\\]|[\"'\\])+")
_COMMAND = lazy_re(r"^[ \t]*[^#\s]", re.MULTILINE)
MOST_LINES = 400


class HeaderOption(Struct, frozen=True, kw_only=True):
    """An option of such a line."""

    kind: HeaderKind
    name: str
    """As written: "-l", "--mpi"."""
    value: str | None
    span: Span
    late: bool
    """It stands behind the first command."""
    known: bool


def options(job: LintJob) -> Iterator[HeaderOption]:
    """All of them, in the order of the text."""
    for section in job.sections:
        if section.kind == "file" and not section.name.endswith(
            (".sh", ".pbs", ".bash", ".lsf", ".pjm", ".sge", ".job")
        ):
            continue
        for kind in KINDS:
            if kind.marker + " " in section.text or kind.marker + "\t" in section.text:
                yield from _of_section(section, kind)


def _of_section(section: TextSection, kind: HeaderKind) -> Iterator[HeaderOption]:
    text = section.text
    command = _COMMAND.search(text)
    body = command.start() if command is not None else len(text)
    for number, line in enumerate(re.finditer(rf"^{kind.prefix}[ \t]+([^\n]*)", text, re.MULTILINE)):
        if number >= MOST_LINES:
            return
        at, late = section.start + line.start(1), line.start() > body
        place = section.line + text.count("\n", 0, line.start())
        yield from _of_line(line[1], kind, at, place, late)


def _of_line(text: str, kind: HeaderKind, start: int, line: int, late: bool) -> Iterator[HeaderOption]:
    words = []
    for match in _WORD.finditer(text):
        if match[0].startswith("#"):
            break
        words.append(match)
    flags, valued = kind.flags.split(), kind.valued.split()
    at = 0
    while at < len(words):
        word = words[at]
        shown = re.sub(r"[\"']", "", word[0])
        first, last = word.start(), word.end()
        at += 1
        if not shown.startswith("-") or shown == "-":
            continue  # the second value of -pe, or a word that nobody counts on
        name, equals, value = shown.partition("=") if shown.startswith("--") else (shown, "", "")
        if kind.letters and len(shown) > 2 and not shown.startswith("--") and shown[:2] in valued:
            name, equals, value = shown[:2], "=", shown[2:]
        elif kind.letters and len(shown) > 2 and not shown.startswith("--") and shown[:2] in flags:
            name = shown[:2]
        known = name in flags or name in valued
        value_told: str | None = value if equals else None
        if name in valued and not equals and at < len(words):
            value_told = re.sub(r"[\"']", "", words[at][0])
            last = words[at].end()
            at += 1
        yield HeaderOption(
            kind=kind, name=name, value=value_told, span=Span(start + first, start + last, line), late=late, known=known
        )


class HeaderAllocation(Struct, frozen=True):
    """What a header asks for; None where it does not tell."""

    kind: HeaderKind
    nodes: int | None
    gpus_per_node: int | None
    asked: HeaderOption


def allocation(job: LintJob) -> HeaderAllocation | None:
    """Of `-l select=2:ngpus=4` and `-l nodes=2:ppn=8:gpus=4` of PBS, `-n 8 -R span[ptile=4]` of LSF, and
    `-L node=2,gpu=4` of PJM."""
    if (of_lsf := _of_lsf(job)) is not None:
        return of_lsf
    for option in options(job):
        value = (option.value or "").split("+")
        if option.late or option.value is None or "$" in option.value:
            continue
        if len(value) > 1:  # by their names: nodes=gpu06:ppn=24+gpu07:ppn=24
            named = re.match(r"(?:.*,)?nodes=(?=[A-Za-z])", value[0])
            if option.kind.name == "PBS" and named and all(re.match(r"[A-Za-z]", each) for each in value[1:]):
                return HeaderAllocation(option.kind, len(value), None, option)
            continue
        match = None
        if option.kind.name == "PBS" and option.name == "-l":
            match = re.match(r"(?:.*,)?(?:select|nodes)=(\d{1,4})((?::[^,]*)?)", value[0], re.ASCII)
            gpus = re.search(r":(?:ngpus|gpus)=(\d{1,3})", match[2], re.ASCII) if match is not None else None
        elif option.kind.name == "PJM" and option.name in ("-L", "--rsc-list"):
            match = re.search(r"\bnode=(\d{1,4})()", value[0], re.ASCII)
            gpus = re.search(r"\bgpu=(\d{1,3})\b", value[0], re.ASCII)
        if match is not None:
            per_host = int(gpus[1]) if gpus is not None else None
            return HeaderAllocation(option.kind, int(match[1]), per_host, option)
    return None


def _of_lsf(job: LintJob) -> HeaderAllocation | None:
    """`-n` counts slots, `span[ptile=N]` those of a host, `-nnodes` the hosts (of a machine with jsrun)."""
    given = [each for each in options(job) if each.kind.name == "LSF" and not each.late and each.value]
    told = {each.name: each for each in given}
    hosts, slots, gpu = (told.get(name) for name in ("-nnodes", "-n", "-gpu"))
    span = " ".join(each.value or "" for each in given if each.name == "-R")
    shown = re.search(r"\bnum=(\d{1,3})(?![\d/])", (gpu.value or "") if gpu is not None else "", re.ASCII)
    gpus = int(shown[1]) if shown is not None else None
    if hosts is not None and re.fullmatch(r"\d{1,5}", hosts.value or "", re.ASCII):
        return HeaderAllocation(hosts.kind, int(hosts.value or 0), gpus, hosts)
    if re.search(r"\bhosts=1\b", span) and gpu is not None:
        return HeaderAllocation(gpu.kind, 1, gpus, gpu)
    tile = re.search(r"\bptile=(\d{1,4})\b(?!\s*,)", span, re.ASCII)
    if slots is None or tile is None or not re.fullmatch(r"\d{1,5}", slots.value or "", re.ASCII) or not int(tile[1]):
        return None
    if gpus is None and int(tile[1]) == 1:  # with more slots a host it may be for each slot: RESOURCE_RESERVE_PER_TASK
        reserved = re.search(r"\bngpus(?:_physical|_excl_p|_shared)?=(\d{1,3})\b", span, re.ASCII)
        gpus = int(reserved[1]) if reserved is not None else None
    return HeaderAllocation(slots.kind, -(-int(slots.value or 0) // int(tile[1])), gpus, slots)
