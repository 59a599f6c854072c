"""The answer of `gpudoctor lint` -> terminal: problems first, the line with a mark under it, what to write instead."""

import difflib
from collections import Counter

from rich.console import Console
from rich.text import Text

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint.fix import once
from gpudoctor.lint.lint import FiredRule, Linted
from gpudoctor.lint.model import Span
from gpudoctor.lint.places import Places
from gpudoctor.lint.report import LintProblem, LintReport, Understood
from gpudoctor.lint.several import JudgedFiles
from gpudoctor.render.prose import COLORS, show
from gpudoctor.render.words import safe

VERDICT_COLORS = {"ok": "green", "bad": "red", "not understood": "yellow"}
MOST_LINES = 12
"""Of one correction; --fix prints the whole text."""
LONGEST_LINE = 400


def show_lint(answer: Linted, screen: Console, *, with_corrections: bool = True) -> None:
    """Everything, the worst first."""
    _show_found(answer, screen, with_corrections, set())
    _close(answer.report, screen)


def _show_found(answer: Linted, screen: Console, with_corrections: bool, told: set[tuple[object, ...]]) -> None:
    """`told`: of modules, at the starts before."""
    before: LintProblem | None = None
    for rule, problem in zip(answer.found, answer.report.problems, strict=True):
        if before is not None:
            screen.print()
        if problem.imported is not None and problem.told_by in told:
            _show_head(problem, screen, named=True)
            show("Told above: other starts import this file too.", screen, indent=2)
        else:
            same = before is not None and (before.happens, before.fix.text) == (problem.happens, problem.fix.text)
            _show_problem(answer, rule, problem, screen, with_corrections, same)
        before = problem
        told.add(problem.told_by)


def show_files(answer: JudgedFiles, screen: Console, *, with_corrections: bool = True) -> None:
    """Each start with what is found of it; those without a problem in a line."""
    told: set[tuple[object, ...]] = set()
    for start in answer.starts:
        report = start.report
        if report.verdict == "ok" and not report.problems and not report.unknown:
            show(f"{start.start.main.file}: no error found; {understood_line(report.understood)}", screen)
            continue
        beside = f", with {', '.join(file.file for file in start.start.beside)}" if start.start.beside else ""
        show(f"{start.start.main.file}{beside}", screen, style="bold underline")
        if start.linted is not None:
            _show_found(start.linted, screen, with_corrections, told)
        _close(report, screen)
        screen.print()
    _sum_up(answer.report, screen)


def _sum_up(report: LintReport, screen: Console) -> None:
    count = Counter(start.verdict for start in report.starts)
    parts = [
        f"{counted(count['bad'], 'start')} with an error: fails, hangs or trains wrongly" if count["bad"] else "",
        f"{count['not understood']} not understood" if count["not understood"] else "",
        f"{count['ok']} without an error" if count["ok"] else "",
        f"{counted(len(report.passed_over), 'file')} passed over: nothing starts there" if report.passed_over else "",
    ]  # fmt: skip
    given = "; ".join(filter(None, parts)) or "nothing was given that starts a training"
    show(given[0].upper() + given[1:], screen, style=f"bold {VERDICT_COLORS[report.verdict]}")


def show_report(report: LintReport, screen: Console) -> None:
    """A saved answer, which does not hold the text."""
    for number, problem in enumerate(report.problems):
        if number:
            screen.print()
        show_problem_lines(problem, screen, named=bool(report.starts))
    if not report.starts:
        _close(report, screen)
        return
    for start in report.starts:
        if start.verdict == "not understood":
            show(f"{start.file}: {'; '.join(start.unknown)}", screen)
    screen.print()
    _sum_up(report, screen)


def show_problem_lines(problem: LintProblem, screen: Console, *, named: bool = True) -> None:
    """A problem without its text."""
    _show_head(problem, screen, named=named)
    known_as = f" ({', '.join(problem.leads_to)})" if problem.leads_to else ""
    show(f"{problem.happens}{known_as}", screen, indent=2)
    show(f"Fix: {problem.fix.text}", screen, indent=2)


def _close(report: LintReport, screen: Console) -> None:
    if report.problems:
        screen.print()
    show(_verdict(report), screen, style=f"bold {VERDICT_COLORS[report.verdict]}")
    line = understood_line(report.understood)
    if line:
        show(f"Understood: {line}", screen)
    if report.unknown:
        show("Not decided:", screen, style="bold magenta")
        for each in report.unknown:
            show(each, screen, indent=2)


