"""`gpudoctor report`."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpudoctor import bounded, cost
from gpudoctor.cli.options import FromFile, Html, Json, NoColor, Redact, answer, argument, check_html_of
from gpudoctor.errors import BadInput

if TYPE_CHECKING:
    from gpudoctor.snapshot import Snapshot


def report(
    folder: Annotated[
        str | None,
        argument(
            "[DIR]",
            "What `gpudoctor run` has kept, or any folder of logs, captures, dumps in dumps/, and answers of --json or "
            "--html. Default: the newest run.",
        ),
    ] = None,
    from_file: FromFile = None,
    json: Json = False,
    html: Html = None,
    redact: Redact = False,
    no_color: NoColor = False,
) -> None:
    from gpudoctor.cli.files import saved_answer, write
    from gpudoctor.folder.answer import FolderAnswer
    from gpudoctor.folder.read import answer_of, newest_run
    from gpudoctor.render.folder import show_folder

    check_html_of(html, redact=redact)
    machines: dict[str, Snapshot] = {}
    if from_file is not None:
        if folder is not None:
            raise BadInput("--from shows a saved answer; without it, a folder is read")
        if redact:
            raise BadInput(f"--from {from_file}: it is an answer, which is shown as it is")
        folder_answer = saved_answer(from_file, FolderAnswer)
    else:
        cost.spend(bounded.EVIDENCE)
        folder_answer, machines = answer_of(folder if folder is not None else newest_run())
    if html is not None:
        from gpudoctor.redact import Pseudonyms
        from gpudoctor.render.html.folder import folder_page

        shown, captures = folder_answer, machines
        if redact:
            names = Pseudonyms(folder_answer, *machines.values())
            shown, captures = names.structure(folder_answer), {}
        write(html, folder_page(shown, captures, saved=from_file is not None, hidden=redact), "--html")
    answer(folder_answer, show_folder, json=json, no_color=no_color, saved=from_file is not None)
    raise typer.Exit(folder_answer.exit_status)
