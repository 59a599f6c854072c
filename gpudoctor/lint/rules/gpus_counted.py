"""A rule of GPUs that are counted by what does not see what hides them: G21."""

import re
from collections.abc import Iterator

from gpudoctor.lint import look, processes
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import Example, LintFinding, rule

_COUNTS = ("nproc-per-node", "num-gpus", "num-processes", "np")
_ONE = "N=$(nvidia-smi -L | wc -l)\ntorchrun --standalone --nproc-per-node=$N train.py\n"


@rule(
    "G21",
    title="GPUs are counted by what heeds CUDA_VISIBLE_DEVICES",
    severity="warning",
    source="nvidia-smi(1): it lists the driver's GPUs; CUDA's guide: CUDA_VISIBLE_DEVICES is the runtime's; tried",
    bad=(
        "export CUDA_VISIBLE_DEVICES=2,3\n" + _ONE,
        Example(
            "CUDA_VISIBLE_DEVICES=0 torchrun --nproc-per-node=$(nvidia-smi -L | wc -l) train.py\n", "gpus_per_node=4"
        ),
    ),
    good=(
        _ONE,
        Example("export CUDA_VISIBLE_DEVICES=0,1\n" + _ONE, "gpus_per_node=2"),
        "export CUDA_VISIBLE_DEVICES=2,3\ntorchrun --standalone --nproc-per-node=gpu train.py\n",
    ),
)
def counted_past_the_mask(job: LintJob) -> Iterator[LintFinding]:
    """nvidia-smi lists all GPUs of the machine, whatever CUDA_VISIBLE_DEVICES leaves visible to the ranks."""
    for launch in job.launches[: look.SIBLINGS]:
        shown, own = processes.shown_gpus(launch), job.facts.gpus_per_node
        for name in _COUNTS if shown is not None and shown.count and (own is None or own > shown.count) else ():
            option = launch.option(name)
            word = option.value if option is not None else None
            origins = look.origins(word, launch.invocation) if word is not None and word.text is None else ()
            by_driver = next((each for each in origins if re.search(r"nvidia-smi\b(?!.* -i\b)", each.raw)), None)
            if option is not None and by_driver is not None and shown is not None:
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} is counted by nvidia-smi, which lists all GPUs; CUDA_VISIBLE_DEVICES has"
                    f" {shown.count} ({shown.value})",
                    happens="More ranks than visible GPUs are started: CUDA error: invalid device ordinal.",
                    fix=f"Write {shown.count}, or count the entries of CUDA_VISIBLE_DEVICES.",
                )
