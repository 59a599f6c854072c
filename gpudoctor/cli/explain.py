"""`gpudoctor explain`."""

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpudoctor import bounded, cost
from gpudoctor.cli.options import FromFile, Json, NoColor, Verbose, answer, argument, option
from gpudoctor.errors import BadInput

if TYPE_CHECKING:
    from gpudoctor.cause import Restart
    from gpudoctor.explain.report import Explanation

INTERRUPTED = 130
POLICY: "dict[Restart, int]" = {"as it is": 0, "elsewhere": 10, "after a fix": 11, "not decided": 3}
"""Exit status of --restart-policy."""


def explain(
    files: Annotated[
        list[str] | None,
        argument(
            "FILE...|TEXT|-",
            "Logs, in any number: plain, compressed, a tar; a folder as torchrun --log-dir fills it; - is stdin. A "
            "text with blanks that names no file is read itself.",
        ),
    ] = None,
    verbose: Verbose = 0,
    follow: Annotated[bool, option("-f --follow", "Read a growing log, and speak when something has failed.")] = False,
    restart_policy: Annotated[
        bool,
        option(
            "--restart-policy",
            "For job scripts: one line, and status 0 start it as it is, 10 elsewhere (with nodes for --exclude), 11 "
            "after a fix, 3 not decided.",
        ),
    ] = False,
    from_file: FromFile = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    if from_file is not None:
        if files or follow:
            raise BadInput("--from shows a saved answer; without it, logs are read")
        _end(_saved(from_file), verbose=verbose, policy=restart_policy, json=json, no_color=no_color, saved=True)
    if not files:
        raise BadInput("which logs: gpudoctor explain FILE..., or COMMAND 2>&1 | gpudoctor explain -")
    from gpudoctor.explain.explain import Interrupted
    from gpudoctor.render.words import safe

    texts = [file for file in files if is_text(file)]
    paths = [file for file in files if not is_text(file)]
    cost.spend(bounded.LOG)
    interrupted = False
    try:
        seen = _seen(paths, texts, follow)
    except Interrupted as stopped:
        seen, interrupted = stopped.explanation, True
    if not seen.files and not interrupted:
        file, reason = next(iter(seen.unreadable.items()))
        more = f" (and {len(seen.unreadable) - 1} more)" if len(seen.unreadable) > 1 else ""
        raise BadInput(f"{safe(file)}: {reason}{more}")
    _end(seen, verbose=verbose, policy=restart_policy, json=json, no_color=no_color, interrupted=interrupted)


def _saved(path: str) -> "Explanation":
    from gpudoctor.cli.files import saved_answer
    from gpudoctor.explain.report import Explanation

    return saved_answer(path, Explanation)


def _end(
    seen: "Explanation",
    *,
    verbose: int,
    policy: bool,
    json: bool,
    no_color: bool,
    interrupted: bool = False,
    saved: bool = False,
) -> NoReturn:
    from gpudoctor.render.explain import show_explanation, show_with_class

    status = INTERRUPTED if interrupted else POLICY[seen.restart] if policy else seen.exit_status
    if policy and not json:
        _say_policy(seen)
    elif seen.lines or not interrupted:
        show = show_with_class if verbose else show_explanation
        answer(seen, show, json=json, no_color=no_color, status=status, saved=saved)
    raise typer.Exit(status)


def is_text(given: str) -> bool:
    """A line pasted as an argument. Without blanks it is a file's name, also where there is no such file."""
    if " " not in given.strip() or given == "-":
        return False
    try:
        return not Path(given).exists()
    except (OSError, ValueError):  # longer than a name may be, or with a NUL
        return True


def _seen(paths: list[str], texts: list[str], follow: bool) -> "Explanation":
    from gpudoctor.explain.explain import explain as explained
    from gpudoctor.left import program_of

    if sys.stdin is None and "-" in paths:
        raise BadInput("-: standard input is closed")
    stdin = io.BytesIO() if sys.stdin is None else sys.stdin.buffer
    if not follow:
        return explained(paths, stdin=stdin, texts=texts, program=program_of(paths))
    from gpudoctor.explain.follow import followed

    if texts or "-" in paths:
        raise BadInput("-f follows files: give their names")
    return followed(paths, lambda: explained(paths, stdin=stdin, program=program_of(paths)))


def _say_policy(seen: "Explanation") -> None:
    """One line that a script may log; nodes are words of the log, so they are shown as such."""
    from gpudoctor.render.words import safe

    nodes = f" --exclude={','.join(map(safe, seen.exclude))}" if seen.exclude else ""
    print(f"{seen.restart}{nodes}")
