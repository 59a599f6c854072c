"""Rules of what the options of axolotl, LLaMA-Factory, transformers and torchtune say together: W10 to W12, V13."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.training_files import REFUSED
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import files_of, with_options
from gpudoctor.lint.told_options import ToldOption, is_whole

Told = dict[str, ToldOption]
_OFF = frozenset(("false", "no", "off", "0", "0.0", "none", "null"))
_AXOLOTL = (
    "accelerate launch --multi_gpu --num_processes 4 -m axolotl.cli.train lora.yml\n#@ file lora.yml\n"
    "base_model: m\nadapter: {}\nload_in_4bit: {}\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\n{}"
)
_FACTORY = (
    "FORCE_TORCHRUN=1 llamafactory-cli train sft.yaml\n#@ file sft.yaml\nstage: sft\ndo_train: true\ndataset: {}\n"
    "finetuning_type: {}\n{}"
)
_TRANSFORMERS = frozenset(("per_device_train_batch_size", "output_dir", "num_train_epochs"))
"""Names of which transformers' options have at least one."""


def _program(launch: LintLaunch, options: Told) -> str:
    """Whose options they are; empty where that is not told."""
    name = launch.script.shown if launch.script is not None else ""
    if launch.launcher == "axolotl" or name.startswith("axolotl.") or launch.entry.startswith("axolotl"):
        return "axolotl"
    if launch.entry.startswith(("llamafactory-cli", "lmf")) or re.search(r"llamafactory|LLaMA-Factory", name):
        return "llamafactory"
    return "transformers" if _TRANSFORMERS & options.keys() else ""


def is_on(option: ToldOption | None) -> bool:
    return option is not None and (option.value is None or option.value.lower() not in _OFF)


def _holds(condition: str, options: Told) -> bool:
    name, unequal, values = condition.partition("!=" if "!=" in condition else "=")
    if condition.startswith("!"):
        return not is_on(options.get(condition[1:]))
    if not unequal:
        return is_on(options.get(name))
    option = options.get(name)
    known = option is not None and option.value is not None
    return known and option is not None and (option.value in values.split("|")) == (unequal == "=")


@rule(
    "W11",
    title="A program is told no options that it refuses together",
    source="axolotl 0.13, utils/schemas; LLaMA-Factory 0.9.5, hparams/parser.py; transformers, training_args.py",
    leads_to=("program-error",),
    bad=(
        _AXOLOTL.format("qlora", "true", "deepspeed: zero2.json\nfsdp:\n  - full_shard\n"),
        _AXOLOTL.format("qlora", "false", ""),
        _FACTORY.format("mine", "full", "quantization_bit: 4\n"),
        _FACTORY.format("mine", "lora", "streaming: true\n"),
    ),
    good=(
        _AXOLOTL.format("qlora", "true", "deepspeed: zero2.json\n"),
        _AXOLOTL.format("lora", "false", "fsdp:\n  - full_shard\n"),
        _FACTORY.format("mine", "lora", "quantization_bit: 4\nstreaming: true\nmax_steps: 100\n"),
    ),
)
def options_refused_together(job: LintJob) -> Iterator[LintFinding]:
    """Each of these programs checks its options before it loads a model, and ends with a ValueError where two of them
    exclude each other or one is missing that another needs."""
    for launch, options in with_options(job):
        program = _program(launch, options)
        in_file = next(iter(files_of(job, launch)), None)
        whole = is_whole(launch) and (in_file is not None or program == "transformers")
        for row in REFUSED:
            conditions = row.conditions.split()
            if row.program != program or (not whole and any(condition.startswith("!") for condition in conditions)):
                continue
            if program == "llamafactory" and in_file is None:
                continue
            if not all(_holds(condition, options) for condition in conditions):
                continue
            names = [re.split(r"!?=", condition)[0] for condition in conditions if not condition.startswith("!")]
            missing = [condition[1:] for condition in conditions if condition.startswith("!")]
            placed = [options[name] for name in names]
            together = " and ".join(f"{each.written.lstrip('-')}{_shown(each)}" for each in placed)
            without = f" without {missing[0]}" if missing else ""
            yield LintFinding(
                span=placed[0].word.span,
                summary=f"{together}{without}: {program} refuses that",
                happens=f"It ends before training: {row.says.rstrip('.')}.",
                fix=row.fix,
            )
            break


def _shown(option: ToldOption) -> str:
    return f" {option.value}" if option.value not in (None, "...", "true", "True") else ""


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
                refused = bool(_TRANSFORMERS & options.keys())
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
        elif recipe in _TOGETHER and not launch.every_option and not launch.unread:
            yield LintFinding(
                span=launch.script.span,
                summary=f"{recipe} is a recipe for several processes, and none of torchrun's options is given",
                happens="It ends: Distributed finetune recipe should be run via a distributed launcher.",
                fix=f"Write tune run --nproc_per_node N {recipe} ...",
            )
