"""Corrections of `NAME=value`: taken out, exported, renamed."""

import re

from gpudoctor.lint.model import LintJob, SetVariable, Span
from gpudoctor.lint.rule import Edit


def name_span(job: LintJob, setting: SetVariable) -> Span | None:
    """Where NAME stands, when `NAME=` is right before the value."""
    value = setting.word.span
    start = value.start - len(setting.name) - 1
    if not value.exact or start < 0 or job.text[start : value.start] != f"{setting.name}=":
        return None
    if start and job.text[start - 1] not in " \t\n;'\"(&|":
        return None
    return Span(start, value.start - 1, value.line)


def span_of(job: LintJob, setting: SetVariable) -> Span:
    """Of `NAME=value`; of the value where the name stands elsewhere."""
    name = name_span(job, setting)
    return Span(name.start, setting.word.span.end, name.line) if name is not None else setting.word.span


def taken_out(job: LintJob, setting: SetVariable) -> tuple[Edit, ...]:
    """Without the assignment; without its line where that has nothing else."""
    name = name_span(job, setting)
    if name is None:
        return ()
    start, end = name.start, setting.word.span.end
    line_start = job.text.rfind("\n", 0, start) + 1
    line_end = job.text.find("\n", end)
    line_end = len(job.text) if line_end < 0 else line_end + 1
    before, after = job.text[line_start:start], job.text[end:line_end]
    if re.fullmatch(r"\s*(?:export\s+)?", before) and re.fullmatch(r"\s*(?:#.*)?\n?", after):
        return (Edit(Span(line_start, line_end, name.line), ""),)
    if re.search(r"\b(?:export|env|declare|-e|--env)\s+(?:-\w+\s+)?$", before) and not re.match(r"[ \t]+\w+=", after):
        return ()
    while end < len(job.text) and job.text[end] in " \t":
        end += 1
    return (Edit(Span(start, end, name.line), ""),)


def exported(job: LintJob, setting: SetVariable) -> tuple[Edit, ...]:
    """With `export` in front."""
    name = name_span(job, setting)
    if name is None:
        return ()
    before = job.text[job.text.rfind("\n", 0, name.start) + 1 : name.start]
    if before.strip() and not before.rstrip().endswith((";", "&&", "then", "else", "do", "{")):
        return ()
    return (Edit(Span(name.start, name.start, name.line), "export "),)


def renamed(job: LintJob, setting: SetVariable, name: str) -> tuple[Edit, ...]:
    span = name_span(job, setting)
    return (Edit(span, name),) if span is not None else ()


def with_value(setting: SetVariable, value: str) -> tuple[Edit, ...]:
    """Another value, in the quotes of the text."""
    span, raw = setting.word.span, setting.word.raw
    if not span.exact or span.end - span.start != len(raw):
        return ()
    quote = raw[0] if len(raw) > 1 and raw[0] in "\"'" and raw[-1] == raw[0] else ""
    return (Edit(span, f"{quote}{value}{quote}"),)
