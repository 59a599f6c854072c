"""Rules of options and their values: V01 to V06."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.misspelt import nearest
from gpudoctor.knowledge.platform_names import meant_by
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.assignments import span_of
from gpudoctor.lint.edits import remove
from gpudoctor.lint.known_up_to import KnownUpTo, held_against
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch, Option, Span, Word, file_named
from gpudoctor.lint.other_options import is_of_another
from gpudoctor.lint.pods import is_template
from gpudoctor.lint.program_arguments import is_parsing
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.shell.source import FILLED_LATER

_GOOD = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234 train.py\n"
_UNDER = (
    _GOOD.replace("nproc-per-node", "nproc_per_node").replace("node-rank", "node_rank").replace("master-", "master_")
)
_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={}4\n"
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
    "srun --kill-on-bad-exit=1 bash -c 'torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --nproc-per-node={}"
    " --master-addr=$MASTER_ADDR --master-port=61234 train.py'\n"
)
_ADDS_ONLY = "def more(parser):\n    parser.add_argument('--task')\n    return parser\nbegin(more)\n"
_LAUNCH = "python -m torch.distributed.launch --nproc_per_node=4 {}train.py\n"
_PLATFORM = (
    *("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS"),
    *("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"),
    *("SLURM_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE", "SLURM_JOBID", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"),
    *("WORLD_SIZE", "LOCAL_RANK", "RANK", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_IPS"),
    *("SKYPILOT_NUM_GPUS_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "JOB_COMPLETION_INDEX", "HOSTNAME"),
)
"""Names that people mean when they write nearly the same."""
_NUMBERS = {
    "nnodes": r"[0-9]+(?::[0-9]+)?",
    "nproc-per-node": r"[0-9]+|gpu|cpu|auto|xpu|npu|hpu|mlu|musa|gcu",  # the last: names of PrivateUse1
    "node-rank": r"[0-9]+",
    "max-restarts": r"[0-9]+",
    "num-machines": r"[0-9]+",
    "num-processes": r"[0-9]+",
    "machine-rank": r"[0-9]+",
    "num-nodes": r"-?[0-9]+",
    "num-gpus": r"-?[0-9]+",
    "np": r"[0-9]+",
}
"""Options that take a number, and what they take besides."""


_FILLS = ("pdsh", "parallel", "xargs")
_FILLED = lazy_re(r"%[nhu]|\{[#%]?\}")


@rule(
    "V01",
    title="Variables in options are set under the very name that is used",
    source="measured with torch 2.13; threads",
    bad=(
        "MASTER_ADR=10.20.0.11\n" + _GOOD.replace("10.20.0.11", "$MASTER_ADDRS"),
        "NPROC_PER_NODE=4\n" + _GOOD.replace("node=4", "node=$NPROC_PER_NODES"),
        "gpus=4\n" + _GOOD.replace("node=4", "node=$GPUS"),
        _BATCH.format("", "4").replace("$MASTER_ADDR -", "$MASTER_ADDRS -"),
    ),
    good=(
        "NPROC_PER_NODE=4\n" + _GOOD.replace("node=4", "node=$NPROC_PER_NODE"),
        _BATCH.format("", "4"),
        _GOOD.replace("rank=0", "rank=$1"),
    ),
)
def variable_nothing_sets(job: LintJob) -> Iterator[LintFinding]:
    """A variable that nothing sets is empty text: the option gets no value, or swallows the next word. A name that is
    nearly one that is set is a typing error."""
    for launch in job.launches:
        known = [*launch.invocation.settings, *_PLATFORM]
        for option in launch.every_option:
            for expansion in option.value.expansions if option.value is not None else ():
                unset = expansion.is_set is False and not meant_by(expansion.name)  # S36, E20
                if not expansion.name or not unset or expansion.default is not None or expansion.name in known:
                    continue
                same = (name for name in launch.invocation.settings if name.lower() == expansion.name.lower())
                meant = nearest(expansion.name, known) or next(same, "")
                told = launch.invocation.settings.get(meant)
                if not meant or (told is not None and expansion.name in {each.name for each in told.word.expansions}):
                    continue  # `gpus=$1` of a function that is called with $GPUS: the one has what the other has
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} uses ${expansion.name}, which nothing sets;"
                    f" {meant} is nearly the same name",
                    happens=f"${expansion.name} is empty: {option.written} gets no value, which is an error,"
                    " or it takes the next word for its value.",
                    fix=f"Write ${meant}, if that is meant; `set -u` in front of the script shows such names.",
                    edits=_renamed(job, expansion, meant),
                )


def _renamed(job: LintJob, expansion: Expansion, meant: str) -> tuple[Edit, ...]:
    span, names = expansion.span, (f"${expansion.name}", f"${{{expansion.name}}}")
    if span is None or not span.exact or (written := job.text[span.start : span.end]) not in names:
        return ()
    return (Edit(span, written.replace(expansion.name, meant)),)


@rule(
    "V02",
    title="Counts and ranks are numbers",
    source="measured with torch 2.13; sockeye#1038; sbatch(1): SLURM_TASKS_PER_NODE is written 4(x2)",
    bad=(
        _GOOD.replace("node=4", "node=h100:4"),
        _GOOD.replace("node=4", '"node=4(x2)"').replace('--nproc-per-"', '"--nproc-per-'),
        _BATCH.format("h100:", "$SLURM_GPUS_PER_NODE"),
        _BATCH.format("", "$SLURM_TASKS_PER_NODE"),
        "torchrun --nnodes --nproc-per-node=4 train.py\n",
    ),
    good=(
        _GOOD,
        _GOOD.replace("node=4", "node=gpu"),
        _BATCH.format("h100:", "$SLURM_GPUS_ON_NODE"),
        _GOOD.replace("nnodes=2", "nnodes=1:2 --rdzv-backend=c10d --rdzv-endpoint=n01:29400").replace(
            " --node-rank=0 --master-addr=10.20.0.11 --master-port=61234", ""
        ),
    ),
)
def not_a_number(job: LintJob) -> Iterator[LintFinding]:
    """SLURM writes some counts in its own way: SLURM_GPUS_PER_NODE may be h100:4, SLURM_TASKS_PER_NODE is 4(x2) on two
    nodes. A launcher that is due a number ends."""
    for launch in job.launches:
        for option in launch.every_option:
            if option.known and option.fault == "needs a value":
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} has no value",
                    happens=f"The launcher ends with: argument {option.written}: expected one argument.",
                    fix=f"Write {option.written} with its value, or leave it out.",
                )
            pattern = _NUMBERS.get(option.name) if option.known and launch.launcher != "srun" else None
            value = option.value
            if pattern is None or value is None:
                continue
            shown = value.text if value.text is not None else _of_slurm(job, value)
            if shown is None or FILLED_LATER.search(shown) or re.fullmatch(pattern, shown.strip(), re.ASCII):
                continue
            if shown == "" and value.expansions:
                continue  # an empty variable: told by its own rules
            if re.fullmatch(r"\$\{?\w+\}?", shown) and is_template(job, launch):
                continue  # envsubst fills it in
            filling = any(outer.program in _FILLS for outer in launch.invocation.within)
            if shown == "{}" or (filling and _FILLED.search(shown)):
                continue  # pdsh counts the hosts, parallel its turns, str.format what it is given
            on_node = option.name in ("nproc-per-node", "num-gpus")
            number = re.match(r"(?:[A-Za-z][\w.-]*:)?(\d{1,4})(?:\(x\d+\))?$", shown, re.ASCII)
            wanted = "$SLURM_GPUS_ON_NODE" if value.text is None and on_node else number[1] if number else ""
            yield LintFinding(
                span=option.span,
                summary=f"{option.written} is {shown[:60]!r}; it takes a number",
                happens=f"The launcher ends with a ValueError or usage error at {option.written}.",
                fix=f"Write {option.written} {wanted}." if wanted else f"Give {option.written} a number.",
                edits=_replaced(job, value, wanted) if wanted else (),
            )


def _of_slurm(job: LintJob, value: Word) -> str | None:
    """What a SLURM variable certainly holds here, when that is no number."""
    name = next((expansion.name for expansion in value.expansions if expansion.raw == value.shown.strip()), None)
    if name == "SLURM_GPUS_PER_NODE":
        option = job.sbatch.get("gpus-per-node")
        return option.value if option is not None and not option.ignored and ":" in (option.value or "") else None
    if name == "SLURM_TASKS_PER_NODE" and (look.batch_nodes(job) or 0) > 1:
        tasks = job.sbatch.get("ntasks-per-node")
        count = tasks.value if tasks is not None and not tasks.ignored else "1"
        return f"{count}(x{look.batch_nodes(job)})"
    return None


def _replaced(job: LintJob, value: Word, wanted: str) -> tuple[Edit, ...]:
    if len(value.expansions) == 1 and (inner := value.expansions[0].span) is not None:
        return (Edit(inner, wanted),) if inner.exact else ()
    return (Edit(value.span, wanted),) if value.span.exact else ()


@rule(
    "V03",
    title="Options before the script are the launcher's own",
    source="argparse of torch.distributed.run and the others; measured with torch 2.13",
    bad=(
        _GOOD.replace("--nproc-per-node", "--nproc-per-nodes"),
        _GOOD.replace("--master-addr", "--master-address"),
        "accelerate launch --multi_gpu --num_process_per_node 4 train.py\n",
    ),
    good=(
        _GOOD,
        "torchrun --nnode=1 --nproc=4 train.py\n",
        "torchrun --nproc-per-node=4 train.py --nproc-per-nodes 3\n",
    ),
)
def unknown_option(job: LintJob) -> Iterator[LintFinding]:
    """The launcher's options are read strictly: an unknown one is a usage error on every node. A unique beginning of an
    option (--nnode) is taken for the option."""
    for launch in job.launches:
        if not registry.form(launch.launcher).all_known:
            continue
        for option in launch.every_option:
            if option.known and option.fault != "takes no value":
                continue
            if not option.known and any(word.span.start < option.span.start for word in launch.unread):
                continue  # `torchrun $SCRIPT --factory x`: what nobody knows may be the script
            if not option.known and not option.written.startswith("-"):
                continue
            yield _unknown(job, launch, option)


def _unknown(job: LintJob, launch: LintLaunch, option: Option) -> LintFinding:
    name = launch.entry or launch.launcher
    if option.known:
        return LintFinding(
            span=option.span,
            summary=f"{option.written} takes no value",
            happens=f"{name} ends with a usage error on every node.",
            fix=f"Write {option.written} alone.",
        )
    known = list(_spellings(launch))
    meant = nearest(option.written, known)
    if not meant:
        starts = sorted({name for name in known if option.written.startswith(name) and len(name) > 6}, key=len)
        meant = starts[-1] if starts else ""
    start = option.span.start
    span = Span(start, start + len(option.written), option.span.line, option.span.exact)
    finding = LintFinding(
        span=option.span,
        summary=f"{option.written} is no option of {name}" + (f"; {meant} is" if meant else ""),
        happens=f"{name} ends with a usage error on every node: unrecognized arguments.",
        fix=f"Write {meant}." if meant else "An option of the script stands behind the script's name.",
        edits=(Edit(span, meant),) if meant and option.span.exact else (),
    )
    package, _, release = registry.form(launch.launcher).newest.partition(" ")
    tables = (KnownUpTo(package, release),) if release else ()
    return held_against(job, tables, finding, sure=bool(meant) or is_of_another(job, option.written))


def _spellings(launch: LintLaunch) -> Iterator[str]:
    """How the launcher's options are written."""
    grammar = registry.form(launch.launcher).grammar
    for spec in grammar.options:
        yield from (spelling for spelling in spec.spellings if spelling.startswith("--"))


