"""Rules of what a launcher makes of its program's name, its counts and its files: Q27, V09, V10, W08, W09, D09, D10."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.misspelt import nearest
from gpudoctor.knowledge.wording import counted
from gpudoctor.launcher.programs import is_python
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.known_up_to import KnownUpTo, held_against
from gpudoctor.lint.launch_settings import TORCHRUN
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, LintLaunch, ManifestValue
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.rules.deepspeed import hosts_of
from gpudoctor.lint.understood import whole

_ONE = "torchrun --standalone --nproc-per-node=4 {}\n"


@rule(
    "V09",
    title="A module is named with dots, and no_python starts a program",
    source="Python's runpy: No module named; torch/distributed/run.py: --no-python executes the word itself; tried",
    bad=(
        _ONE.format("-m pkg.train.py"),
        _ONE.format("-m pkg/train"),
        _ONE.format("pkg.cli.train"),
        _ONE.format("--no-python train.py"),
        "accelerate launch --num_processes 2 -m train.py\n",
        "python -m torch.distributed.lauch --nproc_per_node=4 train.py\n",
        "python -m accelerate launch train.py\n",
    ),
    good=(_ONE.format("-m pkg.train"), _ONE.format("--no-python ./train.py"), _ONE.format("pkg/train.py")),
)
def module_named_as_file(job: LintJob) -> Iterator[LintFinding]:
    """-m takes a module's name, in which dots part packages; a file's name is another thing. With --no-python the word
    is a program that is looked for in PATH."""
    yield from _no_such_module(job)
    for launch in job.launches:
        script = launch.script
        text = script.text if script is not None else None
        if script is None or text is None:
            continue
        plain = launch.option("no-python")
        if (
            launch.launcher in TORCHRUN
            and plain is not None
            and not launch.module
            and re.fullmatch(r"[\w-]+\.py", text)
        ):
            yield LintFinding(
                span=script.span,
                summary=f"{plain.written} executes {text} itself, and no folder of PATH is its place",
                happens="FileNotFoundError, or Permission denied: a Python file is given to no interpreter.",
                fix=f"Leave {plain.written} out, or write python {text}.",
            )
        elif _MODULE.fullmatch(text) and plain is None and not launch.module and _by_python(launch):
            yield LintFinding(
                span=script.span,
                summary=f"{text} is a module's name, and stands where a file is wanted",
                happens=f"can't open file '{text}': every rank ends at once.",
                fix=f"Write -m {text}.",
            )
        elif launch.module and re.fullmatch(r"[\w./-]+", text) and ("/" in text or text.endswith(".py")):
            name = text.removesuffix(".py").strip("./").replace("/", ".")
            yield LintFinding(
                span=script.span,
                summary=f"-m takes a module's name, and {text} is a file's",
                happens=f"No module named {text}: every rank ends at once.",
                fix=f"Write -m {name}, or {text.removesuffix('.py')}.py without -m.",
            )


_MODULE = lazy_re(
    r"[a-z_]\w*(?:\.[a-z_]\w*)*\.(?:train|main|cli|finetune|pretrain|launch|sft)|[a-z_]\w*(?:\.[a-z_]{3,}\w*){2,}"
)


def _by_python(launch: LintLaunch) -> bool:
    options = all(option.known for option in launch.every_option)
    return launch.launcher in (*TORCHRUN, "accelerate", "deepspeed") and options and not launch.unread


_STARTS = {
    "torch.distributed": ("torch.distributed.run", "torch.distributed.launch"),
    "torchrun": ("torch.distributed.run",),
    "accelerate": ("accelerate.commands.launch", "accelerate.commands.accelerate_cli"),
    "deepspeed": ("deepspeed.launcher.runner", "deepspeed.launcher.launch"),
}
"""Packages without a __main__ (torch 2.13, accelerate 1.15, deepspeed 0.14), and which of their modules start ranks."""
_INSIDE = ("torch.distributed.elastic", "torch.distributed.launcher", "accelerate.test_utils", "accelerate.commands",
           "deepspeed.launcher", "deepspeed.env_report", "deepspeed.utils", "torch.distributed.debug")  # fmt: skip


def _no_such_module(job: LintJob) -> Iterator[LintFinding]:
    """`python -m torch.distributed.lauch`: runpy looks for the module, or for the package's __main__."""
    for invocation in job.invocations:
        words = invocation.words
        at = next((index for index, word in enumerate(words[:-1]) if word.shown == "-m"), 0)
        if not at or not is_python(words[0]) or any(not word.shown.startswith("-") for word in words[1:at]):
            continue
        name = words[at + 1].text or ""
        package = next((each for each in _STARTS if name == each or name.startswith(each + ".")), "")
        if not package or name in _STARTS[package] or name.startswith(_INSIDE) or name.endswith(".py"):
            continue
        same = name.rpartition(".")[2] in {each.rpartition(".")[2] for each in _STARTS[package]}
        if name != package and not same and not nearest(name, _STARTS[package]):
            continue  # packages have other modules that can be run: deepspeed.checkpoint's converters
        wanted = nearest(name, _STARTS[package]) or _STARTS[package][0]
        yield LintFinding(
            span=words[at + 1].span,
            summary=f"python -m {name}: there is no such module to run; {wanted} is one",
            happens=f"Python ends at once: No module named {name if name != package else name + '.__main__'}.",
            fix=f"Write python -m {wanted}, or the command of that package itself.",
        )


