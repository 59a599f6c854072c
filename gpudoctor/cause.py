"""What a cause is written against. One a file in `causes/`: a trouble that a training dies, hangs or is slow of.

`hang`, `explain`, `nccl-test` and `train-test` name what they find by its id and take their words from it; rules of
lint say what they lead to by it. What is special to one job is said where the cause is found.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from gpudoctor.check import Fix
from gpudoctor.command import Command
from gpudoctor.symptom import UNSAID, Symptom

Stage = Literal["rendezvous", "communicator", "first collective", "training", "end"]
"""Of a job, in the order in which it passes them."""
STAGES: tuple[Stage, ...] = get_args(Stage)
Blame = Literal["rank", "node", "fabric", "program", "environment", "scheduler"]
"""Where the culprit is to be looked for. rank: one process. node: a machine and what is in it. fabric: what is between
machines. program: what the training's own code does. environment: how it was started, and with which software and
settings. scheduler: who gives and takes machines."""
HangsBy = Literal["gone", "start", "disagreement", "elsewhere", "together"]
"""How a cause makes a job wait, in the order in which `hang` blames. gone: a rank is dead, stopped or missing, or its
GPU is. start: something keeps ranks from meeting, or from reaching each other. disagreement: ranks go to different
collectives. elsewhere: a rank does something else. together: all wait in one place, for what they have in common."""
HANGS_BY: tuple[HangsBy, ...] = get_args(HangsBy)
WhileRunning = Literal["never", "while nobody waits", "always"]


class Cause(Struct, frozen=True, kw_only=True):
    """A kind of trouble. Its texts hold for every job."""

    id: str
    """A contract with whoever reads the JSON: never renamed, never reused."""
    title: str
    """What is wrong, as a short phrase: "a rank has died", "/dev/shm is too small"."""
    stages: tuple[Stage, ...]
    """Where it shows itself, first the first."""
    blame: Blame
    hangs_by: HangsBy
    while_running: WhileRunning = "never"
    """Whether it may be said of a job in which something moves. always: a fault that stands by itself, or a world that
    is smaller than wanted. while nobody waits: those that are left only sleep and look again, and cannot help."""
    slows: bool = False
    """A job that is held up by it gets on: it is slow, and does not hang."""
    explains: tuple[str, ...] = ()
    """Ids of causes that follow from it: beside it they are not said."""
    meaning: str
    """What happens because of it, as sentences."""
    like: tuple[str, ...] = ()
    """Ids of causes that it can be mistaken for."""
    fix: Fix
    """What to do, with lines to paste that need no value of the job."""
    variants: Mapping[str, Fix] = {}
    """The fix for what was seen, by a short name of that; texts may name values in braces. One without lines of its own
    has those of `fix`."""
    confirm: str
    """The test that decides, as sentences."""
    foreseen_by: tuple[str, ...] = ()
    """Ids of the checks that would have told before the start."""
    kind: str = ""
    """Its class, for programs that decide what to do with the job; empty: none is said."""
    restart: bool | None = None
    """Whether starting the job again, as it is, helps; None: that depends, or is not known."""
    symptoms: tuple[Symptom, ...] = ()
    """Lines of logs that tell of this cause; they need not name it. Those that belong together by their speaker, and
    tell of several causes, stand in `symptoms/`."""
    source: str

    def __post_init__(self) -> None:
        for symptom in self.symptoms:
            symptom.cause = self.id

    def remedy(self, variant: str = "", *commands: Command, **values: object) -> Fix:
        """The fix, or a variant of it with this job's values; with `commands` before its own lines."""
        fix = self.variants[variant] if variant else self.fix
        text = fix.text.format_map(defaultdict(lambda: UNSAID, values)) if values else fix.text
        return Fix(text, (*commands, *fix.commands) or self.fix.commands)
