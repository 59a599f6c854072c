"""Rules of options that exclude each other, and of DeepSpeed's file: W04 to W07."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.conditions import value_of_word
from gpudoctor.lint.model import LintJob, LintLaunch, Span, TextSection
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.python_code import codes, constant
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import everywhere, with_options
from gpudoctor.lint.told_options import ToldOption, is_whole, world_of

MOST_STARTS = 64
"""Starts, and files beside them, that are held against each other."""
_KINDS = ("cpu", "multi-gpu", "tpu", "use-deepspeed", "use-fsdp")
_ACCELERATE = "accelerate launch {} --num_processes {} train.py\n"
_JSON = (
    "deepspeed --num_gpus 4 train.py --deepspeed_config ds.json\n#@ file ds.json\n"
    '{{\n  "train_batch_size": {},\n  "train_micro_batch_size_per_gpu": 8,\n  "gradient_accumulation_steps": 4{}\n}}\n'
)


@rule(
    "W04",
    title="accelerate launch is told one kind of training",
    source="accelerate 1.15, commands/launch.py, _validate_launch_command: only one of --cpu, --multi_gpu, --tpu,"
    " --use_deepspeed, --use_fsdp; at least 2 processes for --multi_gpu",
    bad=(_ACCELERATE.format("--multi_gpu --use_deepspeed", 4), _ACCELERATE.format("--multi_gpu", 1)),
    good=(_ACCELERATE.format("--use_deepspeed", 4), _ACCELERATE.format("--multi_gpu", 2)),
)
def accelerate_told_two_kinds(job: LintJob) -> Iterator[LintFinding]:
    """accelerate ends with a ValueError where two of these options are given, or --multi_gpu with one process."""
    for launch in job.launches:
        if launch.launcher != "accelerate":
            continue
        given = [option for name in _KINDS if (option := launch.option(name)) is not None]
        if len(given) > 1:
            yield LintFinding(
                span=given[1].span,
                summary=f"{given[0].written} and {given[1].written} are both given; accelerate takes one of them",
                happens="ValueError: You can only use one of `--cpu`, `--multi_gpu`, `--tpu`, `--use_deepspeed`,"
                " `--use_fsdp` at a time.",
                fix=f"Take {given[0].written} out, or {given[1].written}: what is left includes several GPUs.",
            )
        if launch.option("multi-gpu") is not None and launch.text("num-processes") in ("0", "1"):
            option = launch.option("multi-gpu")
            assert option is not None
            yield LintFinding(
                span=option.span,
                summary=f"--multi_gpu with {launch.text('num-processes')} process; it takes at least 2",
                happens="ValueError: You need to use at least 2 processes to use `--multi_gpu`.",
                fix="Take --multi_gpu out for one process, or start two or more.",
            )


def _is_on(option: ToldOption | None) -> bool:
    """Certainly: "auto" may be. "..." is the value of a key that has keys of its own, as DeepSpeed's "fp16": {...}."""
    unsure = (False, None, "auto", "...")
    return option is not None and option.is_known and value_of_word(option.value) not in unsure


_ARGS = "from transformers import TrainingArguments\nargs = TrainingArguments('out', {})\n"


@rule(
    "W05",
    title="One half precision is chosen, not two",
    source="Megatron-LM, megatron/training/arguments.py (assert not args.fp16 and not args.bf16); transformers,"
    " training_args.py: At most one of fp16 and bf16 can be True",
    bad=(
        "torchrun --standalone --nproc_per_node=4 sft.py --per_device_train_batch_size 4 --bf16 True --fp16 True\n",
        "torchrun --standalone --nproc_per_node=4 pretrain_gpt.py --micro-batch-size 4 --fp16 --bf16\n",
        _ARGS.format("fp16=True, bf16=True"),
        _ARGS.format("fp16_full_eval=True, bf16_full_eval=True"),
    ),
    good=(
        "torchrun --standalone --nproc_per_node=4 sft.py --per_device_train_batch_size 4 --bf16 True --fp16 False\n",
        "torchrun --standalone --nproc_per_node=4 train.py --fp16 --bf16\n",
        _ARGS.format("fp16=not new, bf16=new"),
        _ARGS.format("fp16=False, bf16=True"),
        "torchrun --standalone --nproc_per_node=4 t.py ds.json --output_dir o\n#@ file ds.json\n"
        '{"fp16": {"enabled": false, "loss_scale": 0}, "bf16": {"enabled": true}}\n',
    ),
)
def two_half_precisions(job: LintJob) -> Iterator[LintFinding]:
    """transformers' TrainingArguments and Megatron's arguments refuse fp16 and bf16 together."""
    for _, options in with_options(job):
        theirs = any(name in options for name in ("per_device_train_batch_size", "micro_batch_size", "output_dir"))
        if theirs and _is_on(options.get("fp16")) and _is_on(options.get("bf16")):
            later = options["bf16"]
            yield LintFinding(
                span=later.word.span,
                summary="--fp16 and --bf16 are both given; one of them is taken",
                happens="It ends while it reads its options: fp16 and bf16 exclude each other.",
                fix="Keep --bf16 on Ampere and newer GPUs, --fp16 on older ones.",
            )
    for code in codes(job):
        for call in code.calls:
            if code.name(call.func).partition(".")[0] not in ("transformers", "trl"):
                continue
            on = {keyword.arg: keyword for keyword in call.keywords if constant(keyword.value) is True}
            for suffix in ("", "_full_eval"):
                if f"fp16{suffix}" in on and f"bf16{suffix}" in on:
                    yield LintFinding(
                        span=code.span(on[f"bf16{suffix}"]),
                        summary=f"fp16{suffix} and bf16{suffix} are both True; one of them is taken",
                        happens="ValueError: At most one of fp16 and bf16 can be True, but not both.",
                        fix=f"Keep bf16{suffix} on Ampere and newer GPUs, fp16{suffix} on older ones.",
                    )


