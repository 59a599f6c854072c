"""What `gpudoctor train-test` is going to run: names of old and new, launches, and what does not apply where."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.train.plan import plan, train_plan
from gpudoctor.train.ways import DEFAULT, PRECISIONS, WAYS, parse_precisions, parse_ways
from gpudoctor.train.wish import TrainWish

WORKERS = Path(__file__).parent.parent / "gpudoctor" / "workers"


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("ddp", ("ddp",)),
        ("fsdp, ddp ,ddp", ("ddp", "fsdp")),
        ("DDP,no-sync", ("ddp", "no_sync")),
        ("ddp_spawn", ("spawn",)),
        ("fsdp2,model_parallel,dataparallel", ("dp", "fsdp", "split")),
        ("strategy=ddp", ("ddp",)),
        ("all", tuple(WAYS)),
        ("single,all", tuple(WAYS)),
    ],
)
def test_names_of_ways(text: str, ways: tuple[str, ...]) -> None:
    assert parse_ways(text) == (ways, {})


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("ddp2", "ddp2", ("removed in lightning 1.7", 'strategy="ddp"', "--strategy lightning")),
        ("horovod", "horovod", ("removed in lightning 2.0",)),
        ("bagua", "bagua", ("removed in lightning 2.0",)),
        ("ddp_sharded", "ddp_sharded", ("removed in lightning 2.0", "fsdp")),
        ("distributed_backend=dp", "distributed_backend=dp", ("removed in lightning 1.5", "strategy=", "dp is tried")),
        ('accelerator="ddp"', 'accelerator="ddp"', ("removed in lightning 1.7", 'accelerator="gpu", strategy="ddp"')),
        ("strategy=dp", "strategy=dp", ("removed in lightning 2.0", 'strategy="ddp"')),
        ("deepspeed", "deepspeed", ("fsdp", "gpudoctor launch --framework deepspeed")),
        ("deepspeed_stage_2", "deepspeed_stage_2", ("DeepSpeed",)),
    ],
)
def test_names_of_old_tutorials_are_answered_with_what_is_written_today(
    text: str, name: str, says: tuple[str, ...]
) -> None:
    asked = parse_ways(f"ddp,{text}")
    assert asked.ways == ("ddp",)
    assert list(asked.answered) == [name]
    assert all(words in asked.answered[name] for words in says), asked.answered


@pytest.mark.parametrize("text", ["", " , ", "nope", "ddp;fsdp", "batch_size=3", "gpus=all", "=ddp"])
def test_what_is_no_way_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="choose of single, dp, ddp") as refused:
        parse_ways(text)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=80))
def test_any_text_names_ways_or_is_refused(text: str) -> None:
    try:
        asked = parse_ways(text)
    except ValueError as refused:
        assert "choose of" in str(refused)
    else:
        assert set(asked.ways) <= set(WAYS) and (asked.ways or asked.answered)
    try:
        assert set(parse_precisions(text)) <= set(PRECISIONS)
    except ValueError as refused:
        assert "choose of" in str(refused)


@pytest.mark.parametrize(
    ("text", "precisions"),
    [
        ("fp32", ("fp32",)),
        ("fp16,bf16", ("bf16", "fp16")),
        ("bf16-mixed,16-mixed,32", ("fp32", "bf16", "fp16")),
        ("float16", ("fp16",)),
        ("all", ("fp32", "bf16", "fp16")),
    ],
)
def test_names_of_precisions(text: str, precisions: tuple[str, ...]) -> None:
    assert parse_precisions(text) == precisions


@pytest.mark.parametrize("text", ["", "fp8", "fp64,fp32", "tf32"])
def test_what_is_no_precision_of_this_test_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="choose of fp32, bf16, fp16"):
        parse_precisions(text)


def test_one_node_trains_torchruns_ways_in_one_launch_and_the_rest_in_another() -> None:
    made = plan(TrainWish(), (2,))
    assert not made.without
    with_ranks, alone = made.groups
    assert not with_ranks.one_process and alone.one_process
    assert [(cell.way, cell.precision) for cell in with_ranks.cells] == [
        (way, precision) for way in ("ddp", "no_sync", "fsdp") for precision in ("fp32", "bf16")
    ]
    assert {cell.way for cell in alone.cells} == {"single", "dp", "spawn", "split"}


def test_several_nodes_train_what_spans_them() -> None:
    made = plan(TrainWish(ways=tuple(WAYS), precisions=("fp32",)), (8, 8, 8))
    (group,) = made.groups
    assert [cell.way for cell in group.cells] == ["ddp", "no_sync", "fsdp", "lightning", "accelerate"]
    assert not group.one_process
    assert {cell.way for cell in made.without} == {"single", "dp", "spawn", "split", "lightning_spawn", "xla"}
    assert {cell.outcome for cell in made.without} == {"not applicable"}
    assert all("one node only" in cell.reason and "3 nodes" in cell.reason for cell in made.without)


def test_one_rank_has_no_other_to_agree_with_and_is_told_how_to_get_one() -> None:
    made = plan(TrainWish(precisions=("fp32",)), (1,), device="cuda")
    assert [cell.way for group in made.groups for cell in group.cells] == ["single", "dp", "split"]
    assert {cell.way for cell in made.without} == {"ddp", "no_sync", "spawn", "fsdp"}
    assert all("--ranks-share-gpu" in cell.reason for cell in made.without)
    assert "--ranks-share-gpu" not in plan(TrainWish(), (1,)).without[0].reason


def test_two_nodes_of_one_rank_each_have_each_other() -> None:
    made = plan(TrainWish(ways=("ddp",), precisions=("fp32",)), (1, 1))
    assert [cell.way for group in made.groups for cell in group.cells] == ["ddp"] and not made.without


def test_what_is_gone_is_answered_in_every_precision_and_not_run() -> None:
    made = plan(TrainWish(ways=(), answered={"ddp2": "removed"}), (2,))
    assert not made.groups
    assert [(cell.way, cell.precision, cell.reason) for cell in made.without] == [
        ("ddp2", "fp32", "removed"),
        ("ddp2", "bf16", "removed"),
    ]


def test_the_ranks_get_the_steps_and_the_size_of_their_world() -> None:
    wish = TrainWish(ways=("spawn",), steps=7)
    (group,) = plan(wish, (4,)).groups
    told = train_plan(wish, group.cells, 4)
    assert (told.steps, told.world_size, told.cells) == (7, 4, group.cells)


def test_the_rank_program_knows_the_same_ways_and_starts_them_alike() -> None:
    """Its modules import torch late; so they are read and not imported."""
    known: dict[str, bool] = {}
    for file in WORKERS.glob("train_*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                values = {
                    target.id: statement.value.value
                    for statement in node.body
                    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
                    for target in statement.targets
                    if isinstance(target, ast.Name)
                }
                if values.get("name"):
                    known[str(values["name"])] = bool(values.get("one_process", False))
    assert set(known) == set(WAYS)
    assert set(DEFAULT) <= set(WAYS)
    for name, one_process in known.items():
        if one_process:
            assert WAYS[name].launched == "one process", name
