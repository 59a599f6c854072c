"""What rules say of starts, said by the launchers: the bad one ends so when it is run, the good one trains."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint.lint import lint
from gpudoctor.lint.rule import Example, every_rule
from gpudoctor.testing.examples import job_of
from tests.lab import warm
from tests.lab.slurm import slurm_cluster

RULES = every_rule()
TRAIN = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("trained", int(total))
dist.destroy_process_group()
"""
ONE = "torchrun --standalone --nproc-per-node={} {}\n"
STARTS = {
    "V02": (ONE.format("a100:2", "train.py"), "Unsupported nproc_per_node", ONE.format(2, "train.py")),
    "V03": (ONE.format("2 --log_dri=x", "train.py"), "unrecognized arguments", ONE.format(2, "train.py")),
    "V07": (
        "accelerate launch --cpu --num_processes 1 --mixed_precision float16 plain.py\n",
        "invalid choice",
        "accelerate launch --cpu --num_processes 1 --mixed_precision no plain.py\n",
    ),
    "Q01": (
        ONE.format(2, "train.py") + "  --lr 1\n",
        "--lr: command not found",
        ONE.format(2, "train.py \\\n  --lr 1"),
    ),
    "Q02": ('torchrun --standalone --nproc-per-node="2 train.py\n', "unexpected EOF", ONE.format('"2"', "train.py")),
    "Q04": (ONE.format(2, "python train.py"), "can't open file", ONE.format(2, "train.py")),
    "Q27": (ONE.format(2, "start.sh"), "SyntaxError", ONE.format(2, "--no-python ./start.sh")),
    "M02": (
        "mpirun --allow-run-as-root -np 2 -N 2 -H localhost -bind-to none python plain.py\n",
        "not enough slots",
        "mpirun --allow-run-as-root --oversubscribe -np 2 -H localhost:2 -bind-to none python plain.py\n",
    ),
}


def codes(text: str) -> set[str]:
    return {each.code for each in lint(job_of(Example(text)), RULES).problems if each.severity == "error"}


@pytest.mark.parametrize("code", STARTS)
def test_a_bad_start_ends_as_its_rule_says_and_a_good_one_trains(code: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    bad, ends, good = STARTS[code]
    if shutil.which(bad.split()[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") is None:
        pytest.skip(f"{bad.split()[0]} is not installed")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "plain.py").write_text("print('trained')\n")
    (tmp_path / "start.sh").write_text("#!/bin/bash\nset -e\nname=${1:-x}\nexec python train.py\n")
    (tmp_path / "start.sh").chmod(0o755)
    assert code in codes(bad)
    assert code not in codes(good)
    for text, wanted, fails in ((bad, ends, True), (good, "trained", False)):
        done = _run(text, tmp_path, truly=code == "V03")
        assert (done.returncode != 0) == fails, done.stdout
        assert re.search(wanted, done.stdout), done.stdout


def _run(text: str, folder: Path, *, truly: bool) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment |= {} if truly else warm.by_others()
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, timeout=120, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_srun_and_sbatch_refuse_and_leave_out_what_the_rules_say() -> None:
    script = '#!/bin/bash\n#SBATCH --ntasks=2\nsrun --ntasks=1 true\necho "each=$SLURM_NTASKS_PER_NODE."\n'
    with slurm_cluster(1) as cluster:
        refused = cluster.srun("--time=soon", "hostname")
        assert "S23" in codes("srun --time=soon torchrun --standalone --nproc-per-node=2 train.py\n")
        assert refused.returncode != 0
        assert "time" in refused.stderr.lower()
        assert "each=." in cluster.sbatch(script)  # V11: only set if --ntasks-per-node is given
