"""Examines this machine for a command."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpudoctor.errors import BadInput
from gpudoctor.lacking import lacking
from gpudoctor.read.children import ExamineWish, launch
from gpudoctor.read.interpreter import NoSuchInterpreter, choose

if TYPE_CHECKING:
    from gpudoctor.snapshot import Snapshot


def examine_machine(
    *,
    python: str | None = None,
    torch: bool = True,
    deep: bool = False,
    timeout: float = 10.0,
    meanwhile: Callable[[], None] | None = None,
) -> "Snapshot":
    """Read this machine, with progress on a terminal; `meanwhile` is called while the children work.

    Raises `BadInput` when the training interpreter cannot be run. Whatever it raises, children may be left:
    `cli.run` ends them.
    """
    try:
        interpreter = choose(python, os.environ)
    except NoSuchInterpreter as error:
        raise BadInput(str(error)) from None
    try:
        wish = ExamineWish(interpreter, torch=torch, deep=deep, timeout=timeout)
        children = launch(wish)
    except OSError as error:
        raise BadInput(f"{interpreter.path} cannot be run: {lacking(error, interpreter.path)}") from None
    # The patient's `import torch` has begun; only now is what the doctor itself needs imported.
    from gpudoctor.read.machine import examine
    from gpudoctor.render.progress import Progress

    if meanwhile is not None:
        meanwhile()
    with Progress(sys.stderr) as progress:
        snapshot = examine(wish, children, progress.waiting)
        if deep:
            from gpudoctor.cli.deep import deepened

            snapshot = deepened(wish, snapshot, progress.waiting)
        return snapshot
