"""The remarks about a launch. They go to standard error: standard output gets nothing but what is to be pasted."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console

from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.plan import Emission, LaunchPlan, Unverified
from gpudoctor.launch.text import shown_files, text
from gpudoctor.launch.verified import Verified, lost_with_nodes, unverified
from gpudoctor.launcher import registry
from gpudoctor.render.prose import show, show_command
from gpudoctor.render.terminal import BRIEF, REASONS

MOST_UNSEEN = 3
"""So many claims that nobody has looked at are shown in a brief answer."""


def remarks(
    plan: LaunchPlan,
    emission: Emission,
    screen: Console,
    *,
    verified: Sequence[Verified] = (),
    said: Iterable[str] = (),
    was_checked: bool = False,
    verbosity: int = REASONS,
) -> None:
    """What to know before pasting: what the plan is, what nobody has looked at, and last what is wrong with it."""
    ranks = counted(plan.world_size, "rank")
    if registry.frameworks()[plan.framework].a_chip:
        show(f"{plan.framework}: a rank a chip, on as many workers as the TPU has.", screen)
    else:
        show(f"{plan.framework}: {ranks} on {counted(len(plan.nodes), 'node')}, world size {plan.world_size}.", screen)
    for sentence in (*said, *emission.notes):
        show(sentence, screen)
    placeholders = [node.name for node in plan.nodes if not node.known]
    if placeholders and plan.nodes[0].known:  # else the scheduler chooses
        one = len(placeholders) == 1
        names = placeholders[0] if one else f"{placeholders[0]} to {placeholders[-1]}"
        show(f"{names}: {'a node' if one else 'nodes'} that nobody has named; --hosts n1,n2,... does.", screen)
    if len(shown_files(emission)) == 1 and emission.blocks and text(emission) == shown_files(emission)[0].text:
        show(f"Save it as {shown_files(emission)[0].name} (or give -o DIR), then:", screen)
        show_command(emission.blocks[0].text, screen)
    _unseen(
        (*unverified(tuple(verified)),) if was_checked else plan.unverified,
        screen,
        verbosity if was_checked else REASONS,
    )
    if sentence := lost_with_nodes(tuple(verified)):
        show(sentence, screen)
    for claimed in verified:
        if claimed.outcome == "false":
            means = f" {claimed.means}" if verbosity > BRIEF else ""
            show(f"False: {claimed.claim}: {claimed.seen}.{means} {claimed.fix}".rstrip(), screen, head="bold red")
            for command in claimed.commands if verbosity > BRIEF else claimed.commands[:1]:
                show_command(command, screen)
    if was_checked:
        count = Counter(claim.outcome for claim in verified)
        others = ((count["false"], "false"), (count["unknown"], "not to be looked at"))
        more = "".join(f", {number} {word}" for number, word in others if number)
        show(f"Verified: {counted(count['true'], 'claim')} of {len(verified)}{more}.", screen, style="bold")


def _unseen(open_claims: tuple[Unverified, ...], screen: Console, verbosity: int) -> None:
    shown = open_claims if verbosity > BRIEF else open_claims[:MOST_UNSEEN]
    if len(open_claims) > len(shown):
        show(f"Not verified: {len(open_claims) - len(shown)} more (-v), and:", screen)
    for each in shown:
        show(f"Not verified: {each.claim}.", screen)
        if each.command:
            show_command(each.command, screen)
