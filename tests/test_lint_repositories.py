"""Shapes in which well-kept public repositories write what they start, each of which a rule accused once.

Beside each stands a twin with the fault that the rule is for, so that it stays silent for the right reason.
"""

import pytest

from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule

_POD = (
    "OMP_NUM_THREADS=6 torchrun --nproc-per-node=$GPUS --nnodes={} --node-rank={} \\\n"
    '  --master-addr="$MASTER_ADDR" --master-port=$MASTER_PORT fit.py\n'
)
_BENCH = (
    "bench() {{\n  local slots=$1\n"
    '  mpirun --bind-to none -np 32 --hostfile "/etc/ranks/of$slots" python fit.py\n}}\nbench "{}"\n'
)
_NEMO = (
    "import argparse\nfrom nemo import lightning as nl\n"
    "parser = argparse.ArgumentParser()\nparser.add_argument('--num-nodes', type=int, default=1)\n"
    "args = parser.parse_args()\n"
    "strategy = nl.MegatronStrategy(tensor_model_parallel_size=4, pipeline_model_parallel_size=4)\n"
    "trainer = nl.Trainer(devices=8, num_nodes={}, strategy=strategy)\n"
)
_CHECKED = "if ! python -m lab.fit --steps 2 | egrep {} '^step 2' {}; then\n  exit 1\nfi\n"
_SETTINGS = "ifdef MPI_HOME\n{0} = -I$(MPI_HOME)/include\nelse\n{0} =\nendif\nRUN ?= mpirun -np 4 python fit.py\n"
_WRITES = (
    "#!/bin/bash\n#SBATCH --time=20:00:00\n#SBATCH --nodes=1\ncat <<EOT > eval.sh{}#SBATCH --time=5:00:00\n"
    "srun python evaluate.py\nEOT\nsbatch eval.sh\n"
)
_DRAWN = (
    "#!/bin/bash\n# for two hosts\n{}run() {{\n  {}srun -w $HOST -n1 torchrun --nnodes=2 --node-rank=$RANK \\\n"
    "    --nproc-per-node=8 --master-addr=$HEAD --master-port=$PORT fit.py\n}}\n"
)
_ASKS = "python ask.py --num_nodes 4 --gpus 8 {}torchrun --standalone fit.py\n"
_CALLED = "#!/bin/bash\nCOUNT=$HOW_MANY\n{}\ntorchrun --nnodes $COUNT --nproc-per-node 8 fit.py\n"
_RAY = "ray job submit {} -- python fit.py\n"
_WORKER = (
    "# HEAD_IP=10.0.0.1 bash start.sh\nray start --head\nfor HOST in a b; do\n  ssh $HOST {0}ray start"
    " --address=$HEAD_IP:6379{0}\ndone\npython fit.py\n"
)
_BY_SSH = (
    '#!/bin/bash\n#SBATCH --nodes=2\nRANK=0\nfor HOST in $(scontrol show hostnames); do\n  ssh $HOST "torchrun'
    ' --nnodes=2 --nproc-per-node=8 --node_rank {} --master-addr=n01 --master-port=29511 fit.py" &\n'
    "  RANK=$((RANK + 1))\ndone\nwait\n"
)
_WITHIN = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nssh n01 \"srun bash -c 'torchrun --nnodes=2"
    " --nproc-per-node=8 --node_rank {}SLURM_PROCID --master-addr=n01 --master-port=29511 fit.py'\"\n"
)
_RPC = (
    "import torch.distributed as dist\nimport torch.distributed.rpc as rpc\nimport torch.multiprocessing as mp\n"
    "def work(rank, world):\n    if rank < 3:\n        dist.init_process_group('gloo', rank=rank, world_size={},"
    " init_method='tcp://localhost:29511')\n        rpc.init_rpc('fits', rank=rank, world_size=world)\n"
    "        dist.barrier()\n    else:\n        rpc.init_rpc('keeps', rank=rank, world_size=world)\n"
    "    rpc.shutdown()\nif __name__ == '__main__':\n    mp.spawn(work, args=(4,), nprocs=4)\n"
)
_BOXED = (
    "#!/bin/bash\n#SBATCH --nodes=2\nsrun --container-image=nvcr.io/nvidia/pytorch:25.01-py3 bash -c {0}export"
    " MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1); python fit.py{0}\n"
)

