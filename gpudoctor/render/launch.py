"""A launch as text to paste, and the remarks about it.

Standard output gets nothing but what is to be pasted, or one file as it is; remarks go to standard error. Several
parts are divided by the lines that `gpudoctor lint` reads: `#@ node 0`, `#@ every node`, `#@ file NAME`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.console import Console

from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock, Unverified
from gpudoctor.launch.verify import Verified, unverified
from gpudoctor.launcher import registry
from gpudoctor.render.prose import show, show_command

NODE_RANK = re.compile(r"node rank (\d+)")


def text(emission: Emission) -> str:
    """What to paste. A lone file comes as it is, so that it can be sent to a file or to the tool that reads it."""
    files = shown_files(emission)
    if len(files) == 1 and not emission.code and all("sbatch " in each.text for each in emission.blocks):
        return files[0].text
    if len(files) == 1 and not emission.blocks and not emission.code:
        return files[0].text
    parts = [f"#@ file {each.name}\n{_ended(each.text)}" for each in files]
    if emission.code:
        parts.append(f"#@ file {code_name()}\n# These lines belong into your script.\n{_ended(emission.code)}")
    alone = len(emission.blocks) == 1 and not parts
    for block in emission.blocks:
        parts.append(_ended(block.text) if alone else f"#@ {place(block)}\n# {block.title}\n{_ended(block.text)}")
    return "\n".join(parts)


def shown_files(emission: Emission) -> tuple[EmittedFile, ...]:
    return tuple(each for each in emission.files if not each.alternative)


def code_name() -> str:
    """The name under which lines for the user's script are shown and written."""
    return "lines_for_the_script.py"


def place(block: PasteBlock) -> str:
    """Where a block belongs, in the words that divide a text for `gpudoctor lint`."""
    rank = block.node
    if rank is None:
        found = NODE_RANK.search(block.title)
        rank = int(found[1]) if found else 0 if "head" in block.title or "login" in block.title else None
    return "every node" if rank is None else f"node {rank}"


def files(emission: Emission) -> Iterator[EmittedFile]:
    """What -o writes: the files, a script for each block, and the lines for the training script."""
    yield from emission.files
    if emission.code:
        yield EmittedFile(code_name(), _ended(emission.code))
    for number, block in enumerate(emission.blocks):
        where = place(block).replace(" ", "-")
        same = [each for each in emission.blocks if place(each) == place(block)]
        name = where if len(same) == 1 else f"{where}-{number + 1}"
        yield EmittedFile(f"{name}.sh", f"#!/bin/sh\n# {block.title}\n{_ended(block.text)}", executable=True)


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


def as_json(plan: LaunchPlan, emission: Emission, verified: Sequence[Verified] | None) -> str:
    """Plan and emission; `verified` is null where --check was not asked for."""
    return json.dumps(
        {
            "plan": {**msgspec.to_builtins(plan), "world_size": plan.world_size},
            "emission": msgspec.to_builtins(emission),
            "text": text(emission),
            "verified": None if verified is None else msgspec.to_builtins(tuple(verified)),
        },
        indent=2,
    )


def _ended(lines: str) -> str:
    return lines if lines.endswith("\n") else lines + "\n"
