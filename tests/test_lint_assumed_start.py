"""A program alone, pasted without its start, is judged as a rank of several where only that makes sense."""

import pytest

from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule

HEAD = (
    "import os\nimport torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
)
JOINED = HEAD + "dist.init_process_group('nccl')\n"
SAVES = "net = make()\ntorch.save(net.state_dict(), 'net.pt')\n"


def codes_of(text: str) -> dict[str, int]:
    """The rules that fire, with their lines."""
    return {each.code: each.line for each in lint(read_job(text, LintFacts()), every_rule()).problems}


def test_what_every_rank_does_is_said_at_its_own_line() -> None:
    assert codes_of(JOINED + SAVES)["U11"] == 7
    assert codes_of(JOINED + "net = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())\n")["T23"] == 6


@pytest.mark.parametrize(
    "text",
    [
        HEAD + SAVES,
        HEAD + "if int(os.environ.get('WORLD_SIZE', 1)) > 1:\n    dist.init_process_group('nccl')\n" + SAVES,
        HEAD + "dist.init_process_group('nccl', rank=0, world_size=1)\n" + SAVES,
        HEAD + "dist.init_process_group('nccl', init_method='tcp://127.0.0.1:3000')\n" + SAVES,
        HEAD + "rank = os.environ['SLURM_PROCID']\n" + JOINED[len(HEAD) :] + SAVES,
        HEAD + "def never():\n    dist.init_process_group('nccl')\n" + SAVES,
    ],
    ids=["no group", "on a condition", "one rank", "by tcp", "of SLURM", "a function that nobody calls"],
)
def test_what_may_be_one_process_is_none_of_several(text: str) -> None:
    assert "U11" not in codes_of(text)


def test_the_assumed_start_is_not_judged_and_lines_are_the_texts_own() -> None:
    assert all(line <= JOINED.count("\n") for line in codes_of(JOINED).values())


def test_a_comment_silences_it_as_any_other() -> None:
    text = JOINED + SAVES.replace("'net.pt')", "'net.pt')  # gpudoctor: ignore[U11] one rank in tests")
    assert "U11" not in codes_of(text)