_NO_PROGRAM = lazy_re(
    r"\.(?:sh|bash|zsh|ipynb|slurm|sbatch|txt|ya?ml|json|jsonl|toml|cfg|ini|csv|hosts?)$|(?:^|/)hostfile$"
)
"""Ends of files that Python does not run."""


@rule(
    "Q27",
    title="What a launcher starts by Python is a Python program",
    source="measured with torch 2.13: the word behind the options is given to python (SyntaxError, can't open file);"
    " DeepSpeedExamples#575",
    bad=(
        "torchrun --standalone --nproc-per-node=4 train.sh --lr 1e-4\n",
        "deepspeed /job/hostfile train.py --deepspeed\n",
        "accelerate launch --multi_gpu --num_processes 4 config.yaml train.py\n",
    ),
    good=(
        "torchrun --standalone --nproc-per-node=4 --no-python ./train.sh --lr 1e-4\n",
        "deepspeed --hostfile /job/hostfile train.py --deepspeed\n",
        "torchrun --standalone --nproc-per-node=4 train --config c.yaml\n",
    ),
)
def program_that_python_does_not_run(job: LintJob) -> Iterator[LintFinding]:
    """torchrun, deepspeed and accelerate hand the first word that is none of their options to Python. A shell script, a
    list of hosts or a configuration there is no program: an option's name is missing in front of it, or --no-python."""
    for launch in job.launches:
        script, options = launch.script, launch.option("no-python")
        if script is None or script.text is None or launch.module or options or not look.traits(launch).sets_ranks:
            continue
        if not all(option.known for option in launch.every_option):
            continue  # it may be the value of what stands there
        if launch.launcher not in (*TORCHRUN, "deepspeed", "accelerate") or not _NO_PROGRAM.search(script.text):
            continue
        follows = launch.script_words[0].shown if launch.script_words else ""
        shell = script.text.endswith(("sh", "sbatch", "slurm"))
        yield LintFinding(
            span=script.span,
            summary=f"{launch.entry or launch.launcher} is given {script.text}, which Python cannot run",
            happens="Every process ends at once, with a SyntaxError or: can't open file.",
            fix=f"Add --no-python in front of {script.text}, or name the .py file." if shell
            else f"Write the option that takes it in front of {script.text}"
            + (f"; the program is {follows}." if follows.endswith(".py") else "."),
        )  # fmt: skip


@rule(
    "V10",
    title="The installed torch has the launcher",
    needs="facts",
    source="the wheels of torch 1.8 to 2.14: entry point torchrun since 1.10, torch/distributed/run.py since 1.9",
    bad=(
        Example("torchrun --nproc_per_node=2 train.py\n", "torch=1.9.1"),
        Example("python -m torch.distributed.run --nproc_per_node=2 train.py\n", "torch=1.8"),
    ),
    good=(
        Example("torchrun --nproc_per_node=2 train.py\n", "torch=1.10"),
        Example("python -m torch.distributed.launch --use_env --nproc_per_node=2 train.py\n", "torch=1.8"),
    ),
)
def launcher_newer_than_torch(job: LintJob) -> Iterator[LintFinding]:
    """torchrun came with torch 1.10, torch.distributed.run with 1.9; before, torch.distributed.launch --use_env does
    it."""
    version = job.facts.version("torch")
    for launch in job.launches if version is not None else ():
        since = {"torchrun": (1, 10), "torch.distributed.run": (1, 9)}.get(launch.entry)
        if since is not None and version is not None and version[:2] < since:
            yield LintFinding(
                span=launch.invocation.words[0].span,
                summary=f"{launch.entry} came with torch {since[0]}.{since[1]}; {job.facts.versions['torch']} is used",
                happens="command not found." if launch.entry == "torchrun" else f"No module named {launch.entry}.",
                fix="Write python -m torch.distributed.launch --use_env, or install a later torch.",
            )


