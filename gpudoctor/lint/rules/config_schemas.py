"""Rules of configurations by the classes and schemas that read them: W17 to W19, J21."""

import re
from collections.abc import Iterator

from msgspec import structs

from gpudoctor.knowledge.hugging_face_arguments import lost_argument
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.schema_words import of_another_kind, refused
from gpudoctor.lint.schemas import problems, schema
from gpudoctor.lint.told_files import files_of
from gpudoctor.lint.told_programs import program_of

_AXOLOTL = "axolotl train a.yml\n#@ file a.yml\nbase_model: m\ndatasets:\n  - path: d\n    type: alpaca\n{}\n"
_TEMPLATE = lazy_re(r"\{\{|\{%")


@rule(
    "W17",
    title="A configuration is YAML, and its values are of the kinds that the program takes",
    source="axolotl 0.19, utils/schemas (pydantic): a table of its fields; PyYAML",
    leads_to=("program-error",),
    bad=(
        _AXOLOTL.format("pretraining_dataset:\n  path: d"),
        _AXOLOTL.format("save_strategy: no"),
        _AXOLOTL.format("sequence_len: 4k"),
        _AXOLOTL.format("PUT_YOUR_DATA_HERE\nmicro_batch_size: 1"),
    ),
    good=(
        _AXOLOTL.format("max_steps: 9\npretraining_dataset:\n  - path: d"),
        _AXOLOTL.format('save_strategy: "no"'),
        _AXOLOTL.format("sequence_len: 4096\nlearning_rate: 2e-5\nmine: [1]"),
    ),
)
def configuration_of_other_kinds(job: LintJob) -> Iterator[LintFinding]:
    """The file is read and held against the program's own classes before a model is loaded: a mapping where a list is
    wanted, a word where a number is, and `no`, which YAML reads as false."""
    said: set[int] = set()
    for launch in job.launches[: look.SIBLINGS]:
        for section in files_of(job, launch):
            if section.start in said or not section.name.endswith((".yaml", ".yml")) or _TEMPLATE.search(section.text):
                continue
            said.add(section.start)
            documents = read_manifests(section.text, section.start, section.line)
            if documents and documents[-1].fault:
                yield from _no_yaml(section.name, documents[-1])
            elif len(documents) == 1 and program_of(job, launch) == "axolotl":
                table = schema("axolotl")
                for problem in problems(table, table.kinds["axolotl"], documents[0], job.text):
                    if problem.what == "kind":
                        yield of_another_kind(job, problem)
                    elif problem.what in ("word", "range"):
                        yield refused(job, problem, "axolotl refuses", "")


def _no_yaml(name: str, document: Manifest) -> Iterator[LintFinding]:
    """What stands before the fault is read; what is shown is the last of it."""
    last = max(document.values, key=lambda value: value.span.start, default=None)
    if last is not None and "more than" not in document.fault:
        yield LintFinding(
            span=last.span,
            summary=f"{name} is no YAML: {document.fault}",
            happens="Every rank ends while it reads its configuration.",
            fix="Mend the line that is named: each line is `key: value`, or an item of a list.",
        )


_FACTORY = (
    "llamafactory-cli train a.yaml\n#@ file a.yaml\nmodel_name_or_path: m\nstage: sft\ndo_train: true\n"
    "finetuning_type: lora\ndataset: d\ntemplate: llama3\noutput_dir: o\n{}\n"
)