_NAMED = lazy_re(r"[\"']([\w./-]+\.json)[\"']", re.ASCII)
"""A file that a program names: deepspeed.initialize(config="ds.json"), TrainingArguments(deepspeed="ds.json")."""


def deepspeed_files(job: LintJob) -> Iterator[tuple[LintLaunch, TextSection]]:
    """DeepSpeed's files, and the first start that names each."""
    named: dict[str, LintLaunch] = {}
    for launch in job.launches[:MOST_STARTS]:
        words = [word.shown for word in (*launch.script_words, *launch.invocation.words)]
        options = everywhere(job, launch)
        words += [f"{name}={option.value}" for name, option in options.items() if "deepspeed" in name]
        if (of_accelerate := launch.text("deepspeed-config-file")) is not None:
            words.append(f"deepspeed={of_accelerate}")
        program = program_of(job, launch)
        if program is not None and re.search("deepspeed", program.text, re.IGNORECASE):
            words += ["deepspeed", *_NAMED.findall(program.text)]
        if launch.launcher == "deepspeed" or any("deepspeed" in word for word in words):
            for word in words:
                named.setdefault(word.rpartition("=")[2].rpartition("/")[2], launch)
    files = (section for section in job.sections if section.kind == "file" and section.name.endswith(".json"))
    for section in islice(files, MOST_STARTS):
        by = named.get(section.name.rpartition("/")[2])
        if by is not None:
            yield by, section


_TEMPLATE = lazy_re(r"\$[\w{(]|\{\{|<[A-Z_]+>|__\w+__")
"""It is filled in before it is read."""


def _read_by_json(job: LintJob, launch: LintLaunch, section: TextSection) -> bool:
    """transformers and accelerate read it by json, which takes no trailing comma; DeepSpeed itself by hjson."""
    option = launch.option("deepspeed-config-file")
    named = everywhere(job, launch).get("deepspeed")
    short = section.name.rpartition("/")[2]
    return option is not None or (named is not None and (named.value or "").rpartition("/")[2] == short)


def _at(section: TextSection, offset: int, length: int = 1) -> Span:
    return section.span(offset, min(len(section.text), offset + length))


def _key(section: TextSection, name: str) -> Span:
    match = re.search(rf'"{re.escape(name)}"\s*:\s*[^,\n}}]*', section.text)
    return _at(section, match.start(), len(match[0])) if match is not None else _at(section, 0)


def _loaded(section: TextSection) -> tuple[dict[str, Any], list[str]]:
    """What stands in the file, and keys that stand in it twice. Raises `ValueError`."""
    twice: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in found]
        twice.extend(dict.fromkeys(name for name in names if names.count(name) > 1) if len(names) < 200 else ())
        return dict(found)

    value = json.loads(section.text, object_pairs_hook=pairs)
    return (value if isinstance(value, dict) else {}), twice


