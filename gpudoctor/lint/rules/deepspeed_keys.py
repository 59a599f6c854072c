"""Rules of the keys and values of DeepSpeed's file: D13 to D15."""

from collections.abc import Iterator, Mapping

from gpudoctor.knowledge.hugging_face_options import nearest
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.known_up_to import KnownUpTo, held_against, is_misspelt
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.exclusive_options import deepspeed_files
from gpudoctor.lint.schema_words import none_of_the_words, of_another_kind, unknown
from gpudoctor.lint.schemas import SchemaProblem, problems, schema
from gpudoctor.lint.told_files import of_file
from gpudoctor.lint.told_options import ToldOption

_FILE = (
    "deepspeed --num_gpus 4 train.py --deepspeed_config ds.json\n#@ file ds.json\n"
    '{{\n  "train_micro_batch_size_per_gpu": 4,\n  "zero_optimization": {{"stage": 3, {}}}\n}}\n'
)


_WARMUP = "warmup_num_steps warmup_type last_batch_iteration"
_SCHEDULERS = {
    "WarmupLR": f"warmup_min_lr warmup_max_lr {_WARMUP}",
    "WarmupDecayLR": f"total_num_steps warmup_min_lr warmup_max_lr {_WARMUP}",
    "WarmupCosineLR": f"total_num_steps warmup_min_ratio cos_min_ratio {_WARMUP}",
    "OneCycle": "cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size"
    " cycle_first_stair_count cycle_second_stair_count decay_step_size cycle_momentum cycle_min_mom cycle_max_mom"
    " decay_mom_rate last_batch_iteration",
    "LRRangeTest": "lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase"
    " last_batch_iteration",
}
"""DeepSpeed 0.19, runtime/lr_schedules.py."""
_READ = KnownUpTo("deepspeed", "0.19")
_MEANT = {"learning_rate": "lr"}
_NEEDED = {
    "WarmupDecayLR": ("total_num_steps",), "WarmupCosineLR": ("total_num_steps",),
    "OneCycle": ("cycle_min_lr", "cycle_max_lr"),
}  # fmt: skip
"""Without a default."""
_ADAM = (
    "lr betas eps weight_decay amsgrad bias_correction adam_w_mode torch_adam set_grad_none fp32_optimizer_states"
    " foreach maximize capturable differentiable fused decoupled_weight_decay max_grad_norm"
)
_ONEBIT = "lr freeze_step bias_correction betas eps eps_inside_sqrt weight_decay max_grad_norm amsgrad cuda_aware"
_OPTIMIZERS = {
    "adam": _ADAM,
    "adamw": _ADAM,
    "lamb": "lr bias_correction betas eps eps_inside_sqrt weight_decay max_grad_norm max_coeff min_coeff amsgrad",
    "lion": "lr betas weight_decay set_grad_none fp32_optimizer_states",
    "onebitadam": f"{_ONEBIT} comm_backend_name",
}
"""DeepSpeed 0.16 and 0.19, runtime/engine.py (_configure_basic_optimizer): of all that it may make of one name."""


