"""The remarks about a launch. They go to standard error: standard output gets nothing but what is to be pasted."""

from collections.abc import Iterable, Sequence

from rich.console import Console

from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.plan import Emission, LaunchPlan, Unverified
from gpudoctor.launch.text import shown_files, text
from gpudoctor.launch.verified import Verified, unverified
from gpudoctor.launcher import registry
from gpudoctor.render.prose import show, show_command


def remarks(
    plan: LaunchPlan,
    emission: Emission,
    screen: Console,
    *,
    verified: Sequence[Verified] = (),
    said: Iterable[str] = (),
    was_checked: bool = False,
) -> None:
    """What to know before pasting: what the plan is, what is wrong with it, and what nobody has looked at."""
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
    for each in verified:
        if each.outcome == "false":
            show(f"False: {each.claim}: {each.seen}. {each.means} {each.fix}".rstrip(), screen, head="bold red")
            for command in each.commands:
                show_command(command, screen)
    confirmed = sum(each.outcome == "true" for each in verified)
    if was_checked:
        show(f"Verified: {counted(confirmed, 'claim')} of {len(verified)}.", screen)
    _unseen((*unverified(tuple(verified)),) if was_checked else plan.unverified, screen)


def _unseen(open_claims: tuple[Unverified, ...], screen: Console) -> None:
    for each in open_claims:
        show(f"Not verified: {each.claim}.", screen)
        if each.command:
            show_command(each.command, screen)