_CONFIG = "accelerate launch --config_file c.yaml train.py\n#@ file c.yaml\ncompute_environment: LOCAL_MACHINE\n"
_CHOICES = {
    "distributed_type": ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_XPU", "MULTI_MUSA",
                         "MULTI_SDAA", "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED", "FSDP", "TP", "XLA", "TPU",
                         "MEGATRON_LM"),
    "compute_environment": ("LOCAL_MACHINE", "AMAZON_SAGEMAKER"),
    "mixed_precision": ("no", "fp8", "fp16", "bf16"),
    "fsdp_sharding_strategy": ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2",
                               "1", "2", "3", "4", "5"),
    "fsdp_auto_wrap_policy": ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"),
    "fsdp_backward_prefetch": ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
    "fsdp_backward_prefetch_policy": ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
    "fsdp_state_dict_type": ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"),
    "zero_stage": ("0", "1", "2", "3"),
}  # fmt: skip
"""accelerate 1.15, utils/dataclasses.py and utils/constants.py; its own file may write False for no."""
_ACCELERATE = KnownUpTo("accelerate", "1.15")
_OF_THE_FILE = ("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
                "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path",
                "zero3_save_16bit_model")  # fmt: skip


def _configs(job: LintJob) -> Iterator[list[ManifestValue]]:
    """accelerate's files: named by a start, or judged alone by what stands in them."""
    for section in job.sections:
        if (
            "distributed_type" not in section.text
            or section.name.endswith((".py", ".sh"))
            or len(section.text) > 20_000
        ):
            continue
        if section.kind == "file" or re.search(r"^compute_environment\s*:", section.text, re.MULTILINE):
            for manifest in read_manifests(section.text, section.start, section.line):
                if any(value.path == ("distributed_type",) for value in manifest.values):
                    yield list(manifest.values)


@rule(
    "W08",
    title="Values of accelerate's file are among those that it takes",
    source="accelerate 1.15, utils/dataclasses.py (enums) and utils/constants.py: is not a valid, is not in list",
    bad=(
        _CONFIG + "distributed_type: MULTIGPU\nnum_processes: 4\n",
        _CONFIG + "distributed_type: multi_gpu\nnum_processes: 4\n",
        _CONFIG + "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL\nnum_processes: 4\n",
    ),
    good=(
        _CONFIG + "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 4\n",
        _CONFIG + "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: 1\nmixed_precision: 'no'\n",
    ),
)
def accelerate_file_value(job: LintJob) -> Iterator[LintFinding]:
    """accelerate makes members of enumerations of these words, and ends where there is none of the name."""
    for values in _configs(job):
        for value in values:
            name = value.path[-1] if value.path else ""
            known = _CHOICES.get(name)
            text = value.value
            if known is None or text in known or text in ("", "null", "~") or re.search(r"[$<{]", text):
                continue
            exact = name == "distributed_type"  # an enumeration is made of it as it stands
            if text.lower() in ("no", "false") or (not exact and {text.upper(), text.lower()} & {*known}):
                continue
            near = nearest(text, known) or nearest(text.upper(), known)
            finding = LintFinding(
                span=value.span,
                summary=f"{name} is {text[:40]!r}; accelerate takes {', '.join(known[:8])}",
                happens="ValueError: it is none of the values that accelerate knows.",
                fix=f"Write {name}: {near}." if near else f"Take one of {', '.join(known)}.",
            )
            yield held_against(job, (_ACCELERATE,), finding, sure=bool(near))


