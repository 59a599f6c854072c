"""Hostfiles of DeepSpeed and Open MPI: `NAME slots=N`, `NAME:N`, `NAME slots=N max_slots=M`.

DeepSpeed reads `^(\\S+)\\s+slots=(\\d+)` and nothing else (launcher/runner.py); Open MPI also takes names alone,
`max_slots=` and `max-slots=`; Hydra (MPICH, Intel) `NAME:N`. A fault is what no reader takes.
"""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Hostfile, HostLine, Span

NAME = r"[^\s:#=]+|\[[0-9A-Fa-f:.%\w]+\](?=[\s:#]|$)|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*(?=\s|$)"
LINE = lazy_re(
    rf"(?P<name>{NAME})(?::(?P<colon>\d{{1,9}}))?(?:\s+slots\s*=\s*(?P<slots>\d{{1,9}}))?"
    r"(?:\s+max[_-]slots\s*=\s*\d{1,9})?(?:\s+slots\s*=\s*(?P<late>\d{1,9}))?\s*(?:#.*)?$",
    re.ASCII,
)
SURE = lazy_re(r"[^\s=]+(?:\s+(?:slots|max[_-]slots)\s*=\s*\d+){1,2}\s*(?:#.*)?$|[\w.-]+:\d+\s*$", re.ASCII)


def looks_like_hostfile(text: str) -> bool:
    """Whether a text without a name is one: every line is a comment or a host, and half of them at least have slots."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not all(SURE.fullmatch(line) or re.fullmatch(r"[^\s=]+(\s+\w+=\S*)?", line) for line in lines):
        return False
    return bool(lines) and 2 * sum(SURE.fullmatch(line) is not None for line in lines) >= len(lines)


def read_hostfile(text: str, name: str = "hostfile", start: int = 0, line: int = 1) -> Hostfile:
    """Never raises; a line that is none carries its fault. `start` and `line` say where the text lies in the whole."""
    return Hostfile(name, tuple(_lines(text, start, line)))


def _lines(text: str, start: int, line: int) -> Iterator[HostLine]:
    seen: dict[str, int] = {}
    offset = start
    for number, raw in enumerate(text.split("\n"), line):
        content = raw.strip()
        begin = offset + len(raw) - len(raw.lstrip())
        offset += len(raw) + 1
        if not content or content.startswith("#"):
            continue
        span = Span(begin, begin + len(content), number)
        match = LINE.fullmatch(content)
        if match is None:
            yield HostLine(content.split()[0], None, span, _fault(content))
            continue
        host = match["name"]
        slots = next((int(each) for each in (match["slots"], match["late"], match["colon"]) if each is not None), None)
        fault = ""
        if slots == 0:
            fault = "it has no slots"
        elif host in seen:
            fault = f"{host} stands in line {seen[host]} too"
        elif host.endswith((",", ";")):
            fault = f"no host is called {host}"
        seen.setdefault(host, number)
        yield HostLine(host, slots, span, fault)


def _fault(content: str) -> str:
    """What is wrong with a line that no reader takes."""
    misspelt = re.search(r"\s(\w+)\s*=\s*(\S*)", content)
    if misspelt is None:
        return "it is not NAME slots=N"
    if misspelt[1] != "slots":
        return f"it has {misspelt[1]}= where slots= is due"
    return f"slots is no number but {misspelt[2]!a}"