def _show_problem(
    answer: Linted, rule: FiredRule, problem: LintProblem, screen: Console, with_corrections: bool, same: bool
) -> None:
    """`same`: what happens and what to do were said by the problem before, of another line."""
    finding = rule.finding
    _show_head(problem, screen, named=len(answer.pieces) > 1 or bool(answer.job.linked))
    _show_line(answer.places, finding.span, screen)
    if not same:
        known_as = f" ({', '.join(problem.leads_to)})" if problem.leads_to else ""
        show(f"{problem.happens}{known_as}", screen, indent=2)
        show(f"Fix: {problem.fix.text}", screen, indent=2)
    if with_corrections and finding.edits:
        corrected = once(answer.job, [(rule.severity, finding)])
        lines = changed_lines(answer.job.text, corrected)
        for line in lines[:MOST_LINES]:
            screen.print(Text("    " + safe(line), style="green"), soft_wrap=True)
        if len(lines) > MOST_LINES:
            show(f"and {counted(len(lines) - MOST_LINES, 'more line')}; --fix prints the whole text", screen, indent=4)


def _show_head(problem: LintProblem, screen: Console, *, named: bool) -> None:
    """`named`: whether the reader has to be told the file."""
    where = f"{problem.file} line" if named and problem.file else "line"
    head = f"{problem.severity} {where} {problem.line}: {problem.summary}  [{problem.rule} {problem.code}]"
    show(head, screen, style="bold", head=COLORS[problem.severity])


def changed_lines(before: str, after: str) -> list[str]:
    """The lines of the corrected text that differ, the removed ones left out."""
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    lines = after.splitlines()
    return [line for tag, _, _, first, last in matcher.get_opcodes() if tag != "equal" for line in lines[first:last]]


def _show_line(places: Places, span: Span, screen: Console) -> None:
    """The line as it stands in its file, and a mark under what is meant."""
    file = places.file(span.start)
    text, begin, end = file.text, span.start - file.start, span.end - file.start
    start, after = text.rfind("\n", 0, begin) + 1, text.find("\n", begin)
    line = text[start : after if after >= 0 else len(text)].rstrip("\r")
    if not line.strip():
        return
    column, width = begin - start, max(1, min(end, start + len(line)) - begin)
    if len(line) > LONGEST_LINE:
        cut = max(0, column - LONGEST_LINE // 2)
        line, column = line[cut : cut + LONGEST_LINE], column - cut
        width = min(width, len(line) - column)
    before = safe(line[:column].replace("\t", " "))
    marked = safe(line[column : column + width].replace("\t", " "))
    rest = safe(line[column + width :].replace("\t", " "))
    screen.print(Text("  | " + before + marked + rest), soft_wrap=True)
    indent = len("  | " + before)
    if indent + 1 < screen.width:  # under a line that the terminal wraps, a mark would point at nothing
        screen.print(Text(" " * indent + "^" * max(1, min(len(marked), screen.width - indent)), style="bold"))


def _verdict(report: LintReport) -> str:
    count = {
        level: sum(problem.severity == level for problem in report.problems) for level in ("error", "warning", "info")
    }
    parts = [
        counted(count[level], noun) for level, noun in (("error", "error"), ("warning", "warning")) if count[level]
    ]
    if count["info"]:
        parts.append(counted(count["info"], "remark"))
    if count["error"]:
        return f"It fails, hangs or trains wrongly as written: {', '.join(parts)}"
    if report.verdict == "not understood":
        detail = f"; {', '.join(parts)}" if parts else ""
        return f"Not understood: no start of a training was found in the text{detail}"
    return "No error found in the text" + (f"; {', '.join(parts)}" if parts else "")


def understood_line(what: Understood) -> str:
    """ "torchrun, 2 nodes x 4 processes = world size 8, head 10.0.0.1:61234, train.py"."""
    parts = [what.launcher or ""]
    if what.nodes and what.processes_per_node:
        size = f" = world size {what.world_size}" if what.world_size else ""
        parts.append(
            f"{counted(what.nodes, 'node')} x {counted(what.processes_per_node, 'process', 'processes')}{size}"
        )
    elif what.nodes:
        parts.append(counted(what.nodes, "node"))
    elif what.processes_per_node:
        parts.append(f"{counted(what.processes_per_node, 'process', 'processes')} a node, nodes not told")
    if what.master:
        parts.append(f"head {what.master}")
    if what.framework and what.framework != what.launcher:
        parts.append(what.framework)
    parts.append(what.script or "")
    return ", ".join(part for part in parts if part)
