"""Starts that fail, by the rule that has to say so: texts by "CODE name" or "CODE name FACTS"."""

from tests.lint_cases.slurm_good import ADDR, C10D, N1, N2, N2G, H

LIT = "srun python train.py --accelerator gpu --devices 4 --num_nodes 2 --strategy ddp\n"
STATIC = (
    "torchrun --nnodes=2 --nproc_per_node=4 --node_rank={} --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT"
    " train.py"
)
TWO = "torchrun --nnodes=2 --nproc_per_node=4 --node_rank={} --master_addr=10.0.0.5 --master_port=61234 train.py\n"
PER_RANK = "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS python train.py'\n"

BAD: dict[str, str] = {
    # the tutorials' command, in its many shapes
    "E01 tutorial": (
        'CUDA_VISIBLE_DEVICES="0,1,2,3" MASTER_ADDR=$master_ip MASTER_PORT=45321 WORLD_SIZE=3 NODE_RANK=0'
        " LOCAL_RANK=0 python main.py\n"
    ),
    "E01 tutorial-1.5 lightning=1.5.10,nodes=3": (
        'CUDA_VISIBLE_DEVICES="0,1,2,3" MASTER_ADDR=$master_ip MASTER_PORT=45321'
        " WORLD_SIZE=3 NODE_RANK=2 LOCAL_RANK=0 python main.py\n"
    ),
    "E01 tutorial-exports": (
        "export MASTER_ADDR=10.0.0.5\nexport MASTER_PORT=45321\nexport WORLD_SIZE=2\nexport NODE_RANK=1\n"
        "export LOCAL_RANK=0\npython3 train.py\n"
    ),
    "E01 tutorial-nohup": (
        "MASTER_ADDR=10.0.0.5 MASTER_PORT=45321 WORLD_SIZE=2 NODE_RANK=1 LOCAL_RANK=0 nohup python -u train.py"
        " > log 2>&1 &\nwait\n"
    ),
    "E01 tutorial-trainer lightning=2.6.6": (
        "#@ file train.py\nfrom lightning import Trainer\ntrainer = Trainer(devices=4,"
        ' num_nodes=2, strategy="ddp")\n#@ node 0\nNODE_RANK=0 MASTER_ADDR=10.0.0.5 MASTER_PORT=45321'
        " LOCAL_RANK=0 python train.py\n"
    ),
    "E03 tutorial-1.0 lightning=1.1.8": "MASTER_ADDR=10.0.0.5 WORLD_SIZE=2 NODE_RANK=0 python train.py --gpus 2\n",
    # environment
    "E02 rank-beyond-world": (
        "MASTER_ADDR=10.0.0.5 MASTER_PORT=61234 WORLD_SIZE=2 RANK=2 LOCAL_RANK=0 python train.py\n"
    ),
    "E02 world-size-nodes": N2G + ADDR + PER_RANK.replace("SLURM_NTASKS", "SLURM_NNODES"),
    "E02 world-size-constant": N2G + ADDR + PER_RANK.replace("$SLURM_NTASKS", "2"),
    "E04 mmlab-no-launcher": "CUDA_VISIBLE_DEVICES=0,1 python ./tools/train.py cfg.py --launcher=pytorch\n",
    "E04 detr-no-launcher": "python -u main.py --dist_url 'env://' --coco_path /data/coco\n",
    "E04 imagenet-no-rank": (
        "python main.py --dist-url 'tcp://10.0.0.5:61234' --world-size 2 --multiprocessing-distributed /d\n"
    ),
    "U03 loop-without-variable": (
        "for i in 0 1; do\n python main.py --init-method tcp://10.0.0.5:61234 --world-size 2 --rank 0 &\ndone\nwait\n"
    ),
    "E05 local-rank-argument": (
        "python -m torch.distributed.launch --nproc_per_node=4 --use_env train.py --local_rank 0\n"
    ),
    "E05 deepspeed-local-rank": "deepspeed --num_gpus 8 train.py --local_rank=0 --deepspeed\n",
    "E05 srun-local-rank-zero": N2G + ADDR + "export LOCAL_RANK=0\nsrun python train.py\n",
    "E05 srun-rank-zero": N2G + ADDR + "srun bash -c 'RANK=0 WORLD_SIZE=8 python train.py'\n",
    "E06 job-gpus": N1
    + "export CUDA_VISIBLE_DEVICES=$SLURM_JOB_GPUS\ntorchrun --standalone --nproc_per_node=4 train.py\n",
    "E06 step-gpus": N1 + "CUDA_VISIBLE_DEVICES=${SLURM_STEP_GPUS} python train.py\n",
    "E07 cuda-devices-not-exported": "CUDA_VISIBLE_DEVICES=1\npython train.py\n",
    "E07 nccl-not-exported": "NCCL_SOCKET_IFNAME=eth1\nNCCL_IB_DISABLE=1\n" + TWO.format(0),
    "E07 master-not-exported lightning=2.0": (
        "MASTER_ADDR=10.0.0.5\nMASTER_PORT=61234\nNODE_RANK=0 python train.py --devices 4 --num_nodes 2\n"
    ),
    "E08 ifname-lo nodes=2": "export NCCL_SOCKET_IFNAME=lo\n" + TWO.format(0),
    "E08 ifname-docker": (
        "#@ node 0\nNCCL_SOCKET_IFNAME=docker0 "
        + TWO.format(0)
        + "#@ node 1\nNCCL_SOCKET_IFNAME=docker0 "
        + TWO.format(1)
    ),
    "E08 gloo-lo": N2 + ADDR + f"export GLOO_SOCKET_IFNAME=lo\nsrun {C10D}\n",
    "E08 gloo-caret": "export GLOO_SOCKET_IFNAME=^lo,docker0\n" + TWO.format(1),
    "E08 ifname-misspelt": "export NCCL_SOCKET_IFACE=eth0\n" + TWO.format(1),
    "E08 ifname-address": "NCCL_SOCKET_IFNAME=192.168.7.3 " + TWO.format(1),
    "E08 nccl-misspelt": "export NCCL_P2P_DISABLED=1\n" + TWO.format(1),
    "E09 elastic-leftover": "export TORCHELASTIC_RUN_ID=abc\npython train.py --devices 4 --strategy ddp\n",
    "E10 ib-disabled": "export NCCL_IB_DISABLE=1\n" + TWO.format(1),
    "E10 detail-left-on": "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --nproc_per_node=2 train.py\n",
    "E11 mpirun-no-x": (
        "export MASTER_ADDR=10.0.0.5\nexport NCCL_SOCKET_IFNAME=eth0\nmpirun -np 8 --hostfile hosts"
        " --bind-to none --map-by ppr:4:node python train.py\n"
    ),
    "E11 deepspeed-omp": "export OMP_NUM_THREADS=8\nexport HF_HOME=/scratch/hf\ndeepspeed --hostfile hosts train.py\n",
    "E12 nodes-disagree": "#@ node 0\nexport NCCL_NET=Socket\n" + TWO.format(0) + "#@ node 1\n" + TWO.format(1),
    "E13 async-error-handling torch=2.5": "NCCL_ASYNC_ERROR_HANDLING=1 torchrun --nproc_per_node=2 train.py\n",
    # devices
    "G01 two-gpus-four-ranks": (
        "CUDA_VISIBLE_DEVICES=0,1 python -m torch.distributed.launch --nproc_per_node=4 train.py\n"
    ),
    "G01 exported-one-gpu": "export CUDA_VISIBLE_DEVICES=3\ntorchrun --nproc_per_node 2 train.py\n",
    "G01 yolo": "python -m torch.distributed.launch --nproc_per_node 4 train.py --device 0,1\n",
    "G01 facts-eight gpus_per_node=4": TWO.format(0).replace("node=4", "node=8"),
    "G01 accelerate-gpus": "CUDA_VISIBLE_DEVICES=0 accelerate launch --multi_gpu --num_processes=2 train.py\n",
    "G02 idle": N2 + ADDR + f"srun {C10D.replace('--nproc_per_node=4 ', '')}\n",
    "G02 idle-half": N1 + "torchrun --standalone --nproc_per_node=2 train.py\n",
    "G03 one-gpu-each-and-local-rank": (
        "for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i LOCAL_RANK=$i RANK=$i WORLD_SIZE=4"
        " MASTER_ADDR=localhost MASTER_PORT=61234 python train.py & done; wait\n"
    ),
    "G03 localid-twice": N2G + ADDR + PER_RANK.replace("'RANK", "'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; RANK"),
    "G04 cvd-duplicates": "CUDA_VISIBLE_DEVICES=0,1,1 torchrun --nproc_per_node=2 train.py\n",
    "G04 cvd-blanks": "export CUDA_VISIBLE_DEVICES='0 1'\npython train.py\n",
    "G04 cvd-brackets": 'CUDA_VISIBLE_DEVICES="[0,1]" python train.py\n',
    "G04 cvd-range": "CUDA_VISIBLE_DEVICES=0-7 python train.py\n",
    "G04 cvd-foreign gpus_per_node=2": "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node=2 train.py\n",
    "G05 threads": N2 + ADDR + f"export OMP_NUM_THREADS=24\nsrun --cpus-per-task=24 {C10D}\n",
    "G06 trainer-two-of-four lightning=2.3": "torchrun --nproc_per_node=4 train.py --devices 2 --strategy ddp\n",
    "G07 include-beyond gpus_per_node=4": "deepspeed --include localhost:2,3,4 train.py\n",
    # SLURM
    "S01 double-spawn": N2G + ADDR + f"srun {C10D}\n",
    "S01 double-spawn-short": "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -n 8\n#SBATCH --gpus-per-node=4\n"
    + ADDR
    + f"srun {C10D}\n",
    "S01 double-spawn-gpus-on-node": N2G + ADDR + f"srun {C10D.replace('=4', '=$SLURM_GPUS_ON_NODE')}\n",
    "S01 double-spawn-accelerate": N2G.replace("nodes=2", "nodes=1")
    + "srun accelerate launch --num_processes 4 train.py\n",
    "S02 node-rank-early": N2 + ADDR + f"srun {STATIC.format('$SLURM_NODEID')}\n",
    "S02 node-rank-early-variable": N2 + ADDR + f"export NODE_RANK=$SLURM_NODEID\nsrun {STATIC.format('$NODE_RANK')}\n",
    "S02 node-rank-early-quotes": N2 + ADDR + f'srun bash -c "{STATIC.format("$SLURM_PROCID")}"\n',
    "S02 rank-early-exports": N2G
    + ADDR
    + "export RANK=$SLURM_PROCID\nexport LOCAL_RANK=$SLURM_LOCALID\nsrun python train.py\n",
    "S02 rank-early-argument": N2G + ADDR + "srun python train.py --rank $SLURM_PROCID --world-size $SLURM_NTASKS\n",
    "S03 literal-single": N2 + ADDR + f"srun {STATIC.format(chr(39) + '$SLURM_NODEID' + chr(39))}\n",
    "S03 literal-backslash": N2 + ADDR + "srun " + STATIC.format("\\$SLURM_PROCID") + "\n",
    "S04 no-srun-torchrun": N2 + ADDR + C10D + "\n",
    "S04 no-srun-static": N2 + ADDR + STATIC.format("$SLURM_NODEID") + "\n",
    "S04 no-srun-lightning lightning=2.2": N2G + "python train.py --devices 4 --num_nodes 2\n",
    "S04 no-srun-python": N2 + "conda activate x\npython train.py\n",
    "S05 in-turn": N2 + ADDR + "".join(f"srun -N1 -n1 -w n{k} {STATIC.format(k)}\n" for k in (0, 1)),
    "S05 everywhere": N2 + ADDR + "".join(f"srun {STATIC.format(k)} &\n" for k in (0, 1)) + "wait\n",
    "S06 lower-case": N2.replace("#SBATCH --nodes", "#sbatch --nodes") + ADDR + f"srun {C10D}\n",
    "S06 too-late": N2 + "module load cuda\n#SBATCH --mem=64G\n" + ADDR + f"srun {C10D}\n",
    "S07 one-gpu-a-task": N2G.replace("--gres=gpu:4", "--gpus-per-task=1") + LIT,
    "S07 one-gpu-a-task-local": N2G.replace("--gres=gpu:4", "--gpus-per-task=1") + ADDR + PER_RANK,
    "S08 devices-not-tasks lightning=1.9.5": N2 + LIT,
    "S08 devices-not-tasks-21 lightning=2.1": N2G.replace("per-node=4", "per-node=2") + LIT,
    "S09 product": N2G + "#SBATCH --ntasks=2\n" + LIT,
    "S09 product-short": "#!/bin/bash\n#SBATCH -N 4\n#SBATCH --ntasks-per-node=8\n#SBATCH -n 8\nsrun python train.py\n",
    "S10 gpus-short": N2G.replace("gpu:4", "gpu:1") + LIT,
    "S10 gpus-short-torchrun": N2.replace("per-node=4", "per-node=2") + ADDR + f"srun {C10D}\n",
    "S10 gpus-per-task-torchrun": N2.replace("--gpus-per-node=4", "--gpus-per-task=1") + ADDR + f"srun {C10D}\n",
    "S11 uneven": H + "#SBATCH -N 2\n#SBATCH -n 8\n#SBATCH --gres=gpu:4\n" + ADDR + PER_RANK,
    "S11 uneven-lightning lightning=2.0": H
    + "#SBATCH --ntasks=4\n#SBATCH --gres=gpu:4\nsrun python train.py --devices 4\n",
    "S12 bind-closest": N2G + LIT.replace("srun", "srun --gpu-bind=closest").replace("--devices 4", "--devices -1"),
    "S12 accel-bind": N2G + ADDR + PER_RANK.replace("srun", "srun --accel-bind=g"),
    "S13 cpus-lost slurm=22.05": N2 + ADDR + f"srun {C10D}\n",
    "S14 named-bash lightning=2.0": N2G.replace("=train", "=bash") + LIT,
    "S15 survivors": N2 + ADDR + f"srun {C10D}\n",
    "S16 old-lightning lightning=1.9.5": N2 + ADDR + f"srun {C10D}\n",
    "S17 procid": N2G + ADDR + "srun bash -c '" + STATIC.format("$SLURM_PROCID") + "'\n",
    "S18 nodes-differ": N2 + ADDR + f"srun {C10D.replace('$SLURM_NNODES', '4')}\n",
    "S18 num-nodes-differ lightning=2.1": N2G + LIT.replace("num_nodes 2", "num_nodes 1"),
    "S19 scontrol-inside": (
        N2 + "srun --container-image=a.sqsh bash -c 'export MASTER_ADDR=$(scontrol show hostnames | head -1);"
        " torchrun --nproc_per_node=4 train.py'\n"
    ),
}
