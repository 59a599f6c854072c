"""Report -> one line for Nagios and Slurm's node health checks."""

from gpudoctor.knowledge.wording import counted
from gpudoctor.render import words
from gpudoctor.report import Report

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


def line(report: Report, *, strict: bool = False) -> str:
    """State, verdict, the names of what was found, and the counts as performance data."""
    counts = report.counts
    names = list(
        dict.fromkeys(
            result.check + (f" (GPU {','.join(map(str, problem.gpus))})" if problem.gpus else "")
            for result, problem in report.problems
            if problem.severity != "info"
        )
    )
    detail = f": {'; '.join(names)}" if names else ""
    blind = len(report.could_not_look)
    status = report.nagios_status(strict=strict)
    said = words.verdict(report)
    if status == 3:
        said = f"{said[0].lower()}{said[1:]}"
        said += f"; {counted(blind, 'check')} could not look" if blind else ""
    elif status != report.nagios_status():
        said = f"not healthy enough for --strict ({said[0].lower()}{said[1:]})"
    text = f"GPUDOCTOR {STATES[status]} - {said}{detail}"
    # A bar separates text from performance data in Nagios' format.
    return f"{words.safe(text).replace('|', '/')} | errors={counts.error} warnings={counts.warning} skipped={blind}"


def unknown(reason: str) -> str:
    """The line for a run that could not examine anything."""
    return f"GPUDOCTOR {STATES[3]} - {words.safe(reason).replace('|', '/')}"
