"""`python -m tests.shown EXAMPLE`: a test's answer as it is shown when it is new.

`bounds`: what files may cost; `kept`: which variables and options are recorded.
"""

import sys
import textwrap

from gpudoctor import bounded
from gpudoctor.bounded import GIB, MIB, Bound
from gpudoctor.knowledge.environment import READ, kind_of
from gpudoctor.knowledge.pytorch.torch_variables import VARIABLES
from gpudoctor.launcher.kept import OF_A_SCRIPT, options, switches
from gpudoctor.read import apart
from gpudoctor.read.job import recorder_pickle, source
from gpudoctor.read.job.recorder_apart import SECONDS_OF_A_DUMP
from gpudoctor.read.job.sources import SECONDS_OF_A_LINE
from gpudoctor.render.nccl_test import show_result, show_run
from gpudoctor.render.prose import console
from gpudoctor.render.terminal import BRIEF
from gpudoctor.render.train import show_training
from tests import nccl_examples, train_examples

BOUNDS: tuple[tuple[str, Bound], ...] = (
    ("a snapshot (check, devices, env, topology --from)", bounded.SNAPSHOT),
    ("a saved answer (amp, nccl-test, train-test --from)", bounded.ANSWER),
    ("evidence of a job (hang --from)", bounded.EVIDENCE),
    ("a script, manifest or source (lint)", bounded.SCRIPT),
    ("a hostfile", bounded.HOSTFILE),
    ("a log (explain); seconds: without a block read", bounded.LOG),
    ("a checkpoint, without its numbers; more by its size", bounded.LISTED),
    ("a flight recorder (hang --dumps)", Bound(recorder_pickle.MOST_BYTES, int(SECONDS_OF_A_DUMP), apart.MEMORY)),
    (
        "a source file in a stack (hang): around the line",
        Bound(source.MOST_PARSED, int(SECONDS_OF_A_LINE), apart.MEMORY),
    ),
)


def show_bounds() -> None:
    print(f"{'file':52} {'bytes':>8} {'computing':>9} {'memory':>8}")
    for name, bound in BOUNDS:
        print(f"{name:52} {_size(bound.size):>8} {bound.seconds:>7} s {_size(bound.memory):>8}")
    print(f"until a regular file is read: {bounded.FILE_SECONDS:.0f} s without a byte")
    print(f"until a pipe has come to its end: {bounded.PIPE_SECONDS:.0f} s")


def _size(count: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count / 1024:g} KiB"


def show_kept() -> None:
    of_torch = [name for each in VARIABLES for name in (each.name, each.old_name) if name]
    for kind in READ:
        names = {*READ[kind].split(), *(name for name in of_torch if kind_of(name) == kind)}
        _show_names(f"variables, {kind}", names)
    for kind, known in options().items():
        _show_names(f"options of launchers, {kind}", set(known))
    _show_names("options of launchers without a value", set(switches()))
    _show_names("options of a script", set(OF_A_SCRIPT))


def _show_names(title: str, names: set[str]) -> None:
    print(f"{title}:")
    print(
        textwrap.fill(" ".join(sorted(names)), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    )


def show(example: str) -> None:
    screen = console()
    if example in train_examples.EXAMPLES:
        show_training(train_examples.EXAMPLES[example](), screen)
        return
    answer = nccl_examples.EXAMPLES[example]()
    show_run(answer, screen)
    show_result(answer, screen, BRIEF)


if __name__ == "__main__":
    {"bounds": show_bounds, "kept": show_kept}.get(sys.argv[1], lambda: show(sys.argv[1]))()
