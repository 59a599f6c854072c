"""What a text says, as the rules see it.

Positions are character offsets into the whole text that was given, and line numbers from 1. A value that cannot be
known from the text (a variable that nothing sets, the output of a command) is None, never a guess.
"""

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

Where = Literal["node", "batch", "task"]
"""Which shell expands a word: on the node that the section is for; in the batch script, on the first node only; in
each task that srun or mpirun starts (inside `bash -c '...'`)."""


class Span(Struct, frozen=True):
    """A stretch of the text."""

    start: int
    end: int
    line: int
    exact: bool = True
    """False: what is read is not what stands there (a quoted YAML string with escapes): no edit goes there."""


class Expansion(Struct, frozen=True):
    """One `$...` in a word. `name` is the variable ("SLURM_PROCID"), "" for a command substitution or arithmetic."""

    name: str
    raw: str
    """As written: "$master_ip", "${X:-localhost}", "$(hostname -I)", "$((1024 + RANDOM))"."""
    value: str | None
    """What it gives, when the text tells."""
    is_set: bool | None = None
    """Whether the text, the platform (SLURM_*, PET_*, ...) or --env sets the variable; None: cannot be told."""
    default: str | None = None
    """Of `${X:-default}`, `${X:=default}`, `X || echo default`."""
    where: Where = "node"
    span: Span | None = None


class Word(Struct, frozen=True):
    """One word of a command."""

    raw: str
    """As written, with its quotes."""
    text: str | None
    """As the program gets it; None when a part is unknown."""
    shown: str
    """As the program gets it, unknown parts as written: for messages and for looking into."""
    span: Span
    expansions: tuple[Expansion, ...] = ()
    quoted: bool = False
    """Any part of it was in quotes."""
    literal_dollar: bool = False
    r"""It hands a `$` on that nobody expands any more (`'$X'` or `\$X` given to a program that is no shell)."""


class SetVariable(Struct, frozen=True):
    """A variable in the environment of a command, and where it was set."""

    name: str
    word: Word
    exported: bool
    """False: `X=1` alone on a line, not exported: the command does not get it."""
    how: Literal["prefix", "export", "assignment", "env", "sbatch", "launcher", "file", "manifest"] = "prefix"


class Invocation(Struct, frozen=True, kw_only=True):
    """A command as it would be run."""

    program: str
    """The last part of its name: "torchrun", "srun", "python3.11"."""
    words: tuple[Word, ...]
    """All of it, program first, without assignments in front."""
    settings: dict[str, SetVariable] = field(default_factory=dict)
    """Variables in effect: prefixed, exported before, of `env X=1`. Not exported ones are among them, and marked."""
    where: Where = "node"
    section: int = 0
    span: Span
    background: bool = False
    waited_for: bool = True
    """False: in the background, and no `wait` follows."""
    in_loop: str = ""
    """The variable of the `for` around it ("i"), "while" for others; empty outside loops."""
    conditional: bool = False
    """Inside an `if`, `case`, `&&`/`||` or function that may not run."""
    reached: bool = True
    """False: the script has ended before, by `exit` or `exec`."""
    node_guard: int | None = None
    """Inside an `if` that only one node rank takes (`[ "$NODE_RANK" = 0 ]`): that rank."""
    manifest_path: tuple[str, ...] = ()
    """Of a container's command: where the container stands, ("spec", ..., "containers", "0"); else empty."""
    within: "tuple[Invocation, ...]" = ()
    """The programs that start it, outermost first: srun, mpirun, sudo, env, nohup, numactl, timeout, bash -c."""


class Option(Struct, frozen=True):
    """An option of a launcher, under its canonical name (hyphens, without the dashes: "nproc-per-node")."""

    name: str
    written: str
    """ "--nproc_per_node", "-np", "--nnode" (a unique prefix)."""
    value: Word | None
    """None for a flag."""
    span: Span
    known: bool = True
    since: str = ""
    """Since when the launcher takes this spelling: "torch 2.0" for "--master-addr"; empty: always."""
    until: str = ""
    """The first release without it: "accelerate 1.13"; empty: none."""
    fault: str = ""
    """ "needs a value", "takes no value", "may mean --nproc-per-node or --nproc_per_node"; empty when well formed."""