def _since(job: LintJob, release: str) -> bool | None:
    """Whether the installed package is of "torch 2.0" or later; None where there is nothing to compare."""
    package, _, text = release.partition(" ")
    version = job.facts.version(package) if text else None
    needed = tuple(int(each) for each in re.findall(r"\d+", text))
    return None if version is None or not needed else version >= needed


@rule(
    "V04",
    title="Options are spelled as the installed version reads them",
    needs="facts",
    source="run.py of the wheels: torch 2.0 takes hyphens, before only underscores",
    bad=(
        Example(_GOOD, "torch=1.13"),
        Example("torchrun --nproc-per-node=4 train.py\n", "torch=1.12.1"),
        Example("torchrun --log-line-prefix-template='[{rank}]' --nproc-per-node=4 train.py\n", "torch=2.13.0"),
        Example("accelerate launch --ipex train.py\n", "accelerate=1.15.0"),
    ),
    good=(
        Example(_UNDER, "torch=1.13"),
        Example(_GOOD, "torch=2.0"),
        _GOOD,
        Example("accelerate launch --ipex train.py\n", "accelerate=1.9.0"),
    ),
)
def option_newer_than_launcher(job: LintJob) -> Iterator[LintFinding]:
    """torchrun takes --nproc-per-node since torch 2.0 and knew only --nproc_per_node before; some options came later
    still, and some left. Underscores are taken by every version."""
    for launch in job.launches:
        for option in launch.every_option:
            if _since(job, option.until):
                package = option.until.partition(" ")[0]
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} went with {option.until}; {job.facts.versions[package]} is used",
                    happens=f"{launch.entry or launch.launcher} ends with: unrecognized arguments: {option.written}.",
                    fix="Leave it out.",
                )
            package = option.since.partition(" ")[0]
            if _since(job, option.since) is not False:
                continue
            hyphens = option.since == "torch 2.0" and option.name not in ("local-addr",)
            start = option.span.start
            span = Span(start, start + len(option.written), option.span.line, option.span.exact)
            wanted = "--" + option.written.lstrip("-").replace("-", "_")
            yield LintFinding(
                span=option.span,
                summary=f"{option.written} came with {option.since}; {package} {job.facts.versions[package]} is used",
                happens=f"{launch.entry or launch.launcher} ends with: unrecognized arguments: {option.written}.",
                fix=f"Write {wanted}, which every version takes."
                if hyphens
                else f"Leave it out, or use {option.since}.",
                edits=(Edit(span, wanted),) if hyphens and option.span.exact else (),
            )


