"""Starts that fail, by the rule that has to say so: (code, facts, text)."""

from tests.lint_cases.slurm_good import ADDR, C10D, N1, N2, N2G, H

LIT = "srun python train.py --accelerator gpu --devices 4 --num_nodes 2 --strategy ddp\n"
STATIC = (
    "torchrun --nnodes=2 --nproc_per_node=4 --node_rank={} --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT"
    " train.py"
)
TWO = "torchrun --nnodes=2 --nproc_per_node=4 --node_rank={} --master_addr=10.0.0.5 --master_port=61234 train.py\n"
PER_RANK = "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS python train.py'\n"

BAD: dict[str, tuple[str, str, str]] = {
    # the tutorials' command, in its many shapes
    "tutorial": (
        "E01",
        "",
        'CUDA_VISIBLE_DEVICES="0,1,2,3" MASTER_ADDR=$master_ip MASTER_PORT=45321 WORLD_SIZE=3 NODE_RANK=0'
        " LOCAL_RANK=0 python main.py\n",
    ),
    "tutorial-1.5": (
        "E01",
        "lightning=1.5.10,nodes=3",
        'CUDA_VISIBLE_DEVICES="0,1,2,3" MASTER_ADDR=$master_ip MASTER_PORT=45321'
        " WORLD_SIZE=3 NODE_RANK=2 LOCAL_RANK=0 python main.py\n",
    ),
    "tutorial-exports": (
        "E01",
        "",
        "export MASTER_ADDR=10.0.0.5\nexport MASTER_PORT=45321\nexport WORLD_SIZE=2\nexport NODE_RANK=1\n"
        "export LOCAL_RANK=0\npython3 train.py\n",
    ),
    "tutorial-nohup": (
        "E01",
        "",
        "MASTER_ADDR=10.0.0.5 MASTER_PORT=45321 WORLD_SIZE=2 NODE_RANK=1 LOCAL_RANK=0 nohup python -u train.py"
        " > log 2>&1 &\nwait\n",
    ),
    "tutorial-trainer": (
        "E01",
        "lightning=2.6.6",
        "#@ file train.py\nfrom lightning import Trainer\ntrainer = Trainer(devices=4,"
        ' num_nodes=2, strategy="ddp")\n#@ node 0\nNODE_RANK=0 MASTER_ADDR=10.0.0.5 MASTER_PORT=45321'
        " LOCAL_RANK=0 python train.py\n",
    ),
    "tutorial-1.0": (
        "E03",
        "lightning=1.1.8",
        "MASTER_ADDR=10.0.0.5 WORLD_SIZE=2 NODE_RANK=0 python train.py --gpus 2\n",
    ),
    # environment
    "rank-beyond-world": (
        "E02",
        "",
        "MASTER_ADDR=10.0.0.5 MASTER_PORT=61234 WORLD_SIZE=2 RANK=2 LOCAL_RANK=0 python train.py\n",
    ),
    "world-size-nodes": ("E02", "", N2G + ADDR + PER_RANK.replace("SLURM_NTASKS", "SLURM_NNODES")),
    "world-size-constant": ("E02", "", N2G + ADDR + PER_RANK.replace("$SLURM_NTASKS", "2")),
    "mmlab-no-launcher": ("E04", "", "CUDA_VISIBLE_DEVICES=0,1 python ./tools/train.py cfg.py --launcher=pytorch\n"),
    "detr-no-launcher": ("E04", "", "python -u main.py --dist_url 'env://' --coco_path /data/coco\n"),
    "imagenet-no-rank": (
        "E04",
        "",
        "python main.py --dist-url 'tcp://10.0.0.5:61234' --world-size 2 --multiprocessing-distributed /d\n",
    ),
    "loop-without-variable": (
        "E04",
        "",
        "for i in 0 1; do\n python main.py --init-method tcp://10.0.0.5:61234 --world-size 2 --rank 0 &\ndone\nwait\n",
    ),
    "local-rank-argument": (
        "E05",
        "",
        "python -m torch.distributed.launch --nproc_per_node=4 --use_env train.py --local_rank 0\n",
    ),
    "deepspeed-local-rank": ("E05", "", "deepspeed --num_gpus 8 train.py --local_rank=0 --deepspeed\n"),
    "srun-local-rank-zero": ("E05", "", N2G + ADDR + "export LOCAL_RANK=0\nsrun python train.py\n"),
    "srun-rank-zero": ("E05", "", N2G + ADDR + "srun bash -c 'RANK=0 WORLD_SIZE=8 python train.py'\n"),
    "job-gpus": (
        "E06",
        "",
        N1 + "export CUDA_VISIBLE_DEVICES=$SLURM_JOB_GPUS\ntorchrun --standalone --nproc_per_node=4 train.py\n",
    ),
    "step-gpus": ("E06", "", N1 + "CUDA_VISIBLE_DEVICES=${SLURM_STEP_GPUS} python train.py\n"),
    "cuda-devices-not-exported": ("E07", "", "CUDA_VISIBLE_DEVICES=1\npython train.py\n"),
    "nccl-not-exported": ("E07", "", "NCCL_SOCKET_IFNAME=eth1\nNCCL_IB_DISABLE=1\n" + TWO.format(0)),
    "master-not-exported": (
        "E07",
        "lightning=2.0",
        "MASTER_ADDR=10.0.0.5\nMASTER_PORT=61234\nNODE_RANK=0 python train.py --devices 4 --num_nodes 2\n",
    ),
    "ifname-lo": ("E08", "nodes=2", "export NCCL_SOCKET_IFNAME=lo\n" + TWO.format(0)),
    "ifname-docker": (
        "E08",
        "",
        "#@ node 0\nNCCL_SOCKET_IFNAME=docker0 "
        + TWO.format(0)
        + "#@ node 1\nNCCL_SOCKET_IFNAME=docker0 "
        + TWO.format(1),
    ),
    "gloo-lo": ("E08", "", N2 + ADDR + f"export GLOO_SOCKET_IFNAME=lo\nsrun {C10D}\n"),
    "gloo-caret": ("E08", "", "export GLOO_SOCKET_IFNAME=^lo,docker0\n" + TWO.format(1)),
    "ifname-misspelt": ("E08", "", "export NCCL_SOCKET_IFACE=eth0\n" + TWO.format(1)),
    "ifname-address": ("E08", "", "NCCL_SOCKET_IFNAME=192.168.7.3 " + TWO.format(1)),
    "nccl-misspelt": ("E08", "", "export NCCL_P2P_DISABLED=1\n" + TWO.format(1)),
    "elastic-leftover": ("E09", "", "export TORCHELASTIC_RUN_ID=abc\npython train.py --devices 4 --strategy ddp\n"),
    "ib-disabled": ("E10", "", "export NCCL_IB_DISABLE=1\n" + TWO.format(1)),
    "detail-left-on": ("E10", "", "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --nproc_per_node=2 train.py\n"),
    "mpirun-no-x": (
        "E11",
        "",
        "export MASTER_ADDR=10.0.0.5\nexport NCCL_SOCKET_IFNAME=eth0\nmpirun -np 8 --hostfile hosts"
        " --bind-to none --map-by ppr:4:node python train.py\n",
    ),
    "deepspeed-omp": (
        "E11",
        "",
        "export OMP_NUM_THREADS=8\nexport HF_HOME=/scratch/hf\ndeepspeed --hostfile hosts train.py\n",
    ),
    "nodes-disagree": (
        "E12",
        "",
        "#@ node 0\nexport NCCL_NET=Socket\n" + TWO.format(0) + "#@ node 1\n" + TWO.format(1),
    ),
    "async-error-handling": ("E13", "torch=2.5", "NCCL_ASYNC_ERROR_HANDLING=1 torchrun --nproc_per_node=2 train.py\n"),
    # devices
    "two-gpus-four-ranks": (
        "G01",
        "",
        "CUDA_VISIBLE_DEVICES=0,1 python -m torch.distributed.launch --nproc_per_node=4 train.py\n",
    ),
    "exported-one-gpu": ("G01", "", "export CUDA_VISIBLE_DEVICES=3\ntorchrun --nproc_per_node 2 train.py\n"),
    "yolo": ("G01", "", "python -m torch.distributed.launch --nproc_per_node 4 train.py --device 0,1\n"),
    "facts-eight": ("G01", "gpus_per_node=4", TWO.format(0).replace("node=4", "node=8")),
    "accelerate-gpus": ("G01", "", "CUDA_VISIBLE_DEVICES=0 accelerate launch --multi_gpu --num_processes=2 train.py\n"),
    "idle": ("G02", "", N2 + ADDR + f"srun {C10D.replace('--nproc_per_node=4 ', '')}\n"),
    "idle-half": ("G02", "", N1 + "torchrun --standalone --nproc_per_node=2 train.py\n"),
    "one-gpu-each-and-local-rank": (
        "G03",
        "",
        "for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i LOCAL_RANK=$i RANK=$i WORLD_SIZE=4"
        " MASTER_ADDR=localhost MASTER_PORT=61234 python train.py & done; wait\n",
    ),
    "localid-twice": (
        "G03",
        "",
        N2G + ADDR + PER_RANK.replace("'RANK", "'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; RANK"),
    ),
    "cvd-duplicates": ("G04", "", "CUDA_VISIBLE_DEVICES=0,1,1 torchrun --nproc_per_node=2 train.py\n"),
    "cvd-blanks": ("G04", "", "export CUDA_VISIBLE_DEVICES='0 1'\npython train.py\n"),
    "cvd-brackets": ("G04", "", 'CUDA_VISIBLE_DEVICES="[0,1]" python train.py\n'),
    "cvd-range": ("G04", "", "CUDA_VISIBLE_DEVICES=0-7 python train.py\n"),
    "cvd-foreign": ("G04", "gpus_per_node=2", "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node=2 train.py\n"),
    "threads": ("G05", "", N2 + ADDR + f"export OMP_NUM_THREADS=24\nsrun --cpus-per-task=24 {C10D}\n"),
    "trainer-two-of-four": (
        "G06",
        "lightning=2.3",
        "torchrun --nproc_per_node=4 train.py --devices 2 --strategy ddp\n",
    ),
    "include-beyond": ("G07", "gpus_per_node=4", "deepspeed --include localhost:2,3,4 train.py\n"),
    # SLURM
    "double-spawn": ("S01", "", N2G + ADDR + f"srun {C10D}\n"),
    "double-spawn-short": (
        "S01",
        "",
        "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -n 8\n#SBATCH --gpus-per-node=4\n" + ADDR + f"srun {C10D}\n",
    ),
    "double-spawn-gpus-on-node": ("S01", "", N2G + ADDR + f"srun {C10D.replace('=4', '=$SLURM_GPUS_ON_NODE')}\n"),
    "double-spawn-accelerate": (
        "S01",
        "",
        N2G.replace("nodes=2", "nodes=1") + "srun accelerate launch --num_processes 4 train.py\n",
    ),
    "node-rank-early": ("S02", "", N2 + ADDR + f"srun {STATIC.format('$SLURM_NODEID')}\n"),
    "node-rank-early-variable": (
        "S02",
        "",
        N2 + ADDR + f"export NODE_RANK=$SLURM_NODEID\nsrun {STATIC.format('$NODE_RANK')}\n",
    ),
    "node-rank-early-quotes": ("S02", "", N2 + ADDR + f'srun bash -c "{STATIC.format("$SLURM_PROCID")}"\n'),
    "rank-early-exports": (
        "S02",
        "",
        N2G + ADDR + "export RANK=$SLURM_PROCID\nexport LOCAL_RANK=$SLURM_LOCALID\nsrun python train.py\n",
    ),
    "rank-early-argument": (
        "S02",
        "",
        N2G + ADDR + "srun python train.py --rank $SLURM_PROCID --world-size $SLURM_NTASKS\n",
    ),
    "literal-single": ("S03", "", N2 + ADDR + f"srun {STATIC.format(chr(39) + '$SLURM_NODEID' + chr(39))}\n"),
    "literal-backslash": ("S03", "", N2 + ADDR + "srun " + STATIC.format("\\$SLURM_PROCID") + "\n"),
    "no-srun-torchrun": ("S04", "", N2 + ADDR + C10D + "\n"),
    "no-srun-static": ("S04", "", N2 + ADDR + STATIC.format("$SLURM_NODEID") + "\n"),
    "no-srun-lightning": ("S04", "lightning=2.2", N2G + "python train.py --devices 4 --num_nodes 2\n"),
    "no-srun-python": ("S04", "", N2 + "conda activate x\npython train.py\n"),
    "in-turn": ("S05", "", N2 + ADDR + "".join(f"srun -N1 -n1 -w n{k} {STATIC.format(k)}\n" for k in (0, 1))),
    "everywhere": ("S05", "", N2 + ADDR + "".join(f"srun {STATIC.format(k)} &\n" for k in (0, 1)) + "wait\n"),
    "lower-case": ("S06", "", N2.replace("#SBATCH --nodes", "#sbatch --nodes") + ADDR + f"srun {C10D}\n"),
    "too-late": ("S06", "", N2 + "module load cuda\n#SBATCH --mem=64G\n" + ADDR + f"srun {C10D}\n"),
    "one-gpu-a-task": ("S07", "", N2G.replace("--gres=gpu:4", "--gpus-per-task=1") + LIT),
    "one-gpu-a-task-local": ("S07", "", N2G.replace("--gres=gpu:4", "--gpus-per-task=1") + ADDR + PER_RANK),
    "devices-not-tasks": ("S08", "lightning=1.9.5", N2 + LIT),
    "devices-not-tasks-21": ("S08", "lightning=2.1", N2G.replace("per-node=4", "per-node=2") + LIT),
    "product": ("S09", "", N2G + "#SBATCH --ntasks=2\n" + LIT),
    "product-short": (
        "S09",
        "",
        "#!/bin/bash\n#SBATCH -N 4\n#SBATCH --ntasks-per-node=8\n#SBATCH -n 8\nsrun python train.py\n",
    ),
    "gpus-short": ("S10", "", N2G.replace("gpu:4", "gpu:1") + LIT),
    "gpus-short-torchrun": ("S10", "", N2.replace("per-node=4", "per-node=2") + ADDR + f"srun {C10D}\n"),
    "gpus-per-task-torchrun": (
        "S10",
        "",
        N2.replace("--gpus-per-node=4", "--gpus-per-task=1") + ADDR + f"srun {C10D}\n",
    ),
    "uneven": ("S11", "", H + "#SBATCH -N 2\n#SBATCH -n 8\n#SBATCH --gres=gpu:4\n" + ADDR + PER_RANK),
    "uneven-lightning": (
        "S11",
        "lightning=2.0",
        H + "#SBATCH --ntasks=4\n#SBATCH --gres=gpu:4\nsrun python train.py --devices 4\n",
    ),
    "bind-closest": (
        "S12",
        "",
        N2G + LIT.replace("srun", "srun --gpu-bind=closest").replace("--devices 4", "--devices -1"),
    ),
    "accel-bind": ("S12", "", N2G + ADDR + PER_RANK.replace("srun", "srun --accel-bind=g")),
    "cpus-lost": ("S13", "slurm=22.05", N2 + ADDR + f"srun {C10D}\n"),
    "named-bash": ("S14", "lightning=2.0", N2G.replace("=train", "=bash") + LIT),
    "survivors": ("S15", "", N2 + ADDR + f"srun {C10D}\n"),
    "old-lightning": ("S16", "lightning=1.9.5", N2 + ADDR + f"srun {C10D}\n"),
    "procid": ("S17", "", N2G + ADDR + "srun bash -c '" + STATIC.format("$SLURM_PROCID") + "'\n"),
    "nodes-differ": ("S18", "", N2 + ADDR + f"srun {C10D.replace('$SLURM_NNODES', '4')}\n"),
    "num-nodes-differ": ("S18", "lightning=2.1", N2G + LIT.replace("num_nodes 2", "num_nodes 1")),
    "scontrol-inside": (
        "S19",
        "",
        N2 + "srun --container-image=a.sqsh bash -c 'export MASTER_ADDR=$(scontrol show hostnames | head -1);"
        " torchrun --nproc_per_node=4 train.py'\n",
    ),
}
