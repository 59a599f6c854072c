"""TPUs: PyTorch/XLA finds the other workers by itself; no rank or master is set by hand.

`gcloud compute tpus tpu-vm ssh NAME --worker=all --command=...` (gcloud's reference), and before
torch_xla.distributed.xla_dist of torch_xla 1.13, which went with XRT in 2.1 (2023; PyTorch/XLA, "Running on TPU").
"""

import re
import shlex

from gpudoctor.knowledge.superseded import parsed
from gpudoctor.launch.parts import elsewhere
from gpudoctor.launch.plan import Emission, EnvVariable, LaunchPlan, PasteBlock
from gpudoctor.launch.words import comment, line, prefixed
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.programs import is_python, is_script
from gpudoctor.launcher.traits import Form, LauncherTraits
from gpudoctor.launcher.understand import with_command
from gpudoctor.lint.model import Invocation, LintLaunch, Span, Word

GCLOUD = Grammar("""
    command= worker= zone= project= node= batch-size= internal-ip tunnel-through-iap force-key-file-overwrite plain
    strict-host-key-checking= ssh-flag= ssh-key-file= ssh-key-expire-after= ssh-key-expiration= dry-run
    output-directory= account= quiet,-q verbosity=
""")
XLA_DIST = Grammar(
    "tpu= vm= docker-container= docker-image= docker-run-flag= conda-env= env= restart-tpuvm-pod "
    "restart-tpuvm-pod-server help,-h"
)

LAUNCH_SINCE = (2, 5)
NAME, ZONE = "TPU_NAME", "TPU_ZONE"
BODY = """\
def train(index):
    device = xm.xla_device()
    rank, world_size = {rank}, {world_size}
    # model.to(device); DistributedSampler(data, num_replicas=world_size, rank=rank);
    # xm.optimizer_step(optimizer) in place of optimizer.step()


if __name__ == "__main__":
    {start}
"""


def write(plan: LaunchPlan) -> Emission:
    """Lines for the machine that has gcloud, and the start of the script. Raises `CannotEmit`."""
    kept = tuple(
        variable for variable in plan.environment if not variable.name.startswith(("NCCL_", "GLOO_", "CUDA_", "OMP_"))
    )
    remote = prefixed((EnvVariable("PJRT_DEVICE", "TPU"), *kept), [elsewhere(plan.python), *plan.program])
    gcloud = ["gcloud", "compute", "tpus", "tpu-vm"]
    copy = [*gcloud, "scp", "--recurse", ".", f"{NAME}:", f"--zone={ZONE}", "--worker=all"]
    start = [*gcloud, "ssh", NAME, f"--zone={ZONE}", "--worker=all", f"--command={remote}"]
    lines = [
        comment(f"{NAME} and {ZONE} are those of your TPU: gcloud compute tpus tpu-vm list --zone=-"),
        comment("First the files: every worker runs its own copy of them."),
        line(copy),
        comment("Then the start, on all workers at once: a worker that is left out keeps the others waiting."),
        line(start),
    ]
    return Emission(
        blocks=(PasteBlock("where gcloud is set up, once", "\n".join(lines) + "\n", 0),),
        code=_code(plan),
        notes=(
            "A TPU has no MASTER_ADDR, RANK or number of processes to be set: PJRT takes them from the machine, one "
            "process a chip, on as many workers as the TPU has.",
            "torch_xla.distributed.xla_dist and XRT_TPU_CONFIG, which tutorials use, were removed in torch_xla 2.1; "
            "this is what replaced them.",
        ),
    )


def _code(plan: LaunchPlan) -> str:
    version = parsed(plan.versions.get("torch_xla") or plan.versions.get("torch-xla") or "")
    if version is None or version >= LAUNCH_SINCE:
        body = BODY.format(
            rank="xr.global_ordinal()", world_size="xr.world_size()", start="torch_xla.launch(train, args=())"
        )
        return "import torch_xla\nimport torch_xla.core.xla_model as xm\nimport torch_xla.runtime as xr\n\n\n" + body
    body = BODY.format(
        rank="xm.get_ordinal()",
        world_size="xm.xrt_world_size()",
        start="xmp.spawn(train, args=(), nprocs=None)  # None: all chips of the worker",
    )
    imports = "import torch_xla.core.xla_model as xm\nimport torch_xla.distributed.xla_multiprocessing as xmp\n\n\n"
    return imports + body


def read(form: Form, invocation: Invocation, start: int) -> LintLaunch | None:
    """What `--command` holds starts on every worker."""
    words = invocation.words
    read = GCLOUD.read(words, start + int(start < len(words) and not words[start].shown.startswith("-")))
    command = read.last.get("command")
    if command is None or command.value is None:
        return None
    launch = LintLaunch(launcher=form.launcher, invocation=invocation, options=read.last, every_option=read.options,
                    entry="gcloud compute tpus tpu-vm ssh")  # fmt: skip
    inside = [piece for piece in _pieces(command.value) if not re.match(r"\w+=", piece.shown)]
    while inside and not (is_python(inside[0]) or is_script(inside[0])):
        inside.pop(0)  # cd, &&, source, nohup: what comes before the program
    return with_command(launch, tuple(inside)) if inside else None


def _pieces(word: Word) -> list[Word]:
    """The words inside a quoted command; spans are exact where its quotes hold nothing special."""
    begin = word.raw.find(word.shown)
    pieces = []
    for match in re.finditer(r"(?:'[^']*'|\"[^\"]*\"|[^\s;&|])+", word.shown):
        start = word.span.start + max(begin, 0) + match.start()
        span = Span(start, start + len(match[0]), word.span.line, word.span.exact and begin >= 0)
        if begin < 0:
            span = Span(word.span.start, word.span.end, word.span.line, False)
        try:
            (shown,) = shlex.split(match[0])
        except ValueError:  # a quote that nothing closes
            shown = match[0]
        text = shown if word.text is not None else None
        pieces.append(Word(raw=match[0], text=text, shown=shown, span=span, quoted=shown != match[0]))
    return pieces


LAUNCHER = LauncherTraits(
    name="xla",
    forms=(
        Form(
            launcher="xla",
            programs=(
                *("gcloud compute tpus tpu-vm ssh", "gcloud alpha compute tpus tpu-vm ssh"),
                "gcloud beta compute tpus tpu-vm ssh",
            ),
            read=read,
        ),
        Form(
            launcher="xla",
            modules=("torch_xla.distributed.xla_dist",),
            grammar=XLA_DIST,
            takes_command=True,
        ),
    ),
    fans_out=True,
    trains="torch_xla",
    package="torch_xla",
    write=write,
    fixed="PyTorch/XLA is emitted for a fixed set of nodes",
    scheduler="cloud",
    in_this_shell=False,
    a_chip=True,
    precisions={
        "bf16": 'the script: torch.autocast("xla", dtype=torch.bfloat16)',
        "fp16": 'the script: torch.autocast("xla", dtype=torch.float16)',
    },
)