@rule(
    "V05",
    title="The script takes the argument that torch.distributed.launch hands it",
    needs="facts",
    source="measured with torch 1.12 and 2.13; babylm/baseline-pretraining#2",
    bad=(
        Example(_LAUNCH.format(""), "torch=2.0"),
        Example(
            '#@ file train.py\nparser.add_argument("--local_rank")\n#@ node 0\n' + _LAUNCH.format(""),
            "torch=2.1",
        ),
        Example('#@ file train.py\nparser.add_argument("--lr")\n#@ node 0\n' + _LAUNCH.format(""), "torch=1.13"),
        Example(
            '#@ file pretrain.py\nparser.add_argument("--local-rank")\n'
            '#@ file train.py\nparser.add_argument("--local_rank")\n#@ node 0\n' + _LAUNCH.format(""),
            "torch=2.1",
        ),
    ),
    good=(
        Example(_LAUNCH.format("--use_env "), "torch=2.0"),
        Example(_LAUNCH.format(""), "torch=1.13"),
        Example(
            '#@ file train.py\nparser.add_argument("--local-rank", "--local_rank")\n#@ node 0\n' + _LAUNCH.format(""),
            "torch=2.1",
        ),
        Example("#@ file train.py\nprint(os.environ['RANK'])\n#@ node 0\n" + _LAUNCH.format(""), "torch=2.1"),
        Example("#@ file train.py\n" + _ADDS_ONLY + "#@ node 0\n" + _LAUNCH.format(""), "torch=2.1"),
        _LAUNCH.format(""),
    ),
)
def launch_hands_local_rank(job: LintJob) -> Iterator[LintFinding]:
    """torch.distributed.launch adds an argument to the script: --local_rank=N up to torch 1.13, --local-rank=N from
    2.0 on. A script that knows only the other one, or none, ends with unrecognized arguments. torchrun hands
    LOCAL_RANK over in the environment."""
    version = job.facts.version("torch")
    if version is None:
        return
    handed = "--local-rank" if version >= (2, 0) else "--local_rank"
    other = "--local_rank" if version >= (2, 0) else "--local-rank"
    for launch in job.launches:
        if launch.launcher != "torch.distributed.launch" or launch.option("use-env") is not None:
            continue
        name = launch.program_file
        file = file_named(job.sections, name)
        script = file.text if file is not None else None
        if script is not None and (handed in script or not is_parsing(script)):
            continue
        if script is None and (version < (2, 0) or "torch" not in job.facts.given):
            continue
        takes = f"takes {other} only" if script is not None and other in script else "does not take it"
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"torch {job.facts.versions['torch']}'s launch module hands {handed}=N to {name or 'the script'}"
            + (f", which {takes}" if script is not None else f"; scripts of its time take {other}"),
            happens=f"The script ends with: error: unrecognized arguments: {handed}=0"
            + ("." if script is not None else f", unless it takes {handed} too."),
            fix="Start it by torchrun, and read LOCAL_RANK from the environment; or take both spellings.",
            edits=_as_torchrun(job, launch),
        )