@rule(
    "D13",
    title="Keys of DeepSpeed's file are spelled as DeepSpeed has them",
    source="DeepSpeed 0.19, runtime/config_utils.py: DeepSpeedConfigModel has extra=forbid; zero/config.py,"
    " zero/offload_config.py, precision_config.py",
    leads_to=("program-error",),
    bad=(
        _FILE.format('"offload_optimiser": {"device": "cpu"}'),
        _FILE.format('"overlap_com": true'),
        _FILE.format(
            '"stage3_max_reuse_distance": 9}, "scheduler": {"type": "WarmupLR", "params": {"warmup_steps": 9}'
        ),
        _FILE.format('"overlap_comm": true}, "optimizer": {"type": "AdamW", "params": {"learning_rate": 1e-4}'),
        _FILE.format('"overlap_comm": true}, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 9}'),
        _FILE.format('"overlap_comm": true}, "offload_param": {"device": "cpu"'),
    ),
    good=(
        _FILE.format('"offload_optimizer": {"device": "cpu"}'),
        _FILE.format('"of_a_later_release": 1'),
        _FILE.format('"overlap_comm": true}, "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "torch_adam": true}'),
    ),
)
def key_that_is_nearly_one(job: LintJob) -> Iterator[LintFinding]:
    """zero_optimization, its offload parts, fp16 and bf16 are checked by pydantic, which refuses a key that it does not
    know: Extra inputs are not permitted."""
    for _launch, problem in _by_table(job):
        if problem.what == "unknown" and (problem.wanted or problem.home):
            yield unknown(job, problem, "DeepSpeed ends: Extra inputs are not permitted:", "(extra_forbidden)")
    for _, section in deepspeed_files(job):
        told = of_file(section)
        yield from _parameters(job, told, "scheduler")
        yield from _parameters(job, told, "optimizer")
        zero = schema("deepspeed").fields("DeepSpeedZeroConfig")
        for name, option in told.items():
            part = name.partition(".")[0]
            if part in zero and part not in _OLD_TOP_LEVEL:
                yield LintFinding(
                    span=option.word.span,
                    summary=f"{part} stands at the top of DeepSpeed's file, where nothing reads it: it belongs into"
                    " zero_optimization",
                    happens="It is passed over without a word: ZeRO runs with its defaults, or not at all.",
                    fix=f'Write "zero_optimization": {{"{part}": ...}}.',
                    severity="warning",
                )
                break


_OLD_TOP_LEVEL = frozenset(("load_from_fp32_weights", "elastic_checkpoint", "grad_hooks", "pipeline"))


def _parameters(job: LintJob, told: Mapping[str, ToldOption], part: str) -> Iterator[LintFinding]:
    """A scheduler and an optimizer are made of their `params` by name."""
    kind = told.get(f"{part}.type")
    if kind is None or kind.value is None:
        return
    known = (
        _OPTIMIZERS.get(kind.value.lower(), "") if part == "optimizer" else _SCHEDULERS.get(kind.value, "")
    ).split()
    given = {name.removeprefix(f"{part}.params."): option for name, option in told.items()
             if name.startswith(f"{part}.params.")}  # fmt: skip
    for parameter, option in given.items() if known else ():
        if parameter.partition(".")[0] not in known:
            near = _MEANT.get(parameter) or nearest(parameter, frozenset(known), 0.6)
            finding = LintFinding(
                span=option.word.span,
                summary=f"{parameter} is no parameter of {kind.value}: {', '.join(known[:5])}",
                happens=f"TypeError: __init__() got an unexpected keyword argument '{parameter}'.",
                fix=f"Write {near}." if near else "Take it out.",
            )
            sure = parameter in _MEANT or is_misspelt(parameter, near)
            yield held_against(job, (_READ,), finding, sure=sure)
    for parameter in _NEEDED.get(kind.value, ()) if part == "scheduler" else ():
        if parameter not in given:
            yield LintFinding(
                span=kind.word.span,
                summary=f"{kind.value} wants {parameter}, which the file does not say",
                happens=f"TypeError: __init__() missing 1 required positional argument: '{parameter}'.",
                fix=f'Write "{parameter}" among its params (with transformers "auto"), or take WarmupLR.',
            )


@rule(
    "D14",
    title="Values of DeepSpeed's file are of the kind that DeepSpeed takes",
    source="DeepSpeed 0.19, zero/config.py, offload_config.py and precision_config.py: pydantic; since 0.15 an int"
    " takes no fraction",
    leads_to=("program-error",),
    bad=(
        _FILE.format('"reduce_bucket_size": 15099494.4'),
        _FILE.format('"stage3_max_live_parameters": -1'),
        _FILE.format('"offload_param": {"device": "disk"}'),
        _FILE.format('"offload_optimizer": "cpu"'),
    ),
    good=(
        _FILE.format('"reduce_bucket_size": 5e8, "overlap_comm": "true", "stage3_max_reuse_distance": "auto"'),
        _FILE.format('"offload_param": {"device": "cpu", "pin_memory": true}'),
    ),
)
def value_of_another_kind(job: LintJob) -> Iterator[LintFinding]:
    """A number with a fraction where a whole one is meant, a word for a part with keys of its own, another device."""
    for _launch, problem in _by_table(job):
        if problem.what == "kind":
            yield of_another_kind(job, problem)
        elif problem.what in ("word", "range"):
            yield none_of_the_words(problem)