class LintLaunch(Struct, frozen=True, kw_only=True):
    """A start of training, understood."""

    launcher: str
    """As a launcher's file has it (`launcher.traits.Form`). "srun" and "mpirun": the program they start is the training
    itself; "python": nothing starts several."""
    invocation: Invocation
    options: dict[str, Option] = field(default_factory=dict)
    """The last one of each name, as argparse takes it. Options of the launcher only."""
    every_option: tuple[Option, ...] = ()
    """All of them, in order, unknown ones too."""
    script: Word | None = None
    script_words: tuple[Word, ...] = ()
    """The script's own arguments."""
    module: bool = False
    """Started with -m (or --module)."""
    around: "tuple[LintLaunch, ...]" = ()
    """srun, mpirun around it, outermost first, each with its options."""
    python_options: tuple[Word, ...] = ()
    environment: dict[str, Option] = field(default_factory=dict)
    """PET_* variables that count as options of torchrun, under the option's name."""
    entry: str = ""
    """What starts the launcher: "torchrun", "torch.distributed.run", "torch.distributed.elastic_launch"."""
    unread: tuple[Word, ...] = ()
    """Words that may hold more options (`$DISTRIBUTED_ARGS` of unknown value): then a missing option is not known to
    be missing."""

    @property
    def program_file(self) -> str:
        """The last name of the file: "train.py" of `src/train.py` and of `-m src.train`; "" where there is none."""
        if self.script is None:
            return ""
        return f"{self.script.shown.rpartition('.')[2]}.py" if self.module else self.script.shown.rpartition("/")[2]

    def option(self, *names: str) -> Option | None:
        """The last option of these canonical names, from the command line or PET_*."""
        for name in names:
            given = self.options.get(name) or self.environment.get(name)
            if given is not None:
                return given
        return None

    def text(self, *names: str) -> str | None:
        """The option's value where it is known; None when it is absent or unknown (ask `option` which)."""
        option = self.option(*names)
        return option.value.text if option is not None and option.value is not None else None


class TextSection(Struct, frozen=True):
    """A part of the text, after `#@ node 0`, `#@ every node`, `#@ job 1, same host`, `#@ file NAME`; or all of it."""

    kind: Literal["node", "every", "job", "file"]
    node: int | None = None
    name: str = ""
    job: int | None = None
    text: str = ""
    start: int = 0
    """Offset of `text` in the whole."""
    line: int = 1
    is_part: bool = False
    """Of a file that a text puts together by several commands: the rest stands elsewhere."""

    def span(self, start: int, end: int) -> Span:
        """A stretch of it, where it stands in the whole."""
        return Span(self.start + start, self.start + end, self.line + self.text.count("\n", 0, start))


def file_named(sections: Iterable[TextSection], path: str) -> TextSection | None:
    """The file of this path's last name, wherever it lies."""
    name = path.rpartition("/")[2]
    files = (each for each in sections if each.kind == "file")
    return next((each for each in files if each.name.rpartition("/")[2] == name), None) if name else None


class SbatchOption(Struct, frozen=True):
    """A `#SBATCH` line's option, or one that sbatch/salloc/srun had on the command line."""

    name: str
    """Long, with hyphens: "ntasks-per-node" for -n too where it is one."""
    value: str | None
    span: Span
    ignored: str = ""
    """Why SLURM does not read it: "after the first command", "lower case"; empty when it does."""
    known: bool = True
    """False: no option of sbatch (one of a site's plugin may be)."""
    written: str = ""
    """As written, without its value: "--ntasks_per_node", "-N"."""
    fault: str = ""
    """ "needs a value", "takes no value"; "no option" of a word that stands between the options; empty: none."""
    components: tuple[str | None, ...] = ()
    """Of a heterogeneous job whose parts say it differently: what each says, None where it does not."""


class HostLine(Struct, frozen=True):
    """A line of a hostfile."""

    name: str
    slots: int | None
    span: Span
    fault: str = ""
    """What is wrong with it; empty when nothing is."""


class Hostfile(Struct, frozen=True):
    name: str
    lines: tuple[HostLine, ...]


class ManifestValue(Struct, frozen=True):
    """A scalar of a YAML manifest with its path: ("spec", "pytorchReplicaSpecs", "Worker", "replicas")."""

    path: tuple[str, ...]
    value: str
    span: Span