def _as_torchrun(job: LintJob, launch: LintLaunch) -> tuple[Edit, ...]:
    """`python -m torch.distributed.launch` -> `torchrun`, without --use-env, where nothing else stands between."""
    words = launch.invocation.words
    at = next((index for index, word in enumerate(words) if word.shown == launch.entry), None)
    if at is None or at < 2 or words[at - 1].shown != "-m" or launch.python_options:
        return ()
    start, end = words[0].span, words[at].span
    if (
        not (start.exact and end.exact)
        or "\n" in job.text[start.start : end.end]
        or words[0].text not in ("python", "python3")
    ):
        return ()
    use_env = launch.options.get("use-env")
    if use_env is not None and not use_env.span.exact:
        return ()
    program = Edit(Span(start.start, end.end, start.line), "torchrun")
    return (program,) if use_env is None else (program, remove(job.text, use_env.span))


@rule(
    "V06",
    title="The launcher is today's",
    severity="info",
    source="torch.distributed.launch's own deprecation; torch_xla removed XRT and xla_dist in 2023",
    bad=(
        _LAUNCH.format(""),
        _LAUNCH.format("--use_env "),
        "python -m torch.distributed.elastic_launch --nproc_per_node=4 train.py\n",
        "export XRT_TPU_CONFIG='localservice;0;localhost:51011'\npython train.py\n",
    ),
    good=(_GOOD, "PJRT_DEVICE=TPU python train.py\n", "python -m torch.distributed.run --nproc_per_node=4 train.py\n"),
)
def superseded_launcher(job: LintJob) -> Iterator[LintFinding]:
    """torch.distributed.launch still runs, by way of torchrun; elastic_launch and torch_xla's xla_dist are gone."""
    for launch in job.launches:
        if launch.entry.endswith("elastic_launch"):
            happens, fix = "The module is gone: No module named torch.distributed.elastic_launch.", "Write torchrun."
        elif launch.launcher == "torch.distributed.launch":
            happens = "It works by way of torchrun, with a warning, and hands the script --local-rank as an argument."
            fix = "Write torchrun, and read LOCAL_RANK from the environment in the script."
            if launch.option("use-env") is not None:
                happens = "It works by way of torchrun, with a warning; the script finds LOCAL_RANK in the environment."
                fix = "Write torchrun, without --use-env: it does that always, and refuses the option."
        elif launch.entry.endswith("xla_dist"):
            happens = "torch_xla has had no xla_dist since 2023: No module named torch_xla.distributed.xla_dist."
            fix = 'Write gcloud compute tpus tpu-vm ssh NAME --worker=all --command="PJRT_DEVICE=TPU python3 train.py".'
        else:
            yield from _xrt(job, launch)
            continue
        plain = launch.entry.endswith("elastic_launch")
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"{launch.entry} is superseded",
            happens=happens,
            fix=fix,
            edits=_as_torchrun(job, launch) if plain or launch.option("use-env") else (),
        )


def _xrt(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """XRT_TPU_CONFIG and its like: PJRT finds the chips by itself."""
    setting = next((setting for name, setting in launch.invocation.settings.items() if name.startswith("XRT_")), None)
    if setting is not None:
        yield LintFinding(
            span=span_of(job, setting),
            summary=f"{setting.name} is superseded: torch_xla has had no XRT since 2.1",
            happens="Nothing reads it; without PJRT_DEVICE torch_xla takes what it finds.",
            fix="Write PJRT_DEVICE=TPU.",
        )