@rule(
    "W19",
    title="Keys and words of LLaMA-Factory's file are those of the release that runs",
    severity="warning",
    source="LLaMA-Factory 0.3 to 0.9.6, hparams/*.py and extras/constants.py; hparams/parser.py: parse_dict, Some keys"
    " are not used by the HfArgumentParser; transformers 4.46: evaluation_strategy",
    leads_to=("program-error",),
    bad=(
        _FACTORY.format("quantization_bit: 4\nquantization_method: bitsandbytes"),
        _FACTORY.format("num_layer_trainable: 2"),
        _FACTORY.format("evaluation_strategy: steps"),
    ),
    good=(
        _FACTORY.format("quantization_bit: 4\nquantization_method: bnb"),
        _FACTORY.format("freeze_trainable_layers: 2\nflash_attn: fa2"),
        _FACTORY.format("eval_strategy: steps"),
    ),
)
def keys_of_another_release(job: LintJob) -> Iterator[LintFinding]:
    """Keys come and go with releases: one that nobody uses any more ends the start. A word that is none of those that
    it asks for is taken, and none of its branches."""
    table = schema("llamafactory")
    gone = table.fields("Gone")
    for launch in job.launches[: look.SIBLINGS]:
        section = next(iter(files_of(job, launch)), None)
        if section is None or not launch.entry.startswith(("llamafactory-cli", "lmf")):
            continue
        for document in read_manifests(section.text, section.start, section.line)[:1]:
            for problem in problems(table, table.kinds["llamafactory"], document, job.text):
                if problem.what == "word":
                    yield structs.replace(
                        refused(job, problem, "", ""),
                        happens="It is refused, or taken for none of them: nothing is done of it.",
                    )
            for value in document.values:
                name = value.path[0] if len(value.path) == 1 else ""
                lost = lost_argument("TrainingArguments", name)
                version = job.facts.version("transformers") if lost is not None else None
                if lost is not None and (lost.gone < (5,) if version is None else version >= lost.gone):
                    yield _lost(value, name, lost.since, f"Write {lost.today.replace('=', ': ')}{value.value}.")
                elif name in gone and _is_gone(job, gone[name]):
                    yield _lost(
                        value, name, f"gone since LLaMA-Factory {gone[name]}", "Take it out, or write its new name."
                    )


_SETTLED = (0, 9, 2)
"""LLaMA-Factory of spring 2025: what later releases dropped may be right for the one that runs, which is not told."""


def _is_gone(job: LintJob, version: str) -> bool:
    at = tuple(map(int, version.split(".")))
    return at <= (job.facts.version("llamafactory") or _SETTLED)


def _lost(value: ManifestValue, name: str, since: str, fix: str) -> LintFinding:
    return LintFinding(
        span=value.span,
        summary=f"{name} is no key of the file any more ({since})",
        happens="ValueError: Some keys are not used by the HfArgumentParser.",
        fix=fix,
    )


_TUNE = (
    "tune run {} --config a.yaml\n#@ file a.yaml\n"
    "tokenizer: {{_component_: torchtune.models.llama3.llama3_tokenizer}}\n{}"
)
_PARTS = ("tokenizer", "dataset", "checkpointer", "model", "optimizer")
_RECIPES = lazy_re(r"(?:full|lora|qat|knowledge_distillation|dpo|full_dpo|lora_dpo)\w*_(?:single_device|distributed)")
_WHOLE = (
    "dataset: {_component_: torchtune.datasets.alpaca_dataset}\noptimizer: {_component_: torch.optim.AdamW}\n"
    "checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer}\n"
)
_MODEL = "model: {_component_: torchtune.models.llama3_2.llama3_2_1b}\n"


@rule(
    "W18",
    title="A recipe of torchtune is told its parts, each by a name that can be imported",
    source="torchtune 0.6, recipes/*.py: cfg.model, cfg.tokenizer, ...; config/_utils.py, _get_component_from_path",
    leads_to=("program-error",),
    bad=(
        _TUNE.format("full_finetune_single_device", _WHOLE),
        _TUNE.format("lora_finetune_single_device", _WHOLE + _MODEL.replace("torchtune.models", "/home/me.models")),
    ),
    good=(
        _TUNE.format("full_finetune_single_device", _WHOLE + _MODEL),
        _TUNE.format("my_recipe.py", _WHOLE),
        _TUNE.format("full_finetune_single_device", "dataset: {_component_: torchtune.datasets.alpaca_dataset}\n"),
    ),
)
def recipe_without_its_parts(job: LintJob) -> Iterator[LintFinding]:
    """A recipe makes each part of what the file says of it. A part that is missing, or whose name is no dotted name of
    Python's, ends it at once."""
    for launch in job.launches[: look.SIBLINGS]:
        section = next(iter(files_of(job, launch)), None) if launch.entry == "tune run" else None
        if section is None or launch.script is None:
            continue
        words = " ".join(word.shown for word in launch.script_words)
        for document in read_manifests(section.text, section.start, section.line)[:1]:
            for value in document.values:
                named = value.path[-1:] == ("_component_",) and not re.search(r"[${<]", value.value)
                if named and not re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)*", value.value, re.ASCII):
                    yield LintFinding(
                        span=value.span,
                        summary=f"the component {value.value[:60]} is no dotted name of Python's",
                        happens="InstantiationError: the module of _component_ cannot be imported.",
                        fix="Write the path of the class or function: torchtune.models.llama3.llama3_8b.",
                    )
            missing = [part for part in _PARTS if not any(value.path[:1] == (part,) for value in document.values)]
            is_whole = len(missing) == 1 and not document.fault and f"{missing[0]}." not in words
            if is_whole and _RECIPES.fullmatch(launch.script.shown) and document.values:
                yield LintFinding(
                    span=document.values[0].span,
                    summary=f"{section.name} says nothing of {missing[0]}, which the recipe makes",
                    happens=f"ConfigAttributeError: Missing key {missing[0]}.",
                    fix=f"Write {missing[0]}: with its _component_.",
                )


