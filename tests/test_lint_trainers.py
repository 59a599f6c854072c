"""Trainer calls in Python texts and in the arguments of scripts."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.lint.trainers import calls, of_arguments
from tests.test_lint_launchers import launch

SCRIPT = """\
import pytorch_lightning as pl
# Trainer(gpus=1)
name = "ä Trainer(gpus=2)"
trainer = pl.Trainer(gpus=4, num_nodes=3,
                     strategy="ddp", **more)  # é
dist.init_process_group("nccl", rank=int(os.environ["RANK"]))
model = torch.nn.DataParallel(model.half(), [0, 1])
"""


@pytest.mark.parametrize(("before", "after"), [("", ""), ("ü = 1\n", ""), ("python train.py ä\n", "if [ x ]; then\n")])
def test_calls(before: str, after: str) -> None:
    text = (
        before + SCRIPT.replace('name = "ä Trainer(gpus=2)"\n', "" if after else 'name = "ä Trainer(gpus=2)"\n') + after
    )
    whole = "#@ file x.py\n" + text
    found = calls(text, start=13, line=2)
    assert [(each.name, each.arguments) for each in found] == [
        ("Trainer", {"gpus": "4", "num_nodes": "3", "strategy": '"ddp"'}),
        ("init_process_group", {"backend": '"nccl"', "rank": 'int(os.environ["RANK"])'}),
        ("DataParallel", {"module": "model.half()", "device_ids": "[0, 1]"}),
    ]
    trainer = found[0]
    assert {name: whole[span.start : span.end] for name, span in trainer.spans.items()} == {
        "gpus": "gpus=4", "num_nodes": "num_nodes=3", "strategy": 'strategy="ddp"',
    }  # fmt: skip
    assert whole[trainer.span.start :].startswith("pl.Trainer(gpus=4") and whole[: trainer.span.end].endswith("**more)")
    assert whole.splitlines()[trainer.span.line - 1].startswith("trainer =")
    assert whole.splitlines()[trainer.spans["strategy"].line - 1].lstrip().startswith("strategy")


def test_definitions_and_comments_are_no_calls() -> None:
    assert calls("class Trainer(Base):\n    pass\n# Trainer(gpus=1)\nx = MyTrainer(gpus=1)\nif [ ]; then") == ()


def test_a_call_that_never_ends_is_none() -> None:
    assert calls("Trainer(gpus=4, strategy='ddp\n)") == ()
    assert calls("Trainer(" * 3000) == ()


@given(st.text(alphabet=st.sampled_from("Trainer(=)'\"\\#[]{},\n 4é\r\f"), max_size=60) | st.text(max_size=50))
def test_any_text_is_read(text: str) -> None:
    for each in calls("Trainer(gpus=4)" + text) + calls("Trainer(" + text) + calls(text):
        assert each.span.start <= each.span.end


@given(st.text(alphabet=st.sampled_from("ab \n#é\U0001f600"), max_size=20), st.integers(0, 9))
def test_spans_are_characters(before: str, gpus: int) -> None:
    text = f"'''{before}'''; Trainer(gpus = {gpus} )\n"
    (found,) = calls(text)
    span = found.spans["gpus"]
    assert text[span.start : span.end] == f"gpus = {gpus}"
    assert found.span.line == text.count("\n", 0, found.span.start) + 1


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("--gpus 4 --num_nodes=3 --strategy ddp", {"gpus": "4", "num_nodes": "3", "strategy": '"ddp"'}),
        ("fit --trainer.devices=4 --trainer.precision 16-mixed", {"devices": "4", "precision": '"16-mixed"'}),
        ("trainer.gpus=4 +trainer.num_nodes=2 data.path=x", {"gpus": "4", "num_nodes": "2"}),
        ("--devices -1 --accelerator 'gpu'", {"devices": "-1", "accelerator": '"gpu"'}),
        ("--devices 0,1 --sync_batchnorm --lr 1", {"devices": '"0,1"', "sync_batchnorm": "True"}),
        ("--num-nodes 2 --gpus=[0,1]", {"num_nodes": "2", "gpus": "[0,1]"}),
        ("--devices --lr 1", None),
        ("--lr 0.1", None),
        ("", None),
    ],
)
def test_arguments_of_the_script(arguments: str, found: dict[str, str] | None) -> None:
    line = f"python train.py {arguments}"
    call = of_arguments(launch(line))
    assert (call.arguments if call is not None else None) == found
    if call is not None:
        assert call.name == "arguments"
        assert all(line[span.start : span.end].split("=")[0].split()[0] in arguments for span in call.spans.values())
