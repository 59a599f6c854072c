"""Rules of models that transformers has loaded, and of engines that share them: T82, T83, W15."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.lint.called_with import of_call, start_of
from gpudoctor.lint.conditions import value_of_word
from gpudoctor.lint.model import LintJob, Span, Word
from gpudoctor.lint.python_code import PythonCode, codes_and_starts
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_files import of_file, of_program

_LOAD = "import torch\nfrom transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
_BIT = _LOAD + "net = AutoModelForCausalLM.from_pretrained('m', quantization_config=BitsAndBytesConfig({}=True))\n{}"


def _loaded(code: PythonCode) -> Iterator[tuple[ast.Call, str]]:
    """Calls of from_pretrained, and the name that each result gets."""
    for call in code.calls:
        above = code.parents.get(call)
        if last_name(call.func) == "from_pretrained" and isinstance(above, ast.Assign):
            target = above.targets[0]
            if isinstance(target, ast.Name):
                yield call, target.id


@rule(
    "T82",
    title="A model that was loaded in 8 bits stays where it is",
    source="transformers, modeling_utils.py, to() and cuda(): is not supported for `8-bit` bitsandbytes models",
    leads_to=("program-error",),
    bad=(
        _BIT.format("load_in_8bit", "net = net.to('cuda:0')\n"),
        _BIT.format("load_in_8bit", "net.cuda()\n"),
    ),
    good=(
        _BIT.format("load_in_8bit", "x = x.to('cuda:0')\n"),
        _BIT.format("load_in_4bit", "net = net.to('cuda:0')\n"),
    ),
)
def eight_bits_moved(job: LintJob) -> Iterator[LintFinding]:
    """bitsandbytes places the weights when they are loaded, and its 8-bit ones cannot be moved: cuda() is an error in
    every release, .to() with bitsandbytes before 0.48."""
    for code, starts in codes_and_starts(job):
        for loaded, name in _loaded(code):
            given = of_call(code, loaded, start_of(starts))
            eight = (given.value(key, {}) for key in ("load_in_8bit", "quantization_config.load_in_8bit"))
            if True not in eight:
                continue
            for call in code.calls:
                owner = call.func.value if isinstance(call.func, ast.Attribute) else None
                moved = last_name(call.func) in ("to", "cuda") and isinstance(owner, ast.Name) and owner.id == name
                if moved and call.lineno > loaded.lineno and code.scope_of(call) is code.scope_of(loaded):
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{name} is loaded in 8 bits, and .{last_name(call.func)}() moves it",
                        happens=f"ValueError: `.{last_name(call.func)}` is not supported for `8-bit` bitsandbytes"
                        " models.",
                        fix='Take the move out, and load it there: device_map={"": local_rank}.',
                    )
                    break


_HALF = (
    _LOAD + "from transformers import Trainer, TrainingArguments\n"
    "net = AutoModelForCausalLM.from_pretrained('m', {})\n"
    "args = TrainingArguments(output_dir='out', {})\nTrainer(model=net, args=args).train()\n"
)


@rule(
    "T83",
    title="A model that is trained with fp16 has its weights in float32",
    source="torch/amp/grad_scaler.py: Attempting to unscale FP16 gradients; transformers' Trainer with fp16=True",
    leads_to=("program-error",),
    bad=(
        _HALF.format("torch_dtype=torch.float16", "fp16=True"),
        _HALF.format("dtype='float16'", "fp16=True"),
    ),
    good=(
        _HALF.format("torch_dtype=torch.float16", "bf16=True"),
        _HALF.format("torch_dtype=torch.bfloat16", "fp16=False"),
        _HALF.format("torch_dtype=torch.float16", "fp16=True").replace(
            "Trainer(model=net", "Trainer(model=get_peft_model(net)"
        ),
    ),
)
def half_weights_with_a_scaler(job: LintJob) -> Iterator[LintFinding]:
    """The GradScaler of fp16 wants gradients in float32, which are those of float32 weights."""
    for code, starts in codes_and_starts(job):
        if re.search(r"peft|LoraConfig|deepspeed|fsdp|load_in_|\.float\(\)", code.text) or len(starts) > 1:
            continue
        if starts:
            told = of_program(job, starts[0]).get("fp16")
            half = told is not None and told.is_known and value_of_word(told.value) is True
        else:
            half = any(
                last_name(call.func) == "TrainingArguments" and of_call(code, call, None).value("fp16", {}) is True
                for call in code.calls
            )
        for loaded, name in _loaded(code) if half else ():
            given = of_call(code, loaded, None)
            key = "torch_dtype" if given.is_told("torch_dtype") else "dtype"
            trained = re.search(rf"\bTrainer\(\s*(?:model\s*=\s*)?{re.escape(name)}\b", code.text) is not None
            if trained and given.value(key, {}) in ("torch.float16", "torch.half", "float16"):
                yield LintFinding(
                    span=given.options[key].word.span,
                    summary=f"{name} is loaded in float16 and trained with fp16=True",
                    happens="ValueError: Attempting to unscale FP16 gradients.",
                    fix="Load it in float32 (take the type out), or write bf16=True and torch.bfloat16.",
                )


class _Engine(NamedTuple):
    model: str
    parts: int
    span: Span
    written: str


_SERVE = 'vllm serve ./m --tensor-parallel-size {}\n#@ file m/config.json\n{{\n  "num_attention_heads": 40\n}}\n'
_SGLANG = (
    'python -m sglang.launch_server --model-path ./m --tp {}\n#@ file m/config.json\n{{"num_attention_heads": 28}}\n'
)
_SIZES = ("--tensor-parallel-size", "-tp", "--tp", "--tp-size", "--tensor_parallel_size")
_MODELS = ("--model", "--model-path", "--model_path")
_HEADS = ("num_attention_heads", "text_config.num_attention_heads", "n_head", "llm_config.num_attention_heads")


@rule(
    "W15",
    title="An engine's model has as many heads as can be cut in its parts",
    source="vLLM, config/model.py, verify_with_parallel_config: Total number of attention heads must be divisible by"
    " tensor parallel size; sglang asserts the same",
    leads_to=("program-error",),
    bad=(_SERVE.format(3), _SGLANG.format(8)),
    good=(_SERVE.format(4), _SGLANG.format(4), "vllm serve mine/model --tensor-parallel-size 3\n"),
)
def heads_over_parts(job: LintJob) -> Iterator[LintFinding]:
    """Tensor parallel workers share the attention heads in equal parts. How many there are stands in the model's
    config.json."""
    for engine in _engines(job):
        short = engine.model.rstrip("/").rpartition("/")[2]
        section = next(
            (
                section
                for section in job.sections
                if section.kind == "file"
                and section.name.endswith("config.json")
                and section.name.split("/")[-2:-1] == [short]
            ),
            None,
        )
        options = of_file(section) if section is not None and short else {}
        heads = next((options[name].number for name in _HEADS if name in options), None)
        if heads and engine.parts > 0 and heads % engine.parts:
            divisors = [str(part) for part in range(1, min(heads, 65)) if heads % part == 0]
            yield LintFinding(
                span=engine.span,
                summary=f"{heads} attention heads of {short} are no multiple of {engine.written} {engine.parts}",
                happens=f"ValueError: Total number of attention heads ({heads}) must be divisible by tensor parallel"
                f" size ({engine.parts}).",
                fix=f"Take one of {', '.join(divisors)}; the other GPUs by --pipeline-parallel-size.",
            )


def _engines(job: LintJob) -> Iterator[_Engine]:
    for invocation in job.invocations:
        words = invocation.words
        text = [word.text or "" for word in words]
        serves = text[:2] == ["vllm", "serve"] or any(re.match(r"(?:vllm|sglang)\.", each) for each in text)
        size = _after(words, _SIZES) if serves else None
        if size is None or not (size.text or "").isdigit():
            continue
        named = _after(words, _MODELS)
        model = named.text if named is not None else text[2] if text[:2] == ["vllm", "serve"] and len(text) > 2 else ""
        yield _Engine(model or "", int(size.text or "0"), size.span, "tensor parallel size")
    for code, starts in codes_and_starts(job):
        for call in code.calls:
            if code.name(call.func) == "vllm.LLM":
                given = of_call(code, call, start_of(starts), ("model",))
                parts, named_model = given.value("tensor_parallel_size", {}), given.value("model", {})
                if isinstance(parts, int) and isinstance(named_model, str):
                    yield _Engine(
                        named_model, parts, given.options["tensor_parallel_size"].word.span, "tensor_parallel_size"
                    )


def _after(words: tuple[Word, ...], names: tuple[str, ...]) -> Word | None:
    return next((words[index + 1] for index, word in enumerate(words[:-1]) if word.text in names), None)
