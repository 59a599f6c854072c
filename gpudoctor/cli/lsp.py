"""`gpudoctor lsp`."""

from typing import Annotated

import typer

from gpudoctor import bounded, cost
from gpudoctor.cli.options import Facts, FrameworkVersion, Python
from gpudoctor.errors import BadInput


def lsp(
    facts: Facts = None,
    framework_version: FrameworkVersion = None,
    python: Python = None,
    stdio: Annotated[bool, typer.Option("--stdio", hidden=True, help="What some editors add.")] = False,
) -> None:
    """An editor starts it. Needs pygls: pip install 'gpudoctor[lsp]'."""
    from gpudoctor.lint.asked import asked_facts

    try:
        from gpudoctor.lint.server import LintServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise BadInput("the language server needs pygls 2: python -m pip install 'gpudoctor[lsp]'") from None
    server = LintServer(asked_facts(facts, framework_version, None, python))
    cost.spend(bounded.SCRIPT)  # for each document anew
    server.start()
