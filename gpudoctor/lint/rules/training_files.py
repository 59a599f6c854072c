"""Rules of what the options of training programs say together: W10, W11, W14, V13."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge import refused_calls, refused_engines, refused_options, refused_training
from gpudoctor.knowledge.read_refusals import made_classes, rows_of
from gpudoctor.lint import look
from gpudoctor.lint.conditions import names_of
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import argument
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.python_values import UNDECIDED, PythonValues
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import everywhere, files_of, with_options
from gpudoctor.lint.told_options import ToldOption, world_of
from gpudoctor.lint.told_programs import TRANSFORMERS, program_of
from gpudoctor.lint.told_together import ToldTogether, of_launch

Told = dict[str, ToldOption]
_TABLES = (refused_options, refused_training, refused_calls, refused_engines)
_ROWS = tuple(row for table in _TABLES for row in table.REFUSED)
_DEFAULTS: dict[str, dict[str, object]] = {name: each for table in _TABLES for name, each in table.DEFAULTS.items()}
_AXOLOTL = (
    "accelerate launch --multi_gpu --num_processes 4 -m axolotl.cli.train lora.yml\n#@ file lora.yml\n"
    "base_model: m\nadapter: {}\nload_in_4bit: {}\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\n{}"
)
_FACTORY = (
    "FORCE_TORCHRUN=1 llamafactory-cli train sft.yaml\n#@ file sft.yaml\nstage: sft\ndo_train: true\ndataset: {}\n"
    "finetuning_type: {}\n{}"
)
_GPT = (
    "torchrun --standalone --nproc_per_node=8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 "
)
_PASSED = (
    "accelerate launch --config_file z.yaml t.py\n#@ file z.yaml\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n"
    "  zero_stage: {}\n  offload_param_device: {}\n  gradient_accumulation_steps: {}\nnum_machines: 1\n"
    "num_processes: 8\n#@ file t.py\nfrom accelerate import Accelerator\n"
    "accelerator = Accelerator(gradient_accumulation_steps={})\n"
)


@rule(
    "W11",
    title="A program is told no options that it refuses together",
    source="Megatron-LM, transformers, trl, axolotl, LLaMA-Factory, torchtune, torchtitan, verl, llm-foundry: a row for"
    " each check of theirs in knowledge/refused_options.py, refused_training.py and refusals/",
    leads_to=("program-error",),
    bad=(
        _AXOLOTL.format("qlora", "true", "deepspeed: zero2.json\nfsdp:\n  - full_shard\n"),
        _AXOLOTL.format("qlora", "false", ""),
        _FACTORY.format("mine", "full", "quantization_bit: 4\n"),
        _FACTORY.format("mine", "lora", "streaming: true\n"),
        _FACTORY.format("mine", "full", "use_dora: true\n"),
        _AXOLOTL.format("lora", "false", "max_memory: {0: 40GiB}\ngpu_memory_limit: 40GiB\n"),
        _GPT + "--expert-model-parallel-size 4\n",
        _GPT + "--recompute-granularity full\n",
    ),
    good=(
        _AXOLOTL.format("qlora", "true", "deepspeed: zero2.json\n"),
        _AXOLOTL.format("lora", "false", "fsdp:\n  - full_shard\n"),
        _FACTORY.format("mine", "lora", "quantization_bit: 4\nstreaming: true\nmax_steps: 100\n"),
        _GPT + "--expert-model-parallel-size 4 --num-experts 8\n",
        _GPT + "--expert-model-parallel-size 4 $MOE_ARGS\n",
    ),
)
def options_refused_together(job: LintJob) -> Iterator[LintFinding]:
    """Each of these programs checks its options before it loads a model, and ends with an error where two of them
    exclude each other, one is missing that another needs, or numbers do not divide."""
    yield from _told_wrongly(job, is_silent=False)


@rule(
    "W14",
    title="A program is told no option that it then passes over",
    severity="warning",
    source="DeepSpeed 0.19, zero/config.py: offload_param is of stage 3; accelerate 1.15, utils/launch.py and"
    " accelerator.py: ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    bad=(_PASSED.format(2, "cpu", 1, 1), _PASSED.format(2, "none", 1, 8)),
    good=(_PASSED.format(3, "cpu", 8, 8), _PASSED.format(2, "none", 8, "steps")),
)
def options_passed_over(job: LintJob) -> Iterator[LintFinding]:
    """What is written is taken without a word, and something else is done."""
    yield from _told_wrongly(job, is_silent=True)


def _told_wrongly(job: LintJob, *, is_silent: bool) -> Iterator[LintFinding]:
    for launch in job.launches[: look.SIBLINGS]:
        options = everywhere(job, launch)
        program = program_of(job, launch)
        in_file = next(iter(files_of(job, launch)), None)
        needs_file = program in ("llamafactory", "axolotl", "torchtune", "torchtitan", "composer", "nanotron")
        given = of_launch(job, launch, _world(job, launch, options))
        yield from of_rows("accelerate", _of_accelerate(given), is_silent=is_silent)
        if not program or (program == "llamafactory" and in_file is None):
            continue
        given.is_whole = given.is_whole and (in_file is not None or not needs_file)
        if program == "megatron":  # others have its names, and defaults of their own
            script = launch.script.shown if launch.script is not None else ""
            given.is_whole = given.is_whole and re.search(r"(?:train|tune|megatron)\w*\.py$", script) is not None
        yield from of_rows(program, given, is_silent=is_silent)


def _of_accelerate(given: ToldTogether) -> ToldTogether:
    """accelerate's file by its own keys, beside what the program hands to Accelerator."""
    options = {
        name.removeprefix("accelerate."): option
        for name, option in given.options.items()
        if name.startswith("accelerate.")
    }
    made = [call for call in given.code.calls if last_name(call.func) == "Accelerator"] if given.code else []
    steps = argument(made[0], "gradient_accumulation_steps") if len(made) == 1 else None
    number = PythonValues(given.code).value(steps) if given.code is not None and steps is not None else UNDECIDED
    return ToldTogether(options, True, {"program.gradient_accumulation_steps": number}, given.code)