_DSTACK = (
    "type: task\nname: t\n{}\ncommands:\n  - torchrun --nproc-per-node=8 --nnodes=2 --node-rank=$DSTACK_NODE_RANK"
    " --master-addr=$DSTACK_MASTER_NODE_IP train.py\nresources:\n  gpu: H100:8\n"
)
_DETERMINED = (
    "name: t\nentrypoint: python3 -m determined.launch.torch_distributed python3 train.py\nresources:\n"
    "  {}: 8\nsearcher:\n  name: single\n  metric: loss\n  max_length: {{{}: 3}}\n"
)
_AZURE = (
    "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ncommand: python train.py\ncode: src\n"
    "environment: azureml:torch:4\nresources: {{instance_count: 2}}\n"
    "distribution: {{type: pytorch, {}: 4}}\n"
)


@rule(
    "J21",
    title="A service's file has the fields that the service knows",
    source="dstack 0.22, core/models (extra=forbid); Determined 0.38, schemas/expconf/v0; azure-ai-ml 1.35, _schema"
    " (unknown = RAISE)",
    bad=(
        _DSTACK.format("nnodes: 2"),
        _DSTACK.format("nodes: 2\nshm_size: 16GB"),
        _DETERMINED.format("slots_per_trial", "epoch"),
        _DETERMINED.format("slots", "epochs"),
        _AZURE.format("process_count"),
    ),
    good=(
        _DSTACK.format("nodes: 2\nenv: [A=1]\npython: 3.12"),
        _DETERMINED.format("slots_per_trial", "epochs"),
        _AZURE.format("process_count_per_instance"),
    ),
)
def field_of_no_service(job: LintJob) -> Iterator[LintFinding]:
    """These services hold a file against a schema that takes no other fields, before anything starts."""
    for manifest in job.manifests:
        found = _schema_of(manifest)
        if found is None or manifest.fault or manifest.api_version:
            continue
        name, kind, who = found
        table = schema(name)
        for problem in problems(table, table.kinds[kind], manifest, job.text, whole=name == "azure"):
            yield refused(job, problem, who, "")
        slots = next((value for value in manifest.values if value.path == ("resources", "slots")), None)
        if name == "determined" and slots is not None:
            yield LintFinding(
                span=slots.span,
                summary=f"resources.slots is {slots.value}, which is of commands; an experiment has slots_per_trial",
                happens="It is passed over: each trial gets one slot, so that one GPU trains.",
                fix=f"Write slots_per_trial: {slots.value}.",
            )


def _schema_of(manifest: Manifest) -> tuple[str, str, str] | None:
    """The table of a document, the object that it is, and who reads it."""
    top = {value.path[0] for value in manifest.values if value.path}
    words = {value.path[0]: value.value for value in manifest.values if len(value.path) == 1}
    kind, published = words.get("type", ""), words.get("$schema", "")
    if manifest.kind == "dstack":
        of = {"task": "TaskConfiguration", "service": "ServiceConfiguration"}.get(kind)
        return ("dstack", of, "dstack refuses") if of else None
    if "searcher" in top and top & {"entrypoint", "hyperparameters"} and "resources" in top:
        return "determined", "determined", "det experiment create refuses"
    if "commandJob.schema" in published or (manifest.kind == "AzureML" and kind == "command" and not published):
        return "azure", "CommandJob", "az ml job create refuses"
    if "pipelineJob.schema" in published:
        return "azure", "PipelineJob", "az ml job create refuses"
    return None
