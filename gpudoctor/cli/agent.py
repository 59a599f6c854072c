"""`gpudoctor agent` (hidden): what the head starts on each node."""

from typing import Annotated

from gpudoctor.cli.options import option


def agent(
    node: Annotated[int | None, option("--node", "Index of this node in the head's fleet.")] = None,
) -> None:
    import os

    from gpudoctor.fleet.agent import node_index, run

    run(node_index(node, os.environ))