class Manifest(Struct, frozen=True):
    """One YAML document."""

    kind: str
    api_version: str
    values: tuple[ManifestValue, ...]
    fault: str = ""
    empty: tuple[tuple[str, ...], ...] = ()
    """Where `{}` and `[]` stand."""
    twice: tuple[ManifestValue, ...] = ()
    """The first scalar of each key that its mapping has already."""


class TrainerCall(Struct, frozen=True):
    """`Trainer(...)` or `Fabric(...)`, found in a `#@ file x.py`, in a context line, or pasted as code."""

    arguments: dict[str, str]
    """As Python source: {"gpus": "4", "strategy": '"ddp"'}."""
    spans: dict[str, Span]
    span: Span
    name: str = "Trainer"
    hides: bool = False
    """`*` or `**` may bring more arguments than are known."""


class LintFacts(Struct, frozen=True):
    """What is known besides the text: --facts, the installed packages, the snapshot. None: not known."""

    nodes: int | None = None
    gpus_per_node: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    """ "torch", "lightning", "accelerate", "deepspeed", "slurm": as given, maybe short ("2.4")."""
    variables: dict[str, str] = field(default_factory=dict)
    """--env FILE: set before the text runs."""
    given: tuple[str, ...] = ()
    """The names that the user gave, not this machine."""
    seat: dict[str, str] = field(default_factory=dict)
    """Of one node (`nodes`): its own HOSTNAME, SLURM_NODEID and the like, which no batch script has."""
    chosen: dict[str, str] = field(default_factory=dict)
    """What variables of a `case` are taken to be where nothing tells (`alternatives`)."""

    def version(self, name: str) -> tuple[int, ...] | None:
        """(2, 4, 1) for "2.4.1", (2, 4) for "2.4"; None when it is not known."""
        match = re.match(r"\d{1,9}(?:\.\d{1,9})*", self.versions.get(name, ""), re.ASCII)
        return tuple(int(number) for number in match[0].split(".")) if match else None


MODULES_START = 1 << 40
MODULES_LINE = 10_000_000
"""Places from here on are of no character of a job's text, but of modules that its programs import."""


class LinkedModule(Struct, frozen=True):
    """A file that a program imports, and that is none of the job's own."""

    file: str
    text: str
    written: str
    """Of the same length, without what it imports of such files."""
    through: Span
    """The import in the program that leads to it: a place in the program's own text."""
    start: int = MODULES_START
    line: int = MODULES_LINE
    """What its first character and line are called among the places of the job."""


class LinkedProgram(Struct, frozen=True):
    """A program that imports files of its own folders (`gpudoctor.lint.linking`)."""

    text: str
    """As it stands in the job."""
    own: str
    """Of the same length, without these imports."""
    modules: tuple[LinkedModule, ...]
    """In the order in which their statements run."""


class LintJob(Struct, frozen=True, kw_only=True):
    """Everything that a text says."""

    text: str
    kind: Literal["shell", "sbatch", "manifest", "hostfile", "python"]
    sections: tuple[TextSection, ...]
    invocations: tuple[Invocation, ...] = ()
    launches: tuple[LintLaunch, ...] = ()
    sbatch: dict[str, SbatchOption] = field(default_factory=dict)
    """Options in force, by name."""
    every_sbatch: tuple[SbatchOption, ...] = ()
    """All, ignored ones too."""
    hostfiles: tuple[Hostfile, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    trainers: tuple[TrainerCall, ...] = ()
    facts: LintFacts = LintFacts()
    notes: tuple[str, ...] = ()
    """What could not be understood, with the line: becomes `unknown` in the answer."""
    has_unread_source: bool = False
    """A shell sources a file that is not here: it may set anything."""
    linked: tuple[LinkedProgram, ...] = ()

    @property
    def is_batch(self) -> bool:
        """A batch script: its shell runs on the first node only."""
        return self.kind == "sbatch"

    @property
    def node_sections(self) -> tuple[TextSection, ...]:
        return tuple(section for section in self.sections if section.kind == "node")

    @property
    def modules(self) -> tuple[LinkedModule, ...]:
        """Of all its programs, where they stand in no section of the text; one that several import is one."""
        modules = (module for program in self.linked for module in program.modules)
        return tuple({module.start: module for module in modules if module.start >= MODULES_START}.values())

    def of_section(self, index: int) -> tuple[LintLaunch, ...]:
        return tuple(launch for launch in self.launches if launch.invocation.section == index)
