"""`gpudoctor lint --check`: whether the interfaces that a text names for NCCL and gloo are there on this machine."""

from collections.abc import Iterator, Sequence

from gpudoctor.knowledge.nccl.interfaces import IFNAME as OF_NCCL
from gpudoctor.knowledge.nccl.interfaces import is_set, parse
from gpudoctor.knowledge.network.gloo_interface import IFNAME as OF_GLOO
from gpudoctor.knowledge.network.gloo_interface import listed
from gpudoctor.lint import look
from gpudoctor.lint.assignments import span_of
from gpudoctor.lint.model import LintJob, LintLaunch, SetVariable
from gpudoctor.lint.rule import LintFinding
from gpudoctor.snapshot.network import Interface

MOST_SHOWN = 8


def named_interfaces(job: LintJob) -> tuple[tuple[LintLaunch, SetVariable], ...]:
    """The settings of the two variables that the text decides, each once. Of several nodes' sections none: which of
    them this machine is, the text does not tell."""
    found: dict[int, tuple[LintLaunch, SetVariable]] = {}
    for launch in job.launches:
        if look.section_node(job, launch) is not None and len(job.node_sections) > 1:
            continue
        for name in (OF_NCCL, OF_GLOO):
            setting = launch.invocation.settings.get(name)
            if setting is not None and setting.exported and setting.word.text and setting.how != "file":
                found.setdefault(setting.word.span.start, (launch, setting))
    return tuple(found.values())


def absent_interfaces(job: LintJob, interfaces: Sequence[Interface]) -> Iterator[LintFinding]:
    """Names that are no interface of this machine."""
    here = [each.name for each in interfaces]
    usual = [each.name for each in interfaces if each.kind != "loopback" and each.addresses][:MOST_SHOWN]
    for launch, setting in named_interfaces(job):
        absent = _absent(setting, here)
        if not absent:
            continue
        elsewhere = job.is_batch or look.from_platform(job, launch) or bool(look.sruns(launch))
        effect = (
            "NCCL ends with: Bootstrap : no socket interface found."
            if setting.name == OF_NCCL
            else f"gloo ends with: Unable to find address for: {absent}."
        )
        yield LintFinding(
            span=span_of(job, setting),
            severity="warning" if elsewhere else "error",
            summary=f"this machine has no interface {absent} ({setting.name}={setting.word.text})"
            + (f"; it has {', '.join(usual)}" if usual else ""),
            happens=effect + (" The job's nodes may have others than this machine." if elsewhere else ""),
            fix=f"Name one that every node has, or take {setting.name} away: one is then chosen.",
        )


def _absent(setting: SetVariable, here: Sequence[str]) -> str:
    text = setting.word.text or ""
    if setting.name == OF_GLOO:
        return next((name for name in listed(text) if name not in here), "")
    pattern = parse(text)
    if not is_set(text) or pattern.excludes or any(pattern.takes(name) for name in here):
        return ""
    return " or ".join(pattern.entries)
