"""What a cause is written against. One a file in `causes/`: a trouble that a training dies, hangs or is slow of.

`hang`, `explain`, `nccl-test` and `train-test` name what they find by its id and take their words from it; rules of
lint say what they lead to by it. What is special to one job is said where the cause is found.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.fault_classes import CLASSES, Class
from gpudoctor.sure import HINT, LIKELY, POSSIBLE, PROVED, SEEN
from gpudoctor.symptom import UNSAID, Symptom

Stage = Literal["rendezvous", "communicator", "first collective", "training", "end"]
"""Of a job, in the order in which it passes them."""
STAGES: tuple[Stage, ...] = get_args(Stage)
Blame = Literal["program", "environment", "node", "fabric", "scheduler", "user"]
"""Where the culprit is to be looked for. program: what the training's own code does. environment: how it was started,
and with which software and settings. node: a machine and what is in it. fabric: what is between machines. scheduler:
who gives and takes machines. user: a person ended or stopped it."""
BLAMES: tuple[Blame, ...] = get_args(Blame)
USUAL_BLAME: Mapping[Class, Blame] = {
    "config": "user",
    "dependency-mismatch": "environment",
    "device-lost": "node",
    "disk-full": "node",
    "download": "environment",
    "driver": "node",
    "file-missing": "environment",
    "image": "environment",
    "import": "environment",
    "launcher": "user",
    "limits": "environment",
    "name-resolution": "environment",
    "no-device": "environment",
    "node-lost": "node",
    "permission": "environment",
    "port": "environment",
    "rdma": "environment",
    "rendezvous": "environment",
    "route": "environment",
    "scheduler": "user",
    "shared-memory": "environment",
    "time-limit": "scheduler",
}
"""Whom a remedy of a class means that names nobody; of the other classes the program."""
Restart = Literal["as it is", "elsewhere", "after a fix", "not decided"]
"""Whether starting the job again helps. as it is: nothing was wrong with it. elsewhere: on other nodes. after a fix:
it fails again until something is changed. not decided: that depends on what is not known."""
RESTARTS: tuple[Restart, ...] = get_args(Restart)
HangsBy = Literal["gone", "start", "disagreement", "elsewhere", "together"]
"""How a cause makes a job wait, in the order in which `hang` blames. gone: a rank is dead, stopped or missing, or its
GPU is. start: something keeps ranks from meeting, or from reaching each other. disagreement: ranks go to different
collectives. elsewhere: a rank does something else. together: all wait in one place, for what they have in common."""
HANGS_BY: tuple[HangsBy, ...] = get_args(HangsBy)
WhileRunning = Literal["never", "while nobody waits", "always"]


class Judged(Struct, frozen=True):
    """What a program is told of a fault."""

    kind: Class = "other"
    blame: Blame = "program"
    restart: Restart = "not decided"


class Cause(Struct, frozen=True, kw_only=True):
    """A kind of trouble. Its texts hold for every job."""

    id: str
    """A contract with whoever reads the JSON: never renamed, never reused."""
    title: str
    """What is wrong, as a short phrase: "a rank has died", "/dev/shm is too small"."""
    stages: tuple[Stage, ...]
    """Where it shows itself, first the first."""
    blame: Blame = "program"
    hangs_by: HangsBy
    while_running: WhileRunning = "never"
    """Whether it may be said of a job in which something moves. always: a fault that stands by itself, or a world that
    is smaller than wanted. while nobody waits: those that are left only sleep and look again, and cannot help."""
    slows: bool = False
    """A job that is held up by it gets on: it is slow, and does not hang."""
    may_pass: bool = False
    """What is seen of it is a wait that others can rightly wait for: before a job is called hung by it, further looks
    follow, for up to ten seconds."""
    explains: tuple[str, ...] = ()
    """Ids of causes that follow from it: beside it they are not said."""
    meaning: str
    """What happens because of it, as sentences."""
    like: tuple[str, ...] = ()
    """Ids of causes that it can be mistaken for."""
    fix: Fix
    """What to do, with lines to paste that need no value of the job."""
    variants: Mapping[str, str | Fix] = {}
    """The fix for what was seen, by a short name of that; texts may name values in braces. A text has the lines of
    `fix`, and the cause's own test; a Fix stands alone, with its lines or none."""
    meanings: Mapping[str, str] = {}
    """By the name of a variant: what happens because of it, where `meaning` is untrue of it; "": its fix says it. Of a
    variant that is a Fix nothing is said that does not stand here: a log's line shows no more than it says."""
    confirm: str
    """The test that decides, as sentences."""
    foreseen_by: tuple[str, ...] = ()
    """Ids of the checks that would have told before the start."""
    kind: Class = "other"
    """Its class; `class` in JSON."""
    restart: Restart = "not decided"
    judged: Mapping[str, Judged] = {}
    """By the name of a variant: where class, blame or restart differ for it."""
    symptoms: tuple[Symptom, ...] = ()
    """Lines of logs that tell of this cause; they need not name it. Those that belong together by their speaker, and
    tell of several causes, stand in `symptoms/`."""
    source: str

    def __post_init__(self) -> None:
        if not self.stages or not {*self.stages} <= {*STAGES} or self.hangs_by not in HANGS_BY:
            raise ValueError(f"cause {self.id}: stages are some of {STAGES}, hangs_by one of {HANGS_BY}")
        if self.kind not in CLASSES or self.blame not in BLAMES or self.restart not in RESTARTS:
            raise ValueError(f"cause {self.id}: class, blame and restart are of the lists in gpudoctor.cause")
        for symptom in self.symptoms:
            symptom.cause = self.id

    def judge(self, variant: str = "") -> Judged:
        """Class, blame and restart, of the cause or of a variant."""
        return self.judged.get(variant) or Judged(self.kind, self.blame, self.restart)

    def fix_for(self, variant: str = "") -> Fix:
        """The fix, or a variant of it, whose values are still in braces."""
        fix = self.variants[variant] if variant else self.fix
        return fix if isinstance(fix, Fix) else Fix(fix)

    def remedy(self, variant: str = "", *commands: Command, **values: object) -> Fix:
        """The fix, or a variant of it with this job's values; with `commands` before its own lines."""
        fix = self.fix_for(variant)
        text = fix.text.format_map(defaultdict(lambda: UNSAID, {"told": "", **values})) if values else fix.text
        own = (*commands, *fix.commands)
        return Fix(text, own or (() if self.stands_alone(variant) else self.fix.commands), otherwise=fix.otherwise)

    def stands_alone(self, variant: str) -> bool:
        """Of what was seen the cause's own lines and test are no more true than of anything else."""
        return isinstance(self.variants.get(variant), Fix) or variant in self.meanings

    def meant(self, variant: str) -> str:
        alone = isinstance(self.variants.get(variant), Fix)
        return self.meanings.get(variant, "" if alone else self.meaning)

    def test(self, variant: str) -> str:
        """That confirms what was seen."""
        return "" if self.stands_alone(variant) else self.confirm


__all__ = ["HINT", "LIKELY", "POSSIBLE", "PROVED", "SEEN", "Cause", "Fix", "Judged", "Symptom", "command"]