CASES = {
    "Ray fills in the variables of a job": (
        "S03", _RAY.format("--runtime-env-json='{\"env_vars\": {\"HEAD\": \"${MASTER_ADDR}\"}}'"),
        _RAY.format("--address='http://$MASTER_ADDR:8265'"),
    ),
    "double quotes behind ssh are filled in here": (
        "A15", _WORKER.format('"'), _WORKER.format("'"),
    ),
    "a rank of the node in double quotes behind ssh": ("S02", _BY_SSH.format("$RANK"), _BY_SSH.format("$SLURM_PROCID")),
    "a rank in single quotes within double ones": (
        "S02", _WITHIN.format("\\$"), _WITHIN.format("$"),
    ),
    "a rank of RPC is none of the group": ("T54", _RPC.format(3), _RPC.format("world")),
    "a group of the trainers alone": ("T37", _RPC.format(3), _RPC.format(3).replace("rank < 3", "rank < 4")),
    "an address that is computed outside of the container": (
        "S19", _BOXED.format('"'), _BOXED.format("'"),
    ),
    "a module of a launcher's package": (
        "V09", "python -m deepspeed.checkpoint.ds_to_universal --input_folder a\ndeepspeed --num_gpus 4 fit.py\n",
        "python -m torch.distributed.lanch --nproc_per_node=4 fit.py\n",
    ),
    "a pod's environment tells the whole world": ("A03", _POD.format("$NNODES", "$INDEX"), _POD.format(2, 0)),
    "a local of a function has the caller's variable": (
        "V01", _BENCH.format("$SLOTS"), _BENCH.format("4").replace("of$slots", "of$SLOTS"),
    ),
    "an option says of how many nodes": ("T70", _NEMO.format("args.num_nodes"), _NEMO.format(1)),
    "whether a line is printed": ("Q47", _CHECKED.format("", "> /dev/null"), _CHECKED.format("", "")),
    "whether a line is printed, quietly": ("Q47", _CHECKED.format("--quiet", ""), _CHECKED.format("--color", "")),
    "a file of settings where a branch begins with a tab": (
        "Q13", _SETTINGS.format("FLAGS").replace("\n", "\n\t"), "\tFLAGS =\nmpirun -np 4 python fit.py\n",
    ),
    "a batch script writes two more": ("S24", _WRITES.format("\n#!/bin/bash\n"), _WRITES.format("\n")),
    "a gap is told once, and what follows it is read": (
        "Q41",
        "#!/bin/bash\nDATA=<path of the data>\nVOCAB=v.json\n\n\ntorchrun --standalone fit.py \\\n  --data $DATA \\\n"
        "  --vocab $VOCAB\n",
        "#!/bin/bash\nDATA=/data/a torchrun --standalone --nproc-per-node=$DATA fit.py\n",
    ),
    "a port is drawn once, for a function that a loop calls": (
        "P11", _DRAWN.format("PORT=$((20000 + RANDOM))\n", "") + "for HOST in a b; do run & done\nwait\n",
        "#!/bin/bash\nfor HOST in a b; do\n  PORT=$((2000 + RANDOM))\n  ssh $HOST torchrun --nnodes=2 --node-rank=$RANK"
        " --nproc-per-node=8 --master-addr=$HEAD --master-port=$PORT fit.py &\ndone\nwait\n",
    ),
    "what asks a service for GPUs": ("L01", _ASKS.format("-- "), _ASKS.format("--max_nb_epochs 2 ")),
    "what asks a service for nodes": (
        "L22", "python ask.py --num_nodes 4 --config sft.yaml\n",
        "python fit.py --num_nodes 4 --devices 8 --strategy ddp\n",
    ),
    "a rank that is no count": (
        "R20", _CALLED.format("NODE_RANK=0"), _CALLED.format("NNODES=2"),
    ),
    "a variable that is set from itself": (
        "V16", "CKPT=${CKPT}\ntorchrun --standalone fit.py --load $CKPT\n",
        "#!/bin/bash\nload() {\n  local CKPT=/data/a\n}\ntorchrun --standalone fit.py --load $CKPT\n",
    ),
    "what is looked for has a choice in it": (
        "Q47", _CHECKED.format("", "> /dev/null").replace("step 2", "step (2|3)"),
        _CHECKED.format("", "").replace("step 2", "step (2|3)"),
    ),
    "a gap at whose end a comment goes on": (
        "Q41",
        "#!/bin/bash\nDATA=<PATH_OF_DATA> \\\n    (e.g., /data/a)\ntorchrun --standalone fit.py --data ${DATA}\n",
        "#!/bin/bash\nDATA=/data/a \\\n  torchrun --standalone fit.py --data ${DATA}\n",
    ),
    "data are prepared on all processors": (
        "G17", "torchrun --standalone --nproc-per-node=75 tools/preprocess_data.py\n",
        "torchrun --standalone --nproc-per-node=75 tools/fit.py\n",
    ),
    "a file that Makefiles include": ("Q13", _SETTINGS.format("FLAGS"), "FLAGS =\nmpirun -np 4 python fit.py\n"),
    "a version of Python is no Python": (
        "K05", "docker run --gpus all --rm wheels:cu12 ${PYTHON_VERSION} cuda main\n",
        "docker run --gpus all --rm wheels:cu12 ${PYTHON} fit_fsdp.py\n",
    ),
}  # fmt: skip


def accused_of(text: str) -> set[str]:
    """The codes of errors and warnings."""
    report = lint(read_job(text, LintFacts()), every_rule())
    return {problem.code for problem in report.problems if problem.severity != "info"}


@pytest.mark.parametrize(("code", "good", "bad"), CASES.values(), ids=CASES)
def test_what_well_kept_repositories_write_is_not_accused(code: str, good: str, bad: str) -> None:
    assert code not in accused_of(good)
    assert code in accused_of(bad)


def test_a_value_that_is_a_gap_is_told_without_a_header_too() -> None:
    """`bash fit.sh` says: syntax error near unexpected token `newline'."""
    assert accused_of("DATA=<path of the data>\n\ntorchrun --standalone fit.py --data $DATA\n") == {"Q09"}
