"""`gpudoctor agent` (hidden): what the head starts on each node."""

from typing import Annotated, Optional

import typer


def agent(
    node: Annotated[
        Optional[int],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option("--node", help="Index of this node in the head's fleet.", show_default=False),
    ] = None,
) -> None:
    """Serve a head over standard input and output."""
    import os

    from gpudoctor.fleet.agent import node_index, run

    run(node_index(node, os.environ))
