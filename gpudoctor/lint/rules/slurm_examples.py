"""Batch scripts that examples of the SLURM rules are made of; all of these are right."""

HEADER = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=32\n"
)
"""Two nodes of four GPUs, one task on each."""
PER_GPU = HEADER.replace("per-node=1", "per-node=4").replace("per-task=32", "per-task=8")
"""One task for each GPU."""
ADDRESS = (
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\n'
    "export MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))\n"
)
TORCHRUN = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT"
    " train.py"
)
RANKED = HEADER + ADDRESS + f"srun --cpus-per-task=32 bash -c '{TORCHRUN.format('$SLURM_NODEID')}'\n"
PLAIN = (
    PER_GPU + ADDRESS + "srun --cpus-per-task=8 bash -c"
    " 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec python train.py'\n"
)
LIGHTNING = (
    PER_GPU + "srun --cpus-per-task=8 python train.py --accelerator gpu --devices 4 --num_nodes 2 --strategy ddp\n"
)
C10D = (
    "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d"
    " --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT train.py"
)