@rule(
    "W09",
    title="What DeepSpeed's own file says is said there alone",
    source="accelerate, utils/dataclasses.py, _deepspeed_config_checks: ValueError, When using `deepspeed_config_file`",
    bad=(
        _CONFIG + "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: z3.json\n  zero_stage: 3\n",
        _CONFIG
        + "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: z3.json\nmixed_precision: bf16\n",
    ),
    good=(
        _CONFIG
        + "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: z3.json\n  zero3_init_flag: true\n",
        _CONFIG + "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nmixed_precision: bf16\n",
    ),
)
def deepspeed_file_and_fields(job: LintJob) -> Iterator[LintFinding]:
    """accelerate refuses fields of its own file that the DeepSpeed file named beside them decides."""
    for values in _configs(job):
        by_path = {value.path: value for value in values}
        named = by_path.get(("deepspeed_config", "deepspeed_config_file"))
        if named is None or named.value in ("", "null", "none"):
            continue
        twice = [
            manifest_value
            for name in _OF_THE_FILE
            if (manifest_value := by_path.get(("deepspeed_config", name))) is not None
        ]
        precision = by_path.get(("mixed_precision",))
        twice += [precision] if precision is not None and precision.value not in ("", "null", "~") else []
        if twice:
            names = ", ".join(value.path[-1] for value in twice)
            yield LintFinding(
                span=twice[0].span,
                summary=f"{names} beside deepspeed_config_file ({named.value})",
                happens="ValueError: When using `deepspeed_config_file`, the following accelerate config variables will"
                " be ignored.",
                fix=f"Take {names} out of this file, and say it in {named.value}.",
            )


_HOSTS = "\n#@ file hostfile\na slots=4\nb slots=4\n"


@rule(
    "D09",
    title="deepspeed starts no more processes on a host than it has slots",
    source="DeepSpeed 0.19, launcher/runner.py: --num_gpus N is range(N) on each host, --num_nodes cuts the list",
    bad=(
        "deepspeed --hostfile hostfile --num_gpus 8 train.py" + _HOSTS,
        "deepspeed --hostfile hostfile --num_nodes 4 train.py" + _HOSTS,
    ),
    good=(
        "deepspeed --hostfile hostfile --num_gpus 4 --num_nodes 2 train.py" + _HOSTS,
        "deepspeed --num_gpus 8 train.py\n",
    ),
)
def more_than_the_hostfile(job: LintJob) -> Iterator[LintFinding]:
    """--num_gpus counts on each host, --num_nodes among the hosts of the file."""
    for launch in job.launches:
        file = hosts_of(job, launch) if launch.launcher == "deepspeed" else None
        lines = [line for line in file.lines if not line.fault] if file is not None else []
        slots = [line.slots for line in lines if line.slots is not None]
        gpus, nodes = launch.option("num-gpus"), launch.option("num-nodes")
        each, hosts = whole(gpus), whole(nodes)
        if gpus is not None and each is not None and slots and len(slots) == len(lines) and each > min(slots):
            yield LintFinding(
                span=gpus.span,
                summary=f"{gpus.written} {each} is for each host, and one has {counted(min(slots), 'slot')}",
                happens="Ranks beyond the GPUs of their host fail: invalid device ordinal.",
                fix=f"Write {gpus.written} {min(slots)}.",
            )
        if nodes is not None and hosts is not None and lines and hosts > len(lines):
            yield LintFinding(
                span=nodes.span,
                summary=f"{nodes.written} {hosts}, and the hostfile has {counted(len(lines), 'host')}",
                happens=f"DeepSpeed starts {counted(len(lines), 'host')}: the world is smaller than was meant.",
                fix="Name all hosts in the file.",
            )


@rule(
    "D10",
    title="--include names a host before the slots",
    source="DeepSpeed 0.19, launcher/runner.py, parse_resource_filter: NAME:SLOT,SLOT; what has no colon is a host",
    bad=("deepspeed --include=0,1 train.py\n", "deepspeed --include 2 --master_port 29501 train.py\n"),
    good=("deepspeed --include=localhost:0,1 train.py\n", "deepspeed --include=worker-1 --hostfile h train.py\n"),
)
def include_without_host(job: LintJob) -> Iterator[LintFinding]:
    """DeepSpeed parts the value at its colon: `0,1` alone is taken for the name of a host."""
    for launch in job.launches:
        for option in (launch.option("include"), launch.option("exclude")):
            text = option.value.text if option is not None and option.value is not None else None
            if (
                launch.launcher == "deepspeed"
                and option is not None
                and re.fullmatch(r"\d+(?:,\d+)*", text or "", re.ASCII)
            ):
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} {text} names no host: {text} is taken for one",
                    happens=f"DeepSpeed ends: Hostname '{text}' not found in hostfile.",
                    fix=f"Write {option.written} localhost:{text}.",
                )
