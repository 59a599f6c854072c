"""What a table of releases does not know may be newer than the table: told as a warning, unless it is wrong in any."""

import pytest

from gpudoctor.knowledge.misspelt import nearest
from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.lint import lint
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule

_LIGHTNING = "from lightning import Trainer\ntrainer = Trainer({}=4)\n"
_CLI = (
    "python main.py fit --config c.yaml\n#@ file main.py\nfrom lightning.pytorch.cli import LightningCLI\n"
    "LightningCLI()\n#@ file c.yaml\ntrainer:\n  accelerator: gpu\n  {}: 4\n"
)
_PROGRAM = (
    "#@ file fit.py\nfrom transformers import HfArgumentParser, TrainingArguments\n"
    "(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()\n#@ every node\n"
    "torchrun --standalone --nproc_per_node=4 fit.py --output_dir out --{} 4\n"
)
_ACCELERATE = (
    "accelerate launch --config_file a.yaml t.py\n#@ file a.yaml\ncompute_environment: LOCAL_MACHINE\n"
    "distributed_type: MULTI_GPU\n{}: 4\n"
)
_SKY = (
    "num_nodes: 1\nresources:\n  accelerators: A100:8\n{}: 4\nrun: |\n  torchrun --standalone --nproc_per_node=8 t.py\n"
)
_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: fit}}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n      containers:\n      - name: fit\n        image: 'registry/fit:1'\n"
    "        command: [torchrun, fit.py]\n        {}: here\n"
)
_DEEPSPEED = (
    'deepspeed --num_gpus 4 t.py --deepspeed_config z.json\n#@ file z.json\n{{"train_batch_size": 4, "optimizer": '
    '{{"type": "AdamW", "params": {{"lr": 1e-4, "{}": 4}}}}}}\n'
)
_TRL = "from trl import GRPOConfig\nGRPOConfig({}=4)\n"
_TRAINING = "from transformers import TrainingArguments\nTrainingArguments('out', {}=4)\n"
_LOADER = "from torch.utils.data import DataLoader\nDataLoader(data, {}=4)\n"
_RUN = "torchrun --standalone --{}=4 t.py\n"
CASES = {
    # rule, text, a word of tomorrow, one that is wrong in any release, facts of a release within the table
    "trl": ("T49", _TRL, "reward_of_tomorrow", "num_generation", "trl=0.20.0,transformers=4.50"),
    "transformers": ("T49", _TRAINING, "steps_of_tomorrow", "warmup_step", "transformers=4.50.1"),
    "a parser's options": ("V14", _PROGRAM, "steps_of_tomorrow", "warmup_stesp", "transformers=4.50.1"),
    "torch": ("T10", _LOADER, "seeds_of_tomorrow", "batchsize", "torch=2.6"),
    "Trainer": ("L09", _LIGHTNING, "steps_of_tomorrow", "epochs", "lightning=2.4"),
    "Trainer's file": ("L12", _CLI, "steps_of_tomorrow", "devicez", "lightning=2.4"),
    "torchrun": ("V03", _RUN, "ranks-of-tomorrow", "nproc-per-nodes", "torch=2.6"),
    "torchrun, another's option": ("V03", _RUN, "ranks-of-tomorrow", "num_processes", "torch=2.6"),
    "torchrun, the program's option": ("V03", _RUN, "ranks-of-tomorrow", "gradient_checkpointing", "torch=2.6"),
    "accelerate's file": ("W13", _ACCELERATE, "ranks_of_tomorrow", "num_process", "accelerate=1.2"),
    "SkyPilot": ("J15", _SKY, "nodes_of_tomorrow", "num_node", "skypilot=0.9"),
    "Kubernetes": ("K37", _JOB, "planOfTomorrow", "workngDir", "kubernetes=1.30"),
    "DeepSpeed's optimizer": ("D13", _DEEPSPEED, "rate_of_tomorrow", "weight_decy", "deepspeed=0.16"),
}  # fmt: skip


def _told(text: str, code: str, facts: str = "") -> list[tuple[str, str]]:
    report = lint(read_job(text, parse_facts(facts)), every_rule())
    return [(each.severity, each.summary) for each in report.problems if each.code == code]


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_a_word_that_no_table_has_is_no_error_where_the_release_is_not_told(name: str) -> None:
    code, text, newer, wrong, within = CASES[name]
    ((severity, summary),) = _told(text.format(newer), code)
    assert severity == "warning"
    assert "not known up to" in summary
    assert [each for each, _ in _told(text.format(wrong), code)] == ["error"]
    assert [each for each, _ in _told(text.format(newer), code, within)] == ["error"]


@pytest.mark.quick
def test_a_release_behind_the_table_is_as_one_that_is_not_told() -> None:
    (told,) = _told(_LIGHTNING.format("some_day"), "L09", "lightning=2.9")
    assert told[0] == "warning"
    assert "lightning 2.6" in told[1]


@pytest.mark.quick
def test_what_a_release_brought_is_known_and_refused_by_older_ones() -> None:
    text = "from trl import GRPOConfig\nGRPOConfig(chat_template_kwargs={})\n"
    assert _told(text, "T49") == []
    assert _told(text, "T49", "trl=1.16.0") == []
    ((severity, summary),) = _told(text, "T49", "trl=0.20.0")
    assert severity == "error"
    assert "came after trl" in summary


@pytest.mark.quick
def test_another_name_of_the_family_is_not_a_misspelt_one() -> None:
    assert nearest("max_length", ("max_seq_length",)) == ""
    assert nearest("num_generation", ("num_generations",)) == "num_generations"
