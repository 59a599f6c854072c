"""Rules of the argument that a launcher puts in front of a program's own: V12."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.edits import insert_options
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import NAMES

_HYDRA = (
    "#@ file train.py\nimport hydra\n@hydra.main(config_path='conf', config_name='x')\ndef main(cfg):\n    fit(cfg)\n"
    "main()\n#@ every node\n"
)
_HF = (
    "#@ file train.py\nimport sys\nfrom transformers import HfArgumentParser\nparser = HfArgumentParser((A, B))\n"
    "if len(sys.argv) == 2 and sys.argv[1].endswith('.json'):\n    a, b = parser.parse_json_file(sys.argv[1])\n"
    "else:\n    a, b = parser.parse_args_into_dataclasses()\n#@ every node\n"
)
_LAUNCH = "python -m torch.distributed.launch {}--nproc_per_node=4 train.py "
_FIRST_IS_FILE = lazy_re(
    r"(?:len\(\s*sys\.argv\s*\)\s*==\s*2|sys\.argv\[1\]\s*\.endswith|sys\.argv\[-1\]\s*\.endswith|argv\[1\][^\n]*\.endswith)"
)


def _handed(launch: LintLaunch, job: LintJob) -> str:
    """The argument that each rank gets in front of its own; empty where there is none."""
    if launch.launcher == "deepspeed":
        return "" if launch.option("no-local-rank") is not None or launch.option("no-python") else "--local_rank=0"
    if launch.launcher != "torch.distributed.launch" or launch.option("use-env") is not None:
        return ""
    version = job.facts.version("torch")
    return "--local-rank=0" if version is not None and version >= (2, 0) else "--local_rank=0"


@rule(
    "V12",
    title="A program takes the local rank that its launcher puts in front of its arguments",
    source="deepspeed 0.19, launcher/launch.py; torch/distributed/launch.py; hydra 1.3, _internal/utils.py: overrides"
    " are key=value; transformers' HfArgumentParser in its examples; LLaMA-Factory 0.9.5, hparams/parser.py",
    leads_to=("program-error",),
    bad=(
        _HYDRA + _LAUNCH.format("") + "experiment=big\n",
        _HYDRA + "deepspeed --num_gpus 4 train.py model.size=2\n",
        _HF + "deepspeed --num_gpus 4 train.py sft.json\n",
        "cd LLaMA-Factory\ndeepspeed --num_gpus 4 src/train.py examples/sft.yaml\n",
    ),
    good=(
        _HYDRA + _LAUNCH.format("--use_env ") + "experiment=big\n",
        _HYDRA + "deepspeed --no_local_rank --num_gpus 4 train.py model.size=2\n",
        _HF + "deepspeed --num_gpus 4 train.py --output_dir out\n",
        _HF + "torchrun --standalone --nproc_per_node=4 train.py sft.json\n",
    ),
)
def handed_what_it_does_not_take(job: LintJob) -> Iterator[LintFinding]:
    """deepspeed and torch.distributed.launch hand each rank --local_rank=N as its first argument. hydra takes
    key=value alone, and a program that looks whether its only argument is a file finds two."""
    for launch in job.launches:
        handed = _handed(launch, job)
        program = program_of(job, launch) if handed else None
        if not handed:
            continue
        script = launch.script.shown if launch.script is not None else ""
        words = launch.script_words
        lone = len(words) == 1 and NAMES.search(words[0].shown) is not None
        if program is not None and re.search(r"@hydra\.main|\bhydra\.main\(", program.text):
            if re.search(r"sys\.argv|local.rank", program.text.replace("LOCAL_RANK", "")):
                continue
            why, wanted = "hydra takes key=value and options of its own", "unrecognized arguments"
        elif program is not None and lone and _FIRST_IS_FILE.search(program.text):
            why, wanted = f"the program looks for {words[0].shown} as its first or only argument", "missing arguments"
        elif program is None and lone and re.search(r"llama-?_?factory", job.text, re.IGNORECASE):
            if not script.endswith("train.py"):
                continue
            why = f"LLaMA-Factory reads {words[0].shown} only as the first argument"
            wanted = "Some specified arguments are not used by the HfArgumentParser"
        else:
            continue
        name = "--no_local_rank" if launch.launcher == "deepspeed" else "--use_env"
        yield LintFinding(
            span=launch.script.span if launch.script is not None else look.head_span(launch),
            summary=f"{launch.launcher} puts {handed} in front of the program's arguments, and {why}",
            happens=f"Every rank ends while it reads its arguments: {wanted}.",
            fix=f"Add {name} before the script; or start it by torchrun, which hands LOCAL_RANK over in the"
            " environment.",
            edits=insert_options(launch, name),
        )
