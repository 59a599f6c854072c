"""What a start is said to be: launcher, nodes, ranks, script."""

import pytest

from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import read_job
from gpudoctor.lint.understood import understood

STARTS = [
    ("torchrun --standalone --nproc-per-node=4 train.py", (1, 4, 4, "train.py")),
    ("torchrun --standalone --nnodes=2 --nproc-per-node=4 train.py", (2, 4, 8, "train.py")),
    ("torchrun --standalone --nnodes=$N --nproc-per-node=4 train.py", (None, 4, None, "train.py")),
    ("horovodrun -H a:2,b:2 python train.py", (2, 2, 4, "train.py")),
    ("horovodrun -np 4 -H a:2,b:2 python train.py", (2, 2, 4, "train.py")),
    ("horovodrun -np 2 -H a:2,b:2 python train.py", (1, 2, 2, "train.py")),
    ("horovodrun -np 6 -H a:4,b:2 python train.py", (2, None, 6, "train.py")),
    ("horovodrun -np 8 -H a:2,b:2 python train.py", (None, None, 8, "train.py")),
    ("horovodrun -np $N -H a:2,b:2 python train.py", (None, None, None, "train.py")),
    ("ray job submit --address http://h:8265 -- python train.py", (None, None, None, "train.py")),
    ("ray job submit --working-dir . --no-wait -- python -m pkg.train --lr 1", (None, None, None, "pkg.train")),
    ("ray job submit --address=http://h:8265 --runtime-env-json='{}' python train.py", (None, None, None, "train.py")),
]


@pytest.mark.parametrize(("text", "wanted"), STARTS)
def test_a_start_is_understood(text: str, wanted: tuple[object, ...]) -> None:
    found = understood(read_job(text + "\n", LintFacts()))
    assert (found.nodes, found.processes_per_node, found.world_size, found.script) == wanted
