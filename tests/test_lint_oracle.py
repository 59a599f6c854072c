"""What rules say of Python programs, said by torch, Lightning and Python themselves, where no GPU is needed for it."""

import warnings
from typing import Any

import pytest

from gpudoctor.lint.lint import lint
from gpudoctor.lint.rule import Example, every_rule
from gpudoctor.testing.examples import job_of

torch: Any = pytest.importorskip("torch")
RULES = every_rule()


def happens(text: str, code: str) -> str:
    """What a rule says will happen."""
    return next(each.happens for each in lint(job_of(Example(text)), RULES).problems if each.code == code)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("torch.nn.DataParallel(torch.nn.Linear(1, 1), devices=[0, 1])", "T10"),
        ("torch.distributed.init_process_group('gloo', rank=0, worldworld_size=1)", "T10"),
        ("torch.utils.data.distributed.DistributedSampler([1], world_size=1)", "T10"),
        ("torch.multiprocessing.spawn(print, num_processes=2)", "T10"),
    ],
)
def test_torch_refuses_the_argument_with_these_words(line: str, code: str) -> None:
    import torch.utils.data.distributed

    with pytest.raises(TypeError) as refused:
        exec(line, {"torch": torch})
    assert str(refused.value).rpartition("() ")[2] in happens(f"import torch\n{line}\n", code)


def test_a_function_has_no_value_for_what_it_binds_itself() -> None:
    text = "import torch\nmodel = torch.nn.Linear(1, 1)\ndef train():\n    model = model.cpu()\n"
    names: dict[str, Any] = {}
    exec(text, names)
    with pytest.raises(UnboundLocalError, match="'model'"):
        names["train"]()
    assert "UnboundLocalError" in happens(text, "T11")


def test_the_order_stays_without_set_epoch() -> None:
    from torch.utils.data.distributed import DistributedSampler

    sampler: Any = DistributedSampler(range(64), num_replicas=2, rank=0)  # type: ignore[arg-type]
    first, again = list(sampler), list(sampler)
    sampler.set_epoch(1)
    assert first == again != list(sampler)


def test_the_address_alone_is_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError) as refused:
        torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    text = (
        "import torch.distributed as dist\nimport torch.multiprocessing as mp\ndef work(rank):\n"
        "    dist.init_process_group('gloo', rank=rank, world_size=4)\nmp.spawn(work, nprocs=4)\n"
    )
    assert str(refused.value).rstrip(".") in happens(text, "T09")


@pytest.mark.thorough
def test_lightning_refuses_the_word_and_the_arguments() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pytest.importorskip("lightning").Trainer
    with pytest.raises(ValueError) as refused:
        trainer(strategy="dpp", devices=2, accelerator="cpu")
    said = happens("from lightning import Trainer\nTrainer(strategy='dpp', devices=2, accelerator='gpu')\n", "L02")
    assert str(refused.value).partition(". It must")[0].partition(" It must")[0].rstrip(".") in said
    with pytest.raises(TypeError) as unexpected:
        trainer(use_amp=False)
    assert str(unexpected.value) in happens("from lightning import Trainer\nTrainer(use_amp=False)\n", "L01")