def _by_table(job: LintJob) -> Iterator[tuple[LintLaunch, SchemaProblem]]:
    """What the table has against DeepSpeed's files. "auto" is taken out before pydantic sees a part
    (DeepSpeedConfigModel.__init__)."""
    for launch, section in deepspeed_files(job):
        documents = read_manifests(section.text, section.start, section.line)
        if len(documents) == 1 and not documents[0].fault:
            for problem in problems(schema("deepspeed"), "Config", documents[0], job.text):
                if problem.value.value != "auto":
                    yield launch, problem


_LOOP = (
    "deepspeed --num_gpus 2 own.py\n#@ file own.py\nimport deepspeed\nfrom mine import net, batches\n{}"
    "engine, _, _, _ = deepspeed.initialize(model=net, config='ds.json')\n"
    "for x in batches:\n    engine.backward(engine(x))\n    engine.step()\n#@ file ds.json\n"
    '{{\n  "train_micro_batch_size_per_gpu": {},\n  "zero_optimization": {{"stage": 2, "overlap_comm": "auto"}}\n}}\n'
)
_FILLED = lazy_re(
    r"(?:train_batch_size|train_micro_batch_size_per_gpu|gradient_accumulation_steps|gradient_clipping)"
    r"|(?:optimizer|scheduler)\.params\.\w+"
)
_COUNTS = {"train_batch_size", "train_micro_batch_size_per_gpu"}
_FILLS = lazy_re(r"\b(?:Trainer|Accelerator|DeepSpeedStrategy|HfTrainerDeepSpeedConfig|transformers|accelerate)\b")


@rule(
    "D15",
    title='What is "auto" in DeepSpeed\'s file is filled in by somebody',
    source="transformers, integrations/deepspeed.py (trainer_config_process); accelerate, accelerator.py"
    " (deepspeed_config_process); DeepSpeed 0.19, runtime/config.py: the top level is taken as it stands",
    leads_to=("program-error",),
    bad=(
        _LOOP.format("", '"auto"'),
        _LOOP.format("", '4,\n  "gradient_accumulation_steps": "auto"'),
        _LOOP.format("", "4").replace("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
    ),
    good=(
        _LOOP.format("", "4"),
        _LOOP.format("from transformers import Trainer\n", '"auto"'),
        _LOOP.format(
            "import json\nc = json.load(open('ds.json'))\nc['train_micro_batch_size_per_gpu'] = 4\n", '"auto"'
        ),
    ),
)
def auto_that_nobody_fills_in(job: LintJob) -> Iterator[LintFinding]:
    """transformers' Trainer and accelerate write numbers for "auto" in a batch, in steps and in the optimizer's
    parameters. DeepSpeed itself drops it from its parts alone, and ends at a word where it compares numbers."""
    for launch, section in deepspeed_files(job):
        code = next((code for code, starts in codes_and_starts(job) if launch in starts), None)
        if (
            code is None
            or _FILLS.search(code.text)
            or launch.launcher == "accelerate"
            or "json" in code.text.replace(".json", "")
        ):
            continue
        if not any(code.name(call.func) == "deepspeed.initialize" for call in code.calls):
            continue
        for name, option in of_file(section).items():
            if option.value == "auto" and _FILLED.fullmatch(name):
                yield LintFinding(
                    span=option.word.span,
                    summary=f"{name} is auto, and the program calls deepspeed.initialize itself",
                    happens="Nobody puts a number there: DeepSpeed compares a word with a number, and ends.",
                    fix="Write the number.",
                )
                break
        else:
            first = next(iter(of_file(section).values()), None)
            if first is not None and not _COUNTS & of_file(section).keys():
                yield LintFinding(
                    span=first.word.span,
                    summary="the file names no batch, and the program calls deepspeed.initialize itself",
                    happens="Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided.",
                    fix="Add train_micro_batch_size_per_gpu.",
                )
