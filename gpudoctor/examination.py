"""Examines this machine: chooses the training interpreter, starts the children, gathers what they say."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpudoctor import defaults
from gpudoctor.errors import BadInput
from gpudoctor.lacking import lacking
from gpudoctor.read.children import ExamineWish, launch
from gpudoctor.read.interpreter import choose

if TYPE_CHECKING:
    from gpudoctor.active import Waiting
    from gpudoctor.read.machine import Early
    from gpudoctor.snapshot import Snapshot


def no_show(names: Sequence[str]) -> None:
    """A `Waiting` that shows nothing."""


def examine_machine(
    *,
    python: str | None = None,
    torch: bool = True,
    deep: bool = False,
    timeout: float = defaults.READ_SECONDS,
    waiting: "Waiting" = no_show,
    meanwhile: Callable[[], None] | None = None,
    early: "Early | None" = None,
) -> "Snapshot":
    """Read this machine; `meanwhile` is called while the children work, then `early` whenever more of it is known.

    Raises `BadInput` when the training interpreter cannot be run. Whatever it raises, children may be left:
    `active.end_all` ends them.
    """
    interpreter = choose(python, os.environ)
    try:
        wish = ExamineWish(interpreter, torch=torch, deep=deep, timeout=timeout)
        children = launch(wish)
    except OSError as error:
        raise BadInput(f"{interpreter.path} cannot be run: {lacking(error, interpreter.path)}") from None
    # The patient's `import torch` has begun; only now is what the doctor itself needs imported.
    from gpudoctor.read.machine import examine

    if meanwhile is not None:
        meanwhile()
    snapshot = examine(wish, children, waiting, early)
    return deepened(wish, snapshot, waiting) if deep else snapshot


def deepened(wish: ExamineWish, snapshot: "Snapshot", waiting: "Waiting") -> "Snapshot":
    """The snapshot with what `--deep` runs after the smoke test: mixed precision on each device, and a training with
    two processes. Never raises for what a test does.
    """
    from msgspec.structs import replace

    from gpudoctor.amp import short as amp
    from gpudoctor.train import short as train

    active = replace(snapshot.active, amp=amp.run(wish, snapshot, waiting))
    return replace(snapshot, active=replace(active, train=train.run(wish, snapshot, waiting)))
