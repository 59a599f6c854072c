"""Starts that work, as blogs, documentation and clusters write them: no rule of ranks, addresses and ports may call
them wrong. Texts by "name" or "name FACTS"."""

BATCH = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
"""
HEAD = 'head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'

GOOD: dict[str, str] = {
    "one-gpu": "python train.py\n",
    "one-node": "torchrun --nproc_per_node=8 train.py --lr 0.1\n",
    "one-node-standalone nodes=1": "torchrun --standalone --nnodes=1 --nproc_per_node=gpu train.py\n",
    "one-node-as-module": "python -m torch.distributed.run --nproc_per_node 4 -m pkg.train --epochs 3\n",
    "one-node-c10d": "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nnodes=1 --nproc-per-node=2 t.py\n",
    "one-node-localhost": (
        "python -m torch.distributed.launch --nproc_per_node=2 --nnodes=1 --node_rank=0 --master_addr=127.0.0.1"
        " --master_port=29511 train.py\n"
    ),
    "one-node-localhost-no-nnodes": "torchrun --nproc_per_node=4 --master_addr=localhost --master_port=1234 t.py\n",
    "one-node-own-address nodes=1": "torchrun --nproc_per_node=4 --master_addr=10.2.3.4 --master_port=1234 t.py\n",
    "one-node-random-port": "torchrun --nproc_per_node=4 --master_port=$((RANDOM % 1000 + 20000)) train.py\n",
    "one-node-shuf": "PORT=$(shuf -i 20000-30000 -n 1)\ntorchrun --nproc_per_node=4 --master_port=$PORT t.py\n",
    "one-node-free-port": (
        "PORT=$(python -c 'import socket; s=socket.socket(); s.bind((\"\", 0)); print(s.getsockname()[1])')\n"
        "torchrun --nproc_per_node=4 --master_port $PORT train.py\n"
    ),
    "one-node-variables": (
        "GPUS=$1\nPORT=${PORT:-29500}\npython -m torch.distributed.launch --nproc_per_node=$GPUS --master_port=$PORT"
        " tools/train.py $2 --launcher pytorch ${@:3}\n"
    ),
    "openmmlab-dist-train": (
        "CONFIG=$1\nGPUS=$2\nNNODES=${NNODES:-1}\nNODE_RANK=${NODE_RANK:-0}\nPORT=${PORT:-29500}\n"
        'MASTER_ADDR=${MASTER_ADDR:-"127.0.0.1"}\n\n'
        'PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \\\npython -m torch.distributed.launch \\\n    --nnodes=$NNODES \\\n'
        "    --node_rank=$NODE_RANK \\\n    --master_addr=$MASTER_ADDR \\\n    --nproc_per_node=$GPUS \\\n"
        '    --master_port=$PORT \\\n    $(dirname "$0")/train.py \\\n    $CONFIG \\\n    --launcher pytorch'
        " ${@:3}\n"
    ),
    "megatron-arguments": (
        "GPUS_PER_NODE=8\nMASTER_ADDR=localhost\nMASTER_PORT=6000\nNNODES=1\nNODE_RANK=0\n"
        'DISTRIBUTED_ARGS="\n    --nproc_per_node $GPUS_PER_NODE \\\n    --nnodes $NNODES \\\n    --node_rank'
        " $NODE_RANK \\\n"
        '    --master_addr $MASTER_ADDR \\\n    --master_port $MASTER_PORT\n"\n'
        "torchrun $DISTRIBUTED_ARGS pretrain_gpt.py --num-layers 24\n"
    ),
    "megatron-array": (
        "DISTRIBUTED_ARGS=(\n    --nproc_per_node 8\n    --nnodes 2\n    --node_rank $NODE_RANK\n"
        "    --master_addr $MASTER_ADDR\n    --master_port 6000\n)\n"
        "torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py\n"
    ),
    "unknown-arguments nodes=2": "torchrun $TORCHRUN_ARGS train.py\n",
    "two-nodes nodes=2": (
        "#@ node 0\ntorchrun --nnodes=2 --nproc-per-node=8 --node-rank=0 --master-addr=10.2.3.4 --master-port=61000"
        " t.py\n"
        "#@ node 1\ntorchrun --nnodes=2 --nproc-per-node=8 --node-rank=1 --master-addr=10.2.3.4 --master-port=61000"
        " t.py\n"
    ),
    "two-nodes-one-text": (
        "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=10.2.3.4 --master_port=29511 t.py\n"
        "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=1 --master_addr=10.2.3.4 --master_port=29511 t.py\n"
    ),
    "the-heads-line-only nodes=2": (
        "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=10.2.3.4 --master_port=29511 train.py\n"
    ),
    "second-nodes-line-only": (
        "#@ node 1\ntorchrun --nnodes 2 --nproc_per_node 8 --node_rank 1 --master_addr head --master_port 29511 t.py\n"
    ),
    "head-listens-at-home": (
        "#@ node 0\ntorchrun --nnodes=2 --nproc-per-node=8 --node-rank=0 --master-addr=localhost --master-port=6100"
        " t.py\n"
        "#@ node 1\ntorchrun --nnodes=2 --nproc-per-node=8 --node-rank=1 --master-addr=10.2.3.4 --master-port=6100"
        " t.py\n"
    ),
    "old-launch-module": (
        "#@ node 0\npython -m torch.distributed.launch --nproc_per_node=8 --nnodes=2 --node_rank=0"
        ' --master_addr="192.168.100.1" --master_port=1234 train.py --arg1 --arg2\n'
        "#@ node 1\npython -m torch.distributed.launch --nproc_per_node=8 --nnodes=2 --node_rank=1"
        ' --master_addr="192.168.100.1" --master_port=1234 train.py --arg1 --arg2\n'
    ),
    "platform-variables": (
        "torchrun --nproc_per_node=8 --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR"
        " --master_port=$MASTER_PORT train.py\n"
    ),
    "skypilot": (
        'MASTER_ADDR=$(echo "$SKYPILOT_NODE_IPS" | head -n1)\n'
        "torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE"
        " --master_addr=$MASTER_ADDR --master_port=8008 --node_rank=${SKYPILOT_NODE_RANK} main.py\n"
    ),
    "dstack": (
        "torchrun --nproc-per-node=$DSTACK_GPUS_PER_NODE --node-rank=$DSTACK_NODE_RANK --nnodes=$DSTACK_NODES_NUM"
        " --master-addr=$DSTACK_MASTER_NODE_IP --master-port=12345 train.py\n"
    ),
    "volcano": (
        "MASTER_ADDR=$(echo $VC_MASTER_HOSTS | cut -d, -f1)\ntorchrun --nnodes=2 --nproc_per_node=8"
        " --node_rank=$VC_TASK_INDEX"
        " --master_addr=$MASTER_ADDR --master_port=23456 train.py\n"
    ),
    "job-completion-index": (
        "torchrun --nnodes=4 --nproc_per_node=8 --node_rank=$JOB_COMPLETION_INDEX --master_addr=train-workers-0-0.train"
        " --master_port=3389 train.py\n"
    ),
    "pet-variables": (
        "export PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=10.2.3.4 PET_MASTER_PORT=29511 PET_NPROC_PER_NODE=8\n"
        "torchrun train.py\n"
    ),
    "pet-c10d": (
        "export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=head:29400 PET_NNODES=2\ntorchrun --nproc_per_node=8 train.py\n"
    ),
    "torchx": (
        "torchrun --rdzv_backend c10d --rdzv_endpoint ${TORCHX_RANK0_HOST:=localhost}:29500 --rdzv_id app --nnodes 2"
        ' --nproc_per_node 8 --tee 3 --role "" train.py\n'
    ),
    "determined-one-node": (
        "python3 -m torch.distributed.run --nnodes 1 --nproc_per_node 8 --node_rank 0 --max_restarts 0"
        " --master_addr localhost --master_port 29400 --module determined.launch.torch\n"
    ),
    "c10d-by-name nodes=4": (
        "#@ every node\ntorchrun --nnodes=4 --nproc_per_node=8 --rdzv_id=100 --rdzv_backend=c10d"
        " --rdzv_endpoint=node01.cluster:29400 train.py\n"
    ),
    "c10d-without-port": (
        "torchrun --nnodes=4 --nproc_per_node=8 --rdzv_id=100 --rdzv_backend=c10d --rdzv_endpoint=node01 train.py\n"
    ),
    "c10d-by-address nodes=2": (
        "#@ every node\ntorchrun --nnodes 2 --nproc_per_node 8 --rdzv_id 456 --rdzv_backend c10d"
        " --rdzv_endpoint 172.31.43.139:29603 multinode.py 50 10\n"
    ),
    "c10d-endpoint-variable": (
        "torchrun --nnodes=$NUM_NODES --nproc-per-node=$NUM_TRAINERS --rdzv-id=$JOB_ID --rdzv-backend=c10d"
        " --rdzv-endpoint=$HOST_NODE_ADDR train.py\n"
    ),
    "c10d-head-at-home": (
        "#@ node 0\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_id=1 --rdzv_backend=c10d"
        " --rdzv_endpoint=localhost:29400 train.py\n"
        "#@ node 1\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_id=1 --rdzv_backend=c10d"
        " --rdzv_endpoint=head:29400 train.py\n"
    ),
    "c10d-stated": (
        "#@ node 0\ntorchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=1 --rdzv-backend=c10d"
        " --rdzv-endpoint=10.2.3.4:29400"
        " --rdzv-conf=is_host=1 --local-addr=10.2.3.4 train.py\n"
        "#@ node 1\ntorchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=1 --rdzv-backend=c10d"
        " --rdzv-endpoint=10.2.3.4:29400"
        " --rdzv-conf=is_host=0 --local-addr=10.2.3.5 train.py\n"
    ),
    "c10d-ranks-ignored": (
        "#@ every node\ntorchrun --nnodes=2 --node_rank=0 --nproc_per_node=4 --rdzv_id=1 --rdzv_backend=c10d"
        " --rdzv_endpoint=head:29400 train.py\n"
    ),
    "elastic": (
        "#@ every node\ntorchrun --nnodes=1:4 --nproc-per-node=8 --max-restarts=3 --rdzv-id=1 --rdzv-backend=c10d"
        " --rdzv-endpoint=head:29400 train.py\n"
    ),
    "etcd": (
        "#@ every node\npython -m torch.distributed.run --nnodes=1:4 --nproc_per_node=8 --max_restarts=3 --rdzv_id=1"
        " --rdzv_backend=etcd --rdzv_endpoint=etcd-0:2379 train.py\n"
    ),
    "prefix-options": (
        "#@ node 1\ntorchrun --nnode 2 --nproc_per 8 --node_r 1 --master_addr head --master_port 6100 train.py\n"
    ),
    "last-option-wins": (
        "#@ node 1\ntorchrun --nnodes 2 --node_rank 0 --node_rank 1 --nproc_per_node 8 --master_addr localhost"
        " --master_addr head --master_port 6100 train.py\n"
    ),
    "ipv6": (
        "#@ node 1\ntorchrun --nnodes=2 --node-rank=1 --nproc-per-node=8 --rdzv-endpoint='[fd00:1::2]:61000' train.py\n"
    ),
    "ssh-loop": (
        'i=0\nfor host in n1 n2 n3; do\n  ssh $host "cd /work && torchrun --nnodes=3 --nproc_per_node=8 --node_rank=$i'
        ' --master_addr=n1 --master_port=6100 train.py" &\n  i=$((i+1))\ndone\nwait\n'
    ),
    "ssh-lines": (
        "ssh n1 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=n1 --master_port=6100 t.py' &\n"
        "ssh n2 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=1 --master_addr=n1 --master_port=6100 t.py'"
        " &\nwait\n"
    ),
    "guarded": (
        '#@ every node\nif [ "$NODE_RANK" = 0 ]; then\n  torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0'
        " --master_addr=head"
        " --master_port=6100 t.py\nelse\n  torchrun --nnodes=2 --nproc_per_node=8 --node_rank=1 --master_addr=head"
        " --master_port=6100 t.py\nfi\n"
    ),
    "one-or-several": (
        'if [ "$NNODES" -gt 1 ]; then\n  torchrun --nnodes=$NNODES --nproc_per_node=8 --node_rank=$NODE_RANK'
        " --master_addr=$MASTER_ADDR --master_port=6100 t.py\nelse\n  torchrun --standalone --nproc_per_node=8"
        " t.py\nfi\n"
    ),
    "sequential-runs": (
        "for seed in 1 2 3; do\n  torchrun --nproc_per_node=8 --master_port=29511 train.py --seed $seed\ndone\n"
        "torchrun --nproc_per_node=8 --master_port=29511 test.py\n"
    ),
    "two-jobs-two-ports": (
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 --master_port=29511 a.py &\n"
        "CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 --master_port=29512 b.py &\nwait\n"
    ),
    "background-then-wait": (
        "torchrun --nproc_per_node=8 --master_port=29511 a.py &\nwait\n"
        "torchrun --nproc_per_node=8 --master_port=29511 b.py &\nwait\n"
    ),
    "accelerate-two-nodes nodes=2,gpus_per_node=4": (
        "#@ node 0\naccelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank 0"
        " --main_process_ip 10.2.3.4 --main_process_port 61000 train.py\n"
        "#@ node 1\naccelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank 1"
        " --main_process_ip 10.2.3.4 --main_process_port 61000 train.py\n"
    ),
    "deepspeed-one-node": "deepspeed --num_gpus 4 --master_port 29511 train.py --deepspeed ds.json\n",
    "fabric": (
        "#@ node 1\nfabric run --node-rank=1 --main-address=head --main-port=61000 --num-nodes=2 --devices=8"
        " --accelerator=cuda train.py\n"
    ),
    "lightning": (
        "#@ node 0\nMASTER_ADDR=10.2.3.4 MASTER_PORT=61000 NODE_RANK=0 python train.py\n"
        "#@ node 1\nMASTER_ADDR=10.2.3.4 MASTER_PORT=61000 NODE_RANK=1 python train.py\n"
    ),
    "mpirun": (
        "mpirun -np 16 -H n1:8,n2:8 -bind-to none -x MASTER_ADDR=n1 -x MASTER_PORT=61000 bash -c"
        " 'RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE"
        " exec python train.py'\n"
    ),
    "slurm-c10d": (
        BATCH + HEAD + "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_id $RANDOM --rdzv_backend c10d"
        " --rdzv_endpoint $head_node:29500 train.py\n"
    ),
    "slurm-address nodes=4,gpus_per_node=8": (
        BATCH + HEAD + 'head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)\n'
        "export LOGLEVEL=INFO\nsrun torchrun \\\n  --nnodes 4 \\\n  --nproc_per_node 8 \\\n  --rdzv_id"
        " $SLURM_JOB_ID \\\n"
        "  --rdzv_backend c10d \\\n  --rdzv_endpoint $head_node_ip:29500 \\\n  train.py\n"
    ),
    "slurm-static": (
        BATCH + HEAD + "export MASTER_ADDR=$head_node MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))\n"
        "srun bash -c 'torchrun --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --nproc_per_node=8"
        " --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py'\n"
    ),
    "slurm-hostname-in-batch": (
        BATCH + "export MASTER_ADDR=$(hostname) MASTER_PORT=61000\n"
        "srun bash -c 'torchrun --nnodes=4 --node_rank=$SLURM_NODEID --nproc_per_node=8 --master_addr=$MASTER_ADDR"
        " --master_port=$MASTER_PORT train.py'\n"
    ),
    "slurm-random-in-batch": (
        BATCH + HEAD + "export MASTER_PORT=$((20000 + RANDOM % 10000))\nexport HEAD=$head_node\n"
        "srun bash -c 'torchrun --nnodes=4 --node_rank=$SLURM_NODEID --nproc_per_node=8 --master_addr=$HEAD"
        " --master_port=$MASTER_PORT train.py'\n"
    ),
    "slurm-escaped-rank": (
        BATCH
        + HEAD
        + 'LAUNCHER="torchrun --nproc_per_node 8 --nnodes 4 --node_rank \\$SLURM_PROCID --master_addr $head_node'
        ' --master_port 6000"\nsrun bash -c "$LAUNCHER train.py --lr 1e-4"\n'
    ),
    "slurm-one-node": (
        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus=4\n#SBATCH --cpus-per-task=8\ntorchrun --standalone"
        " --nproc_per_node=4 train.py\n"
    ),
    "slurm-rank-per-task": (
        BATCH.replace("per-node=1", "per-node=8").replace("=32", "=4") + "export MASTER_PORT=12340\n"
        'master_addr=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nexport MASTER_ADDR=$master_addr\n'
        "srun python train.py\n"
    ),
    "slurm-srun-per-node": (
        BATCH + "nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )\nfor ((i = 0; i < SLURM_NNODES; i++)); do\n"
        "  srun --nodes=1 --ntasks=1 -w ${nodes[$i]} torchrun --nnodes=$SLURM_NNODES --node_rank=$i --nproc_per_node=8"
        " --master_addr=${nodes[0]} --master_port=6100 train.py &\ndone\nwait\n"
    ),
    "ranks-by-argument": (
        "NODE_RANK=$1\nMASTER=$2\ntorchrun --nnodes=2 --nproc_per_node=8 --node_rank=$NODE_RANK --master_addr=$MASTER"
        " --master_port=6100 train.py\n"
    ),
    "help nodes=2": "torchrun --help\n",
    "docker": (
        "#@ node 1\ndocker run --gpus all --network host --shm-size 16g image:1 torchrun --nnodes=2 --node_rank=1"
        " --nproc_per_node=8 --master_addr=10.2.3.4 --master_port=6100 train.py\n"
    ),
    "shared-file-address": (
        "#@ node 1\nHEAD=$(cat /shared/head)\ntorchrun --nnodes=2 --node_rank=1 --nproc_per_node=8 --master_addr=$HEAD"
        " --master_port=6100 train.py\n"
    ),
    "trial-on-one-machine": (
        "for i in 0 1; do\n  torchrun --nnodes=2 --nproc_per_node=2 --node_rank=$i --master_addr=localhost"
        " --master_port=29500 train.py &\ndone\nwait\n"
    ),
    "trial-c10d-on-one-machine nodes=1": (
        "torchrun --nnodes=2 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_id=x"
        " --rdzv_endpoint=localhost:29400 t.py &\n"
        "torchrun --nnodes=2 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_id=x"
        " --rdzv_endpoint=localhost:29400 t.py &\n"
        "wait\n"
    ),
    "evaluated-by-each-node nodes=2": (
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=8 --node_rank=$NODE_RANK --master_addr=10.2.3.4"
        " --master_port=6101 train.py\ntorchrun --standalone --nproc_per_node=8 eval.py\n"
    ),
    "prepared-by-the-head": (
        "#@ node 0\ntorchrun --standalone --nproc_per_node=8 prepare.py\ntorchrun --nnodes=2"
        " --nproc_per_node=8 --node_rank=0"
        " --master_addr=10.2.3.4 --master_port=6101 train.py\n#@ node 1\ntorchrun --nnodes=2 --nproc_per_node=8"
        " --node_rank=1 --master_addr=10.2.3.4 --master_port=6101 train.py\n"
    ),
    "address-by-resolver nodes=2": (
        "#@ every node\nIP=$(getent hosts head | awk '{print $1}')\ntorchrun --nnodes=2 --node_rank=$NODE_RANK"
        " --nproc_per_node=8 --master_addr=$IP --master_port=6100 train.py\n"
    ),
    "sweep": (
        BATCH + "srun --nodes=1 --ntasks=1 torchrun --standalone --nproc_per_node=8 a.py &\n"
        "srun --nodes=1 --ntasks=1 torchrun --standalone --nproc_per_node=8 b.py &\nwait\n"
    ),
    "loop-waits": (
        "for f in 0 1; do\n  torchrun --nproc_per_node=1 --master_port=29501 train.py --fold $f &\n  wait\ndone\n"
    ),
}
