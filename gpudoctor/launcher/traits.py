"""What a launcher's file is written against: `LAUNCHER = LauncherTraits(...)`, a `Form` for each way to call it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.told import ToldStart
from gpudoctor.lint.model import Invocation, LintLaunch, Option, SetVariable

if TYPE_CHECKING:
    from gpudoctor.launch.plan import Emission, LaunchPlan


class Form(Struct, frozen=True, kw_only=True):
    """A way to call a launcher: its name in `Launch.launcher`, by which programs and modules, and what it reads."""

    launcher: str
    programs: tuple[str, ...] = ()
    """With the subcommands that must follow: "torchrun", "accelerate launch"."""
    modules: tuple[str, ...] = ()
    """Of `python -m`."""
    grammar: Grammar = Grammar("")
    takes_command: bool = False
    """It is given a whole command (`python train.py`), not a script or `-m` and a module."""
    all_known: bool = False
    """The table has every option, so that another one is a mistake."""
    newest: str = ""
    """The release up to which it has: "torch 2.14"."""
    environment: Callable[[Mapping[str, SetVariable]], dict[str, Option]] | None = None
    """Variables that count as options."""
    read: "Callable[[Form, Invocation, int], LintLaunch | None] | None" = None
    """Instead of options and a script or command: from the form, what was called, and where its words go on."""


class ManifestKind(Struct, frozen=True, kw_only=True):
    """A kind of Kubernetes manifest, or of a task's YAML file, that starts ranks. Paths have dots."""

    kind: str
    looks: tuple[str, ...] = ()
    """Of files without `kind:`: patterns that all must be found at the beginning of lines."""
    pods: tuple[str, ...] = ()
    """Numbers whose sum is that of the pods."""
    ranks: str = ""
    """Ranks in each pod, which the operator hands torchrun."""
    script: str = ""
    """Shell lines: one value, or a list; "*": every value whose key says that it is a command."""
    variables: str = ""
    """A mapping of what is set for `script`."""
    nodes: str = ""
    """The number of nodes, on each of which the command runs; one where it is not told."""
    gpus: Callable[[Mapping[str, str]], int | None] | None = None
    """GPUs of each node, by the values under their paths."""
    sets: Mapping[str, Literal["nodes", "gpus", "all gpus"]] = {}
    """Variables by which it hands these numbers to the command."""


class LauncherTraits(Struct, frozen=True, kw_only=True):
    """A launcher. Texts of the traits stand in messages."""

    name: str
    """As `gpudoctor launch --framework` takes it; the file's name."""
    forms: tuple[Form, ...] = ()
    manifests: tuple[ManifestKind, ...] = ()

    # --- who starts what
    bare: bool = False
    """What it starts is a rank itself, which reads its environment: python, srun, mpirun."""
    a_node: bool = False
    """One command on each node starts that node's ranks, and they meet as their options say."""
    fans_out: bool = False
    """One command reaches the other nodes by itself."""
    reads_master: bool = False
    """Its ranks read MASTER_ADDR, MASTER_PORT and NODE_RANK as they stand in the environment."""
    sets_ranks: bool = False
    """It sets RANK, LOCAL_RANK and WORLD_SIZE for each rank, whatever they were."""
    serves: bool = False
    """Its ranks answer requests: of a text that trains too, the training is looked at."""
    trains: str = ""
    """What trains under it, where nothing else shows it: "torch", "lightning"."""

    # --- what its options say
    own_names: Mapping[str, str] = {}
    """torchrun's name of an option -> its own."""
    underscores: bool = False
    """Options are written with underscores, whatever the text has."""
    ranks_option: str = ""
    """The option with the number of ranks on a node."""
    ranks_default: int | None = None
    total_option: str = ""
    """The option with the number of all ranks."""
    counts: Callable[[LintLaunch], tuple[int | None, int | None]] | None = None
    """Nodes, and ranks on each, where one option says both."""
    gpus_at: Callable[[str, int], int | None] | None = None
    """Of a service whose jobs are functions of a program: the GPUs of the one around a place of its text."""
    decisive: tuple[str, ...] = ()
    """Options whose value decides whether the ranks meet."""
    unmistakable: tuple[str, ...] = ()
    """Options that no script has for itself: behind the script they are misplaced."""
    ambiguous: tuple[str, ...] = ()
    """Options that some scripts have too."""

    # --- a job that runs (hang), and what is kept of a command line of somebody else's
    runs_as: str = ""
    """The kind of its process in a job: "torchrun", "accelerate", "deepspeed", "srun", "mpirun"; "": it is not looked
    for, for no rank descends from it."""
    told: Callable[[LintLaunch], ToldStart] | None = None
    """What its command line says of the rendezvous; None: that is not compared between nodes."""
    more_modules: tuple[str, ...] = ()
    """Modules of its processes that nobody types."""
    process_names: tuple[str, ...] = ()
    """What its processes call themselves besides their programs."""
    kept_numbers: str = ""
    """Options, divided by blanks, of which a plain value is kept."""
    kept_hosts: str = ""
    kept_ids: str = ""

    # --- its output (explain)
    line_prefixes: tuple[str, ...] = ()
    """Patterns of what it puts before a rank's line, with groups: rank; local (the local rank) and role; host."""
    log_file: str = ""
    """A pattern of where it keeps a rank's output, with the group local."""

    # --- versions
    package: str = ""
    """The distribution whose version decides, as a plan names it; torch's where it is empty."""
    other_packages: tuple[str, ...] = ()
    """More names of the same, and others that rules ask for."""

    # --- written by `gpudoctor launch`
    write: "Callable[[LaunchPlan], Emission] | None" = None
    """None: it is only read."""
    bandwidth_test: Callable[[int, int | None, Sequence[str]], str] | None = None
    """A file that runs `gpudoctor nccl-test` under it: from nodes, ranks on each (None: not said) and more options."""
    not_in_a_test: tuple[str, ...] = ()
    """Options of nccl-test that it could not keep to."""
    fixed: str = ""
    """Why nodes cannot come and go: "MPI's world is fixed"; "": they can."""
    even: str = ""
    """Who starts the same number of ranks on every node; "": each may have its own."""
    scheduler: Literal["", "slurm", "kubernetes", "cloud"] = ""
    """Who chooses the nodes; "": whoever starts it."""
    in_this_shell: bool = True
    """The emitted command takes what an earlier job has left in this shell out."""
    a_chip: bool = False
    """It starts a rank a chip by itself, and is told no number of them."""
    any_strategy: bool = False
    """`write` itself answers every --strategy and --precision."""
    precisions: Mapping[str, str] = {}
    """Where a precision is said that no command says, if not in the script as `torch.autocast`."""

    @property
    def programs(self) -> tuple[str, ...]:
        """First words of its forms."""
        return tuple(dict.fromkeys(name.partition(" ")[0] for form in self.forms for name in form.programs))