@rule(
    "W06",
    title="DeepSpeed's file is JSON that DeepSpeed takes",
    source="transformers, integrations/deepspeed.py: json.load; DeepSpeed 0.19, runtime/config.py: a hook refuses"
    " duplicate keys, fp16 and bfloat16 cannot be enabled at once; zero/config.py: stage 0 to 3",
    bad=(
        _JSON.format(128, ",").replace("--deepspeed_config", "--deepspeed"),
        _JSON.format(128, ',\n  "fp16": {"enabled": true},\n  "bf16": {"enabled": true}'),
    ),
    good=(
        _JSON.format(128, ""),
        _JSON.format(128, ',\n  "fp16": {"enabled": false},\n  "bf16": {"enabled": true}'),
    ),
)
def deepspeed_file_refused(job: LintJob) -> Iterator[LintFinding]:
    """DeepSpeed reads the file before the model is wrapped, and ends where it is no JSON or asks for two at once."""
    for launch, section in deepspeed_files(job):
        if _TEMPLATE.search(section.text):
            continue
        try:
            tree, twice = _loaded(section)
        except json.JSONDecodeError as error:
            if not _read_by_json(job, launch, section):
                continue
            yield LintFinding(
                span=_at(section, min(error.pos, max(0, len(section.text) - 1))),
                summary=f"{section.name} is no JSON: {error.msg} (line {error.lineno} of it)",
                happens="It ends when the file is read. JSON has no comments, and no comma before a closing brace.",
                fix="Mend the line; python -m json.tool FILE shows the next one.",
            )
            continue
        except (ValueError, RecursionError):
            continue
        for name in twice:
            yield LintFinding(
                span=_key(section, name),
                summary=f'"{name}" stands twice in one mapping of {section.name}',
                happens="DeepSpeed ends with ValueError: Duplicate keys in DeepSpeed config.",
                fix="Keep one of them.",
            )
        on = [name for name in ("fp16", "bf16") if _enabled(tree.get(name))]
        if len(on) == 2:
            yield LintFinding(
                span=_key(section, "fp16"),
                summary=f"fp16 and bf16 are both enabled in {section.name}; DeepSpeed takes one of them",
                happens="DeepSpeed ends: bfloat16 and fp16 modes cannot be simultaneously enabled.",
                fix='Write "enabled": false in one of the two.',
            )
        zero = tree.get("zero_optimization")
        stage = zero.get("stage") if isinstance(zero, dict) else None
        if type(stage) is int and not 0 <= stage <= 3:
            yield LintFinding(
                span=_key(section, "stage"),
                summary=f'"stage" is {stage}; ZeRO has the stages 0 to 3',
                happens="DeepSpeed ends when it reads the file.",
                fix="Take a stage from 0 to 3.",
            )


def _enabled(part: object) -> bool:
    return isinstance(part, dict) and part.get("enabled") is True


def _precisions(
    job: LintJob, launch: LintLaunch, section: TextSection, file: dict[str, Any], options: dict[str, ToldOption]
) -> Iterator[LintFinding]:
    """fp16 and bf16 of the file beside transformers' own."""
    if not _read_by_json(job, launch, section) or not is_whole(launch) or "per_device_train_batch_size" not in options:
        return
    for name in ("fp16", "bf16"):
        part = file.get(name)
        enabled = part.get("enabled") if isinstance(part, dict) else None
        if type(enabled) is bool and enabled and not _is_on(options.get(name)) and _plain(options.get(name)):
            yield LintFinding(
                span=_key(section, name),
                summary=f'"{name}" is enabled in {section.name}, and the program is not told {name}',
                happens=f"transformers ends: DeepSpeed config values mismatch its TrainingArguments values: ds"
                f" {name}.enabled=True vs hf {name}|{name}_full_eval=False.",
                fix=f'Tell the program {name} too, or write "enabled": "auto".',
            )


def _plain(option: ToldOption | None) -> bool:
    return option is None or option.value != "auto"


def _of_transformers(options: dict[str, ToldOption]) -> bool:
    """Whether TrainingArguments reads them: its file is `--deepspeed FILE`; --deepspeed_config is DeepSpeed's own."""
    return "per_device_train_batch_size" in options and "deepspeed_config" not in options


def _of_the_trainer(options: dict[str, ToldOption], world: int) -> int | None:
    """The global batch by transformers' own options; None where the text does not tell all of it."""
    if not _of_transformers(options):
        return None
    batch, steps = options.get("per_device_train_batch_size"), options.get("gradient_accumulation_steps")
    each = batch.number if batch is not None else None
    times = steps.number if steps is not None else 1
    return each * times * world if each and times else None


_SAME = (
    ("train_micro_batch_size_per_gpu", "per_device_train_batch_size"),
    ("gradient_accumulation_steps", "gradient_accumulation_steps"),
)