def of_rows(program: str, given: ToldTogether, *, is_silent: bool) -> Iterator[LintFinding]:
    """What the rows of a program say to what it is told; one for each place."""
    written = _DEFAULTS.get(program, {})
    made = made_classes().get(program) if "." in program else None
    generated, known_defaults = rows_of(program) if made is None else (made.rows, made.defaults)
    only_known = _OnlyKnown(known_defaults | written)
    said: set[int] = set()
    for row in (*(row for row in _ROWS if row.program == program), *generated):
        defaults = only_known if row in generated else written
        if row.is_silent != is_silent or not given.holds(row.when, defaults):
            continue
        placed = given.placed(row.when)
        span = placed[0].word.span
        if said & {option.word.span.start for option in placed}:
            continue
        said.add(span.start)
        together = " and ".join(f"{each.written.lstrip('-')}{_shown(each)}" for each in placed[:4])
        missing = [name for name in names_of(row.when) if not given.is_told(name) and name in defaults]
        known = "".join(f", {name} {defaults[name]} by default" for name in missing if defaults[name] not in (None, ""))
        ranks = f", of {given.facts['world']} ranks" if "world" in names_of(row.when) else ""
        yield LintFinding(
            span=span,
            summary=f"{together}{known}{ranks}: {program} {'goes on otherwise' if is_silent else 'refuses that'}",
            happens=f"{row.says[:1].upper()}{row.says[1:].rstrip('.')}."
            if is_silent
            else f"It ends before training: {row.says.rstrip('.')}.",
            fix=row.fix,
        )


class _OnlyKnown(dict[str, object]):
    """Defaults of which not all are known."""

    def get(self, name: str, default: object = None) -> object:
        return super().get(name, None if "*" in self else UNDECIDED)


def _shown(option: ToldOption) -> str:
    return f" {option.value}" if option.value not in (None, "...", "true", "True") else ""


def _world(job: LintJob, launch: LintLaunch, options: Told) -> int | None:
    """Ranks, as verl's own options count them, else as the launcher starts them."""
    each, nodes = options.get("trainer.n_gpus_per_node"), options.get("trainer.nnodes")
    if each is not None:
        return each.number * (nodes.number or 0 if nodes is not None else 1) if each.number else None
    return world_of(job, launch)


_DEEPSPEED = (
    "accelerate launch --config_file ds.yaml sft.py --output_dir out --per_device_train_batch_size 4"
    " --gradient_accumulation_steps {}\n#@ file ds.yaml\ncompute_environment: LOCAL_MACHINE\ndeepspeed_config:\n"
    "  gradient_accumulation_steps: {}\n  zero_stage: 2\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\n"
    "num_machines: 1\nnum_processes: 8\n"
)
_SAME = (("gradient-accumulation-steps", "gradient_accumulation_steps"), ("gradient-clipping", "max_grad_norm"))
"""accelerate's options of DeepSpeed, and the program's."""


