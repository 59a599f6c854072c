"""`gpudoctor lint --check`: whether the interfaces that a text names for NCCL and gloo are there on this machine."""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.knowledge.nccl.interfaces import IFNAME as OF_NCCL, is_set, parse
from gpudoctor.knowledge.network.gloo_interface import IFNAME as OF_GLOO, listed
from gpudoctor.lint import look
from gpudoctor.lint.assignments import span_of
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.python_code import codes, constant
from gpudoctor.lint.rule import LintFinding
from gpudoctor.lint.spawning import set_variable
from gpudoctor.snapshot.network import Interface

MOST_SHOWN = 8


class NamedInterfaces(NamedTuple):
    """What a text names for NCCL or gloo."""

    variable: str
    text: str
    span: Span
    elsewhere: bool
    """It starts on other nodes than this machine."""


def named_interfaces(job: LintJob) -> tuple[NamedInterfaces, ...]:
    """The settings of the two variables that the text decides, each once. Of several nodes' sections none: which of
    them this machine is, the text does not tell."""
    by_place: dict[int, NamedInterfaces] = {}
    for launch in job.launches:
        if look.section_node(job, launch) is not None and len(job.node_sections) > 1:
            continue
        elsewhere = job.is_batch or look.from_platform(job, launch) or bool(look.sruns(launch))
        for name in (OF_NCCL, OF_GLOO):
            setting = launch.invocation.settings.get(name)
            if setting is not None and setting.exported and setting.word.text and setting.how != "file":
                named = NamedInterfaces(name, setting.word.text, span_of(job, setting), elsewhere)
                by_place.setdefault(setting.word.span.start, named)
    for code in codes(job):  # os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
        for node in code.nodes:
            name = set_variable(code, node) if isinstance(node, ast.Assign) else ""
            text = constant(node.value) if isinstance(node, ast.Assign) else None
            if name in (OF_NCCL, OF_GLOO) and isinstance(node, ast.Assign) and isinstance(text, str) and text:
                span = code.span(node)
                by_place.setdefault(span.start, NamedInterfaces(name, text, span, job.is_batch))
    return tuple(by_place.values())


def absent_interfaces(job: LintJob, interfaces: Sequence[Interface]) -> Iterator[LintFinding]:
    """Names that are no interface of this machine."""
    here = [interface.name for interface in interfaces]
    usual = [interface.name for interface in interfaces if interface.kind != "loopback" and interface.addresses][
        :MOST_SHOWN
    ]
    for named in named_interfaces(job):
        absent = _absent(named, here)
        if not absent:
            continue
        effect = (
            "NCCL ends with: Bootstrap : no socket interface found."
            if named.variable == OF_NCCL
            else f"gloo ends with: Unable to find address for: {absent}."
        )
        yield LintFinding(
            span=named.span,
            severity="warning" if named.elsewhere else "error",
            summary=f"this machine has no interface {absent} ({named.variable}={named.text})"
            + (f"; it has {', '.join(usual)}" if usual else ""),
            happens=effect + (" The job's nodes may have others than this machine." if named.elsewhere else ""),
            fix=f"Name one that every node has, or take {named.variable} away: one is then chosen.",
        )


def _absent(named: NamedInterfaces, here: Sequence[str]) -> str:
    if named.variable == OF_GLOO:
        return next((name for name in listed(named.text) if name not in here), "")
    pattern = parse(named.text)
    if not is_set(named.text) or pattern.excludes or any(pattern.takes(name) for name in here):
        return ""
    return " or ".join(pattern.entries)
