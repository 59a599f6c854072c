"""An emission as text to paste, as files, and with its plan as JSON.

Several parts are divided by the lines that `gpudoctor lint` reads: `#@ node 0`, `#@ every node`, `#@ file NAME`.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from gpudoctor.check import Fix
from gpudoctor.envelope import Answer, Stated, subject
from gpudoctor.errors import BadInput
from gpudoctor.fleet.names import folded
from gpudoctor.launch.plan import Emission, EmittedFile, LaunchPlan, PasteBlock
from gpudoctor.launch.verified import NOT_VERIFIED, Verified, exit_status
from gpudoctor.lazy import lazy_re

NODE_RANK = lazy_re(r"node rank (\d+)")


def text(emission: Emission) -> str:
    """What to paste. A lone file comes as it is, so that it can be sent to a file or to the tool that reads it."""
    files = shown_files(emission)
    if len(files) == 1 and not emission.code and all("sbatch " in block.text for block in emission.blocks):
        return files[0].text
    if len(files) == 1 and not emission.blocks and not emission.code:
        return files[0].text
    parts = [f"#@ file {file.name}\n{_ended(file.text)}" for file in files]
    if emission.code:
        parts.append(f"#@ file {code_name()}\n# These lines belong into your script.\n{_ended(emission.code)}")
    alone = len(emission.blocks) == 1 and not parts
    for block in emission.blocks:
        parts.append(_ended(block.text) if alone else f"#@ {place(block)}\n# {block.title}\n{_ended(block.text)}")
    return "\n".join(parts)


def shown_files(emission: Emission) -> tuple[EmittedFile, ...]:
    return tuple(file for file in emission.files if not file.alternative)


def code_name() -> str:
    """The name under which lines for the user's script are shown and written."""
    return "lines_for_the_script.py"


def place(block: PasteBlock) -> str:
    """Where a block belongs, in the words that divide a text for `gpudoctor lint`."""
    rank = block.node
    if rank is None:
        match = NODE_RANK.search(block.title)
        rank = int(match[1]) if match else 0 if "head" in block.title or "login" in block.title else None
    return "every node" if rank is None else f"node {rank}"


def files(emission: Emission) -> Iterator[EmittedFile]:
    """What -o writes: the files, a script for each block, and the lines for the training script."""
    yield from emission.files
    if emission.code:
        yield EmittedFile(code_name(), _ended(emission.code))
    for number, block in enumerate(emission.blocks):
        where = place(block).replace(" ", "-")
        same = [paste_block for paste_block in emission.blocks if place(paste_block) == place(block)]
        name = where if len(same) == 1 else f"{where}-{number + 1}"
        yield EmittedFile(f"{name}.sh", f"#!/bin/sh\n# {block.title}\n{_ended(block.text)}", executable=True)


def written(emission: Emission, folder: str) -> tuple[Path, ...]:
    """All files into the folder, or none where one is there already."""
    place = Path(folder)
    every = list(files(emission))
    there = [file.name for file in every if os.path.lexists(place / file.name)]
    if there:
        raise BadInput(
            f"-o {folder}: {', '.join(there[:4])} is there already and is not overwritten; name another folder"
        )
    made: list[Path] = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file in every:
            made.append(place / file.name)
            _create(made[-1], file)
    except OSError as error:
        for path in made:
            if not isinstance(error, FileExistsError) or path is not made[-1]:
                with suppress(OSError):
                    path.unlink()
        raise BadInput(f"-o {folder}: {error.strerror or error}") from None
    return tuple(made)


def _create(path: Path, file: EmittedFile) -> None:
    """A new file; one that has come meanwhile, or a link, is refused. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if file.executable else 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        target.write(file.text)


class LaunchAnswer(Answer, frozen=True, kw_only=True):
    """The answer. No --from reads it: it is lines to paste, and whoever wrote a file chose them."""

    command: ClassVar[str] = "launch"
    signs: ClassVar[tuple[str, ...]] = ("plan", "emission")
    plan: LaunchPlan
    emission: Emission
    text: str
    """What is printed without --json."""
    verified: tuple[Verified, ...] | None = None
    """None where --check was not asked for."""

    @property
    def exit_status(self) -> int:
        return 0 if self.verified is None else exit_status(self.verified)

    def about(self) -> str:
        return folded(node.name for node in self.plan.nodes)

    def stated(self) -> Iterator[Stated]:
        for verified in self.verified or ():
            if verified.outcome != "true":
                yield Stated(
                    id=verified.id or NOT_VERIFIED,
                    severity="error" if verified.outcome == "false" else "info",
                    subject=subject(nodes=verified.nodes),
                    summary=f"{verified.claim}: {verified.seen}" if verified.seen else verified.claim,
                    meaning=verified.means or None,
                    fix=Fix(verified.fix, verified.commands) if verified.fix or verified.commands else None,
                )


def _ended(lines: str) -> str:
    return lines if lines.endswith("\n") else lines + "\n"
