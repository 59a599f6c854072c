"""The answer of `gpudoctor lint` for other programs: a line a problem, GitHub's workflow commands, SARIF 2.1.0."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpudoctor.lint.report import LintProblem, LintReport
from gpudoctor.lint.rule import Severity, every_rule
from gpudoctor.render.words import safe

STANDARD_INPUT = "standard input"
NOT_UNDERSTOOD = "not-understood"
"""The code of what is told of a whole file: no start was found in it."""
GITHUB: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}
SARIF: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def short_lines(report: LintReport) -> Iterator[str]:
    """`file:line:column: severity: message [code]`, as compilers write it and editors read it."""
    for problem in report.problems:
        file = safe(problem.file or STANDARD_INPUT)
        yield f"{file}:{problem.line}:{problem.column}: {problem.severity}: {safe(problem.summary)} [{problem.code}]"
    for name, reason in not_understood(report):
        yield f"{safe(name)}:1:1: warning: {safe(reason)} [{NOT_UNDERSTOOD}]"


def not_understood(report: LintReport) -> Iterator[tuple[str, str]]:
    """Files of which nothing can be told, and why: a text that is passed over in silence would look well."""
    if report.starts:
        unread = [(start.file, start.unknown) for start in report.starts if start.verdict == "not understood"]
    else:
        unread = [(STANDARD_INPUT, report.unknown)] if report.verdict == "not understood" else []
    for name, unknown in unread:
        why = "; ".join(unknown) or "no start of a training was found in the text"
        yield name, f"Not understood: {why}"


def github_lines(report: LintReport) -> Iterator[str]:
    """Workflow commands of GitHub Actions, which show each problem at its line of a pull request."""
    for problem in report.problems:
        where = {"file": problem.file or STANDARD_INPUT, "line": problem.line, "col": problem.column}
        if problem.end_line == problem.line and problem.end_column and problem.end_column > problem.column:
            where["endColumn"] = problem.end_column
        elif problem.end_line and problem.end_line > problem.line:
            where["endLine"] = problem.end_line
        where["title"] = f"{problem.rule} {problem.code}"
        yield _command(
            GITHUB[problem.severity], where, f"{problem.summary}\n{problem.happens}\nFix: {problem.fix.text}"
        )
    for name, reason in not_understood(report):
        yield _command("warning", {"file": name, "title": NOT_UNDERSTOOD}, reason)


def _command(name: str, properties: dict[str, Any], message: str) -> str:
    """Escaped as actions/toolkit does it (packages/core/src/command.ts): no value ends itself or the line."""
    fields = ",".join(
        f"{key}={_data(str(value)).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items()
    )
    return f"::{name} {fields}::{_data(message)}"


def _data(text: str) -> str:
    shown = safe(text, lines=True).replace("\t", " ")
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def sarif(report: LintReport) -> str:
    """One run of a SARIF log."""
    codes = list(dict.fromkeys(problem.code for problem in report.problems))
    log = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gpudoctor",
                        "version": report.gpudoctor,
                        "rules": [_rule(code, report) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "exitCode": report.exit_status,
                        "toolExecutionNotifications": [
                            {
                                "level": "warning",
                                "message": {"text": safe(reason)},
                                "descriptor": {"id": NOT_UNDERSTOOD},
                                "locations": [{"physicalLocation": {"artifactLocation": _artifact(name)}}],
                            }
                            for name, reason in not_understood(report)
                        ],
                    }
                ],
                "results": [_result(problem, codes.index(problem.code)) for problem in report.problems],
            }
        ],
    }
    return json.dumps(log, indent=1)


def _rule(code: str, report: LintReport) -> dict[str, Any]:
    """As it is known here; of a saved answer it may be a rule of another version."""
    known = next((rule for rule in every_rule() if rule.code == code), None)
    fired = next(problem for problem in report.problems if problem.code == code)
    severity = known.severity if known is not None else fired.severity
    rule: dict[str, Any] = {
        "id": code,
        "name": fired.rule,
        "shortDescription": {"text": known.title if known is not None else fired.rule},
        "help": {"text": f"gpudoctor about {fired.rule}\n\nKnown from: {safe(fired.source) or 'not told'}"},
        "defaultConfiguration": {"level": SARIF[severity]},
    }
    if known is not None:
        rule["fullDescription"] = {"text": " ".join(known.documentation.split())}
    return rule


def _result(problem: LintProblem, index: int) -> dict[str, Any]:
    region = {"startLine": problem.line, "startColumn": problem.column}
    if problem.end_line is not None and problem.end_column is not None:
        region |= {"endLine": problem.end_line, "endColumn": problem.end_column}
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": SARIF[problem.severity],
        "message": {"text": safe(f"{problem.summary}. {problem.happens} Fix: {problem.fix.text}")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(problem.file or STANDARD_INPUT),
                    "region": region,
                }
            }
        ],
    }
    if (through := problem.imported) is not None:
        result["relatedLocations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(through.file or STANDARD_INPUT),
                    "region": {"startLine": through.line},
                },
                "message": {"text": "imported here"},
            }
        ]
    return result


def _artifact(file: str) -> dict[str, str]:
    """Relative to where it was run, which a viewer takes for the root of the sources."""
    path = Path(file)
    if path.is_absolute():
        return {"uri": "file://" + quote(os.fspath(path).encode("utf-8", "surrogateescape"))}
    return {"uri": quote(os.path.normpath(file).encode("utf-8", "surrogateescape")), "uriBaseId": "%SRCROOT%"}
