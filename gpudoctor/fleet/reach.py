"""The first thing with every fleet: wait until the agents say Hello, and see that they speak this head's language."""

import time
from collections.abc import Callable, Mapping

from gpudoctor import __version__
from gpudoctor.active import Awaited, Waiting
from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import PROTOCOL, Hello

OnChange = Callable[[Mapping[int, Hello | Lost]], None]
"""Called with what is known so far, whenever a node answers or is lost, and several times a second besides."""
REACH_SECONDS = 20.0
"""A node that has not answered by then is given up. Our rule of thumb."""
ANSWER_SECONDS = 10.0
"""Of an examination, on top of its readers' deadline: starting them, and the way of the answers."""


def reach(
    fleet: Fleet, *, timeout: float, on_change: OnChange | None = None, only_asks: bool = False
) -> dict[int, Hello | Lost]:
    """Every node's Hello, or why there is none: one that says nothing within `timeout` seconds is taken for lost.

    An agent of another version is lost too, for it might measure differently; where the fleet is only asked what its
    nodes are and do (`only_asks`), its answers are taken, and `fleet.other_versions` names it.
    """
    by_node: dict[int, Hello | Lost] = dict(fleet.lost)
    deadline = time.monotonic() + timeout
    while not _all_there(fleet, by_node) and (left := deadline - time.monotonic()) > 0:
        event = fleet.next_event(min(left, 0.2))
        if event is not None and event.node not in by_node:
            if isinstance(event.what, Lost):
                by_node[event.node] = event.what
            elif isinstance(event.what, Hello):
                if event.what.gpudoctor != __version__:
                    fleet.other_versions[event.node] = event.what.gpudoctor
                by_node[event.node] = refused(event.what, other_version=only_asks) or event.what
        if on_change is not None:
            on_change(by_node)
    for node in range(len(fleet.nodes)):
        said = by_node.setdefault(node, Lost("no answer", f"within {timeout:g} s"))
        if isinstance(said, Lost):
            fleet.lost.setdefault(node, said)
    return {node: by_node[node] for node in sorted(by_node)}


def unheard(fleet: Fleet, waiting: Waiting) -> OnChange:
    """An `on_change` that tells `waiting` the names of the nodes that have not answered, within `REACH_SECONDS`."""
    until = time.monotonic() + REACH_SECONDS
    return lambda found: waiting(
        Awaited((fleet.name(node) for node in range(len(fleet.nodes)) if node not in found), until)
    )


def _all_there(fleet: Fleet, answers: dict[int, Hello | Lost]) -> bool:
    """Whether every node has answered or is lost. Those that left and may come back have not."""
    for node in fleet.away:
        if isinstance(answers.get(node), Hello):
            del answers[node]
    return len(answers) == len(fleet.nodes)


def refused(hello: Hello, *, other_version: bool = False) -> Lost | None:
    """Why an agent cannot be worked with; None when it can. `other_version`: one that speaks these words may."""
    if hello.gpudoctor != __version__ and not (other_version and hello.protocol == PROTOCOL):
        return Lost("other version", f"gpudoctor {hello.gpudoctor} there, {__version__} here")
    if hello.protocol != PROTOCOL:
        return Lost(
            "other version", f"gpudoctor {hello.gpudoctor} in another build (protocol {hello.protocol}, not {PROTOCOL})"
        )
    return None