@rule(
    "W07",
    title="The batch sizes in DeepSpeed's file fit each other, the ranks and the command line",
    source="DeepSpeed 0.19, runtime/config.py, _batch_assertion: train_batch_size is micro batch x accumulation x world"
    " size; transformers, integrations/deepspeed.py: values that mismatch TrainingArguments",
    bad=(
        _JSON.format(256, ""),
        "torchrun --nproc_per_node=4 t.py\n#@ file t.py\nimport deepspeed\n"
        "engine = deepspeed.initialize(model=net, config='ds.json')[0]\n#@ file ds.json\n"
        '{\n  "train_batch_size": 8,\n  "train_micro_batch_size_per_gpu": 4\n}\n',
        "torchrun --nproc_per_node=8 sft.py --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --deepspeed"
        " ds.json\n#@ file ds.json\n"
        '{\n  "train_micro_batch_size_per_gpu": 8,\n  "gradient_accumulation_steps": "auto"\n}\n',
        "deepspeed --num_gpus 4 sft.py --per_device_train_batch_size 1 --deepspeed ds.json\n#@ file ds.json\n"
        '{\n  "train_batch_size": 32\n}\n',
    ),
    good=(
        _JSON.format(128, ""),
        "torchrun --nproc_per_node=8 sft.py --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --deepspeed"
        " ds.json\n#@ file ds.json\n"
        '{\n  "train_micro_batch_size_per_gpu": "auto",\n  "gradient_accumulation_steps": 2\n}\n',
        "deepspeed t.py --gradient-accumulation-steps 4 --deepspeed_config ds.json\n#@ file ds.json\n"
        '{\n  "train_micro_batch_size_per_gpu": 2,\n  "gradient_accumulation_steps": 1\n}\n',
    ),
)
def batch_sizes_of_deepspeed(job: LintJob) -> Iterator[LintFinding]:
    """DeepSpeed asserts that train_batch_size is the product of the micro batch, the accumulation steps and the ranks;
    two of the three numbers are enough. transformers ends where the file says another number than its own options."""
    for launch, section in deepspeed_files(job):
        try:
            tree, _ = _loaded(section)
        except (ValueError, RecursionError):
            continue
        if _TEMPLATE.search(section.text):
            continue
        options = everywhere(job, launch)
        yield from _precisions(job, launch, section, tree, options)
        for key, name in _SAME:
            option, value = options.get(name), tree.get(key)
            is_number = type(value) is int and option is not None and option.number is not None
            is_theirs = _of_transformers(options)  # others fill their own number in
            if is_theirs and is_number and option is not None and option.number != value:
                yield LintFinding(
                    span=_key(section, key),
                    summary=f'"{key}" is {value} in {section.name}, and {option.written} is {option.number}',
                    happens="transformers ends: DeepSpeed config values mismatch its TrainingArguments values.",
                    fix=f'Write "{key}": "auto", which takes the number of the command line.',
                )
        sizes = [tree.get(key) for key in ("train_batch_size", *(key for key, _ in _SAME))]
        world = world_of(job, launch)
        if world is None or not is_whole(launch) or any("parallel" in name for name in options):
            continue
        numbers = [size for size in sizes if type(size) is int]
        whole, micro, steps = sizes
        if len(numbers) == 3 and type(micro) is int and type(steps) is int and whole != micro * steps * world:
            yield LintFinding(
                span=_key(section, "train_batch_size"),
                summary=f'"train_batch_size" is {whole}, and micro batch {micro} x accumulation {steps} x {world} ranks'
                f" is {micro * steps * world}",
                happens="DeepSpeed ends: Check batch related parameters.",
                fix=f'Write "train_batch_size": {micro * steps * world}, or leave one of the three numbers out.',
            )
        elif type(whole) is int and (trained := _of_the_trainer(options, world)) not in (None, whole):
            yield LintFinding(
                span=_key(section, "train_batch_size"),
                summary=f'"train_batch_size" is {whole} in {section.name}, and the Trainer is told {trained}: batch x'
                f" accumulation x {world} ranks",
                happens="transformers ends: DeepSpeed config values mismatch its TrainingArguments values: ds"
                f" train_batch_size={whole} vs hf train_batch_size (calculated)={trained}.",
                fix='Write "train_batch_size": "auto".',
            )
        elif type(whole) is int and len(numbers) == 1 and micro is None and steps is None and whole % world:
            yield LintFinding(
                span=_key(section, "train_batch_size"),
                summary=f'"train_batch_size" is {whole}, no multiple of {counted(world, "rank")}',
                happens="DeepSpeed ends: Check batch related parameters. train_batch_size is not equal to micro batch"
                " x accumulation x world size.",
                fix=f'Write a "train_batch_size" that is a multiple of {world}.',
            )
        elif type(whole) is int and len(numbers) == 2:
            other = micro if type(micro) is int else steps
            if type(other) is int and other > 0 and whole % (other * world):
                yield LintFinding(
                    span=_key(section, "train_batch_size"),
                    summary=f'"train_batch_size" is {whole}, no multiple of {other} x {world} ranks',
                    happens="DeepSpeed ends: Check batch related parameters.",
                    fix=f'Write a "train_batch_size" that is a multiple of {other * world}.',
                )