@rule(
    "W10",
    title="accelerate's file tells DeepSpeed what the program is told",
    source="transformers, integrations/deepspeed.py, trainer_config_process: mismatch; accelerate, DeepSpeedPlugin",
    leads_to=("program-error",),
    bad=(_DEEPSPEED.format(2, 4), _DEEPSPEED.format(8, 1)),
    good=(_DEEPSPEED.format(4, 4), _DEEPSPEED.format(4, "auto")),
)
def accelerate_and_program_differ(job: LintJob) -> Iterator[LintFinding]:
    """What stands below deepspeed_config goes to DeepSpeed as it is. transformers compares it with its own options."""
    for launch, options in with_options(job):
        if launch.launcher != "accelerate" or launch.option("use-deepspeed") is None:
            continue
        for name, own in _SAME:
            option, mine = launch.option(name), options.get(own)
            if option is None or option.value is None or mine is None or mine.value is None:
                continue
            theirs = option.value.text
            try:
                differ = theirs is not None and float(theirs) != float(mine.value)
            except ValueError:
                continue  # auto
            if differ:
                refused = bool(TRANSFORMERS & options.keys())
                yield LintFinding(
                    span=option.span,
                    severity=None if refused else "warning",
                    summary=f"{option.written} is {theirs} for DeepSpeed, and {mine.written} is {mine.value}",
                    happens="transformers ends: DeepSpeed config values that mismatch TrainingArguments values."
                    if refused
                    else f"DeepSpeed goes by {theirs}, and the program counts its steps by {mine.value}.",
                    fix=f"Write {name.replace('-', '_')}: {mine.value}, or auto.",
                )


_ALONE = frozenset(
    ("full_finetune_single_device", "lora_finetune_single_device", "lora_dpo_single_device", "generate",
     "ppo_full_finetune_single_device", "eleuther_eval", "quantize", "knowledge_distillation_single_device",
     "dev/generate_v2")
)  # fmt: skip
_TOGETHER = frozenset(
    ("full_finetune_distributed", "lora_finetune_distributed", "lora_dpo_distributed", "full_dpo_distributed",
     "qat_distributed", "qat_lora_finetune_distributed", "knowledge_distillation_distributed")
)  # fmt: skip
"""torchtune's recipes, by what they say of supports_distributed."""


@rule(
    "V13",
    title="torchtune's recipe is one for as many processes as are started",
    source="torchtune 0.6, _recipe_registry.py (supports_distributed), _cli/run.py; recipes' recipe_main",
    leads_to=("program-error",),
    bad=(
        "tune run --nproc_per_node 2 lora_finetune_single_device --config llama3_2/1B_lora_single_device\n",
        "tune run lora_finetune_distributed --config llama3_2/1B_lora\n",
        "tune run --nproc_per_node 2 lora_finetune_distributed\n",
    ),
    good=(
        "tune run lora_finetune_single_device --config llama3_2/1B_lora_single_device\n",
        "tune run --nproc_per_node 2 lora_finetune_distributed --config llama3_2/1B_lora\n",
    ),
)
def recipe_for_other_processes(job: LintJob) -> Iterator[LintFinding]:
    """A recipe whose name ends in single_device takes none of torchrun's options; a distributed one wants them."""
    for launch in job.launches:
        if launch.entry != "tune run" or launch.script is None:
            continue
        recipe = launch.script.shown
        if recipe in _ALONE and launch.every_option:
            yield LintFinding(
                span=launch.script.span,
                summary=f"{recipe} is a recipe for one process, and {launch.every_option[0].written} is given",
                happens=f"tune ends: Recipe {recipe} does not support distributed training. Run it without"
                " torchrun commands.",
                fix=f"Take {recipe.replace('single_device', 'distributed')} with a configuration of its own, or leave"
                " torchrun's options out.",
            )
        words = {word.shown.partition("=")[0] for word in launch.script_words}
        whole = all(word.text is not None for word in launch.script_words)
        if recipe in _ALONE | _TOGETHER and whole and not words & {"--config", "-h", "--help"}:
            yield LintFinding(
                span=launch.script.span,
                summary=f"{recipe} is started without --config",
                happens="It ends: The '--config' argument is required. Specify a valid config with --config.",
                fix=f"Write tune run {recipe} --config CONFIG; tune ls names them.",
            )
        elif recipe in _TOGETHER and not launch.every_option and not launch.unread:
            yield LintFinding(
                span=launch.script.span,
                summary=f"{recipe} is a recipe for several processes, and none of torchrun's options is given",
                happens="It ends: Distributed finetune recipe should be run via a distributed launcher.",
                fix=f"Write tune run --nproc_per_node N {recipe} ...",
            )
