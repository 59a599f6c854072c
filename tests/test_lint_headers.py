"""Lines of a batch script's header: what the real sbatch refuses before it asks a controller, rules S20, S23 and S24
refuse, and nothing else."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.lint import judge
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule

RULES = [rule for rule in every_rule() if rule.code in ("S20", "S23", "S24")]
REFUSED = """
--time=24h
--time=1d
--time=24:00:00:00
--time=2.5
--time=7 days
--time=24:00:00s
--time=
--mem=16Gi
--mem=1.5G
--mem=all
--mem=16X
--mem=64 G
--nodes=2x
--nodes=two
--nodes=2-1
--nodes=$N
--nodes = 2
--nodes =2
-N=2
-t=1
--nodes
--ntasks=4x
--ntasks=0
--ntasks=$((2*4))
--ntasks-per-node=4,8
--cpus-per-task=16,
--signal=USR3
--signal=B:@60
--signal=USR1@2m
--signal=B:TERM@100000
--mail-type=END;FAIL
--open-mode=x
--exclusive=yes
--requeue=1
--ntask=4
--cpus=4
--node=2
--gpus-per=2
-X
foo
--gres=gpu:4, mem
--gres=gpus:4
--gres=4
--gres=gpu:4:h100
--gres=gpu=4
--gpus-per-node=8:h100
--distribution=node
--hint=x
--gpu-bind=foo
--comment=a b
--cpus_per_task=4
--gpu-per-node=4
--partion=x
--ntasks-per-node=4 --ntasks-per-gpu=1
--ntasks-per-gpu=1 --gpus-per-task=1
--mem=4G --mem-per-cpu=1G
--cpus-per-task=4 --cpus-per-gpu=2
--nodelist=a,b,c --nodes=2
--gpus=4 --gres=gpu:8
--gpus=4 --gpus-per-node=4 --nodes=2
--gpus=7 --gpus-per-node=4 --nodes=2
--gpus-per-node=8 --gpus-per-task=3 --ntasks=4
--ntasks=16 --nodes=2 --gpus=8 --gpus-per-task=1
""".strip().splitlines()
TAKEN = """
--time=24 --mem=16GB --nodes=2-4 --ntasks="4" --signal=B:USR1@120 --mail-type=BEGIN,ENDS --open-mode=a
--time=1-0 --mem=0 --nodes=2k --exclusive=user --tasks=4 --part=x --job=x -Q --gres=gpu:all --gpu-bind=single:1
--time=1-00:00:00 -N2 --gpus-per-node=h100:8 --signal=10@60 --comment='a b' --distribution=block:block # two nodes
-t UNLIMITED -N 2 -n 8 --gpus=8 --gpus-per-node=4 --gpus-per-task=1 --hint=nomultithread --nodelist=n[1-2] --no-requeue
--nodes=2#x --gpus=4x --dependency=foo:12 --nice=100 --switches=1@10 --gres=none --constraint=a100|h100 --wait
""".strip().splitlines()


def script(line: str) -> str:
    return f"#!/bin/bash\n#SBATCH {line}\nhostname\n"


def told(line: str) -> list[str]:
    found, _ = judge(read_job(script(line), parse_facts(""), "sbatch"), RULES)
    return [each.finding.summary for each in found]


@pytest.mark.parametrize("line", REFUSED)
def test_what_sbatch_refuses_is_told(line: str) -> None:
    assert told(line)


@pytest.mark.parametrize("line", TAKEN)
def test_what_sbatch_takes_is_not_accused(line: str) -> None:
    assert told(line) == []


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("sbatch") is None, reason="no sbatch here")
def test_the_real_sbatch_agrees(tmp_path: Path) -> None:
    """Without a controller: it refuses an option at once, or tries to reach the controller for longer than we wait."""
    configuration = tmp_path / "slurm.conf"
    configuration.write_text(
        "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\nCredType=cred/none\n"
        "NodeName=localhost\nPartitionName=p Nodes=ALL Default=YES\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_Core\nGresTypes=gpu\n"
    )

    def refuses(numbered: tuple[int, str]) -> bool:
        number, line = numbered
        file = tmp_path / f"{number}.sh"
        file.write_text(script(line))
        command = ["sbatch", "--test-only", str(file)]
        environment = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(configuration)}
        try:
            subprocess.run(command, env=environment, capture_output=True, timeout=2, check=False)
        except subprocess.TimeoutExpired:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(refuses, enumerate([*REFUSED, *TAKEN])))
    assert [line for line, refused in zip([*REFUSED, *TAKEN], said, strict=True) if refused != (line in REFUSED)] == []
