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
    ("jsrun -n 4 -a 6 -r 2 -g 6 python train.py", (2, 12, 24, "train.py")),
    ("jsrun -n $N -a 6 python train.py", (None, None, None, "train.py")),
    ("flux run -N 2 -n 16 -g 1 python train.py", (2, 8, 16, "train.py")),
    ("fabric run train.py --devices=8 --lr 1", (None, 8, None, "train.py")),
    ("composer -n 8 train.py", (1, 8, 8, "train.py")),
    ("deepspeed --include localhost:0,1,3 train.py", (1, 3, 3, "train.py")),
    ("ray job submit --address=http://h:8265 --runtime-env-json='{}' python train.py", (None, None, None, "train.py")),
]

HANDED = [
    ("runai submit-dist pytorch --name x --workers=3 -g 8 -i img -- torchrun --nproc-per-node=8 train.py", "torchrun"),
    ('arena submit pytorchjob --name=x --workers=2 --gpus=1 --image=img "python /root/train.py --lr 1"', "python"),
    ('xpk workload create --cluster c --command "torchrun --nnodes=2 --nproc-per-node=8 train.py"', "torchrun"),
    ('bsub -n 8 -gpu "num=4" -R "span[ptile=4]" torchrun --nproc-per-node=4 train.py', "torchrun"),
    ("qsub -l select=1:ngpus=4 -- /usr/bin/python train.py", "python"),
    ('pbsdsh -- bash -c "torchrun --standalone --nproc-per-node=4 train.py"', "torchrun"),
    ("lrun -N2 -T4 python train.py", "lrun"),
    ("ccc_mprun -n 8 python train.py", "ccc_mprun"),
    ("qsub train.pbs", None),
]


@pytest.mark.parametrize(("text", "launcher"), HANDED)
def test_a_start_that_is_handed_to_a_scheduler_or_service(text: str, launcher: str | None) -> None:
    assert understood(read_job(text + "\n", LintFacts())).launcher == launcher


RAY = (
    "#@ every node\npython train.py{}\n#@ file train.py\nimport argparse\nfrom ray.train import ScalingConfig\n"
    "from ray.train.torch import TorchTrainer\np = argparse.ArgumentParser()\n"
    "p.add_argument('--workers', type=int, default=2)\na = p.parse_args()\n{}"
    "TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=a.workers)).fit()\n"
)
LOOP = "#@ every node\npython train.py\n#@ file train.py\nimport torch\n{}for x in data:\n    net(x).backward()\n"
PROGRAMS = [
    (RAY.format("", ""), 2),
    (RAY.format(" --workers 16", ""), 16),
    (RAY.format(" --workers $N", ""), None),
    (RAY.format("", "a.workers = a.workers * 4\n"), None),
    (LOOP.format(""), 1),
    (LOOP.format("import torch.distributed as dist\n"), None),
]


@pytest.mark.parametrize(("text", "ranks"), PROGRAMS)
def test_what_a_program_makes_of_itself(text: str, ranks: int | None) -> None:
    assert understood(read_job(text, LintFacts())).world_size == ranks


def test_launchers_that_start_a_rank_for_each_gpu() -> None:
    for line in ("deepspeed train.py", "composer train.py"):
        found = understood(read_job(line + "\n", LintFacts(nodes=1, gpus_per_node=8)))
        assert found.world_size == 8, line


@pytest.mark.parametrize(("text", "wanted"), STARTS)
def test_a_start_is_understood(text: str, wanted: tuple[object, ...]) -> None:
    found = understood(read_job(text + "\n", LintFacts()))
    assert (found.nodes, found.processes_per_node, found.world_size, found.script) == wanted
