"""Starts that hang, fail or train in wrong worlds, in the forms in which people write them: what is found in each.

Texts by "CODE name" or "CODE name FACTS".
"""

BATCH = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
"""
HEAD = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'


def static(rank: object, address: str = "10.2.3.4", port: object = 61000, nnodes: object = 2) -> str:
    return (
        f"torchrun --nnodes={nnodes} --nproc_per_node=4 --node_rank={rank} --master_addr={address}"
        f" --master_port={port} train.py\n"
    )


def c10d(endpoint: str = "head:29400", id: object = 7, nnodes: object = 2) -> str:
    return (
        f"torchrun --nnodes {nnodes} --nproc_per_node 4 --rdzv_id {id} --rdzv_backend c10d"
        f" --rdzv_endpoint {endpoint} train.py\n"
    )


def nodes(*texts: str) -> str:
    return "".join(f"#@ node {number}\n{text}" for number, text in enumerate(texts))


def srun(inner: str) -> str:
    return f"srun --cpus-per-task=16 bash -c '{inner.strip()}'\n"


BAD: dict[str, str] = {
    "R01 pasted-unchanged": nodes(static(0), static(0)),
    "R01 pasted-on-three nodes=3": nodes(static(0, nnodes=3), static(1, nnodes=3), static(1, nnodes=3)),
    "R01 rank-in-a-variable": "#@ every node\nNODE_RANK=0\nNNODES=2\n" + static("$NODE_RANK", nnodes="$NNODES"),
    "R01 ssh-to-both-as-zero": (
        "ssh n1 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=n1 --master_port=6100 t.py' &\n"
        "ssh n2 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=n1 --master_port=6100 t.py'"
        " &\nwait\n"
    ),
    "R01 machine-rank-twice": (
        nodes(
            *[
                "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank 0"
                " --main_process_ip 10.2.3.4 --main_process_port 61000 train.py\n"
            ]
            * 2
        )
    ),
    "R01 constant-under-srun": BATCH + HEAD + srun(static(0, "$MASTER_ADDR")),
    "R01 lightning-node-rank-twice": nodes(
        *["MASTER_ADDR=10.2.3.4 MASTER_PORT=61000 NODE_RANK=0 python train.py\n"] * 2
    ),
    "R02 ranks-from-one": nodes(static(1), static(2)),
    "R02 rank-equals-nnodes": "#@ node 1\n" + static(2),
    "R02 ranks-from-one-exported": nodes(
        "export NODE_RANK=1\n" + static("$NODE_RANK"), "export NODE_RANK=2\n" + static("$NODE_RANK")
    ),
    "R03 no-nnodes": nodes(static(0).replace("--nnodes=2 ", ""), static(1).replace("--nnodes=2 ", "")),
    "R03 no-nnodes-old-launch torch=1.13": (
        "python -m torch.distributed.launch --nproc_per_node=4 --node_rank=1 --master_addr=10.2.3.4 train.py\n"
    ),
    "R03 no-nnodes-every-node nodes=2": "#@ every node\ntorchrun --nproc_per_node=8 train.py\n",
    "R03 no-nnodes-srun": BATCH + "srun torchrun --nproc_per_node=4 train.py\n",
    "R03 no-nnodes-head": (
        "#@ node 0\npython -m torch.distributed.run --nproc_per_node=4 --node_rank=0 --master_addr=10.2.3.4 train.py\n"
    ),
    "R04 standalone-two-nodes": "torchrun --standalone --nnodes=2 --nproc_per_node=4 train.py\n",
    "R04 standalone-everywhere nodes=2": "#@ every node\ntorchrun --standalone --nproc_per_node=4 train.py\n",
    "R04 standalone-srun": BATCH + "srun torchrun --standalone --nproc_per_node=4 train.py\n",
    "R04 standalone-and-static": nodes(*[static(i).replace("torchrun", "torchrun --standalone") for i in (0, 1)]),
    "R05 no-address": "#@ node 1\ntorchrun --nnodes=2 --nproc_per_node=4 --node_rank=1 train.py\n",
    "R05 address-in-the-environment": (
        "#@ node 1\nexport MASTER_ADDR=10.2.3.4 MASTER_PORT=61000\n"
        "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=1 train.py\n"
    ),
    "R05 only-the-port": nodes(
        *[f"torchrun --nnodes=2 --node_rank={i} --nproc_per_node=4 --master_port=61000 t.py\n" for i in (0, 1)]
    ),
    "R06 no-rank": (
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --master_addr=10.2.3.4 --master_port=6100 train.py\n"
    ),
    "R06 no-rank-srun": (
        BATCH
        + HEAD
        + "srun torchrun --nnodes=2 --nproc_per_node=4 --master_addr=$MASTER_ADDR --master_port=6100 t.py\n"
    ),
    "R06 no-rank-on-the-second": nodes(static(0), static(1).replace("--node_rank=1 ", "")),
    "R06 fabric-no-rank": (
        "#@ node 1\nfabric run --main-address=10.2.3.4 --num-nodes=2 --devices=8 --accelerator=cuda train.py\n"
    ),
    "R07 c10d-with-master": (
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --master_addr=10.2.3.4"
        " --master_port=61000 train.py\n"
    ),
    "R07 c10d-with-nothing": "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d t.py\n",
    "R08 endpoint-no-backend": (
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_id=7 --rdzv_endpoint=head:29400 train.py\n"
    ),
    "R08 endpoint-no-backend-slurm": (
        BATCH
        + HEAD
        + "srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id 7 --rdzv_endpoint $MASTER_ADDR:29500 t.py\n"
    ),
    "R09 ids-differ": nodes(c10d(id=1), c10d(id=2)),
    "R09 random-id": "#@ every node\n" + c10d(id="$RANDOM"),
    "R09 random-id-through-a-variable": "#@ every node\nJOB_ID=$RANDOM\n" + c10d(id="$JOB_ID"),
    "R09 time-as-id": "#@ every node\n" + c10d(id="run_$(date +%Y%m%d_%H%M%S)"),
    "R09 random-id-in-task": BATCH + HEAD + srun(c10d("$MASTER_ADDR:29400", "$RANDOM")),
    "R09 uuid": c10d(id="$(uuidgen)"),
    "R10 elastic-by-accident": "#@ every node\n" + c10d(nnodes="1:2"),
    "R10 elastic-no-restarts": c10d(nnodes="2:4").replace("--rdzv_id", "--max_restarts=0 --rdzv_id"),
    "R11 nnodes-differ": nodes(static(0, nnodes=2), static(1, nnodes=3)),
    "R11 too-many-nnodes": BATCH + HEAD + srun(static("$SLURM_NODEID", "$MASTER_ADDR", nnodes=4)),
    "R11 too-few-nnodes nodes=3": nodes(static(0), static(1), static(2, nnodes=2).replace("=2 ", "=2 ", 1)),
    "R11 nnodes-is-processes nodes=2,gpus_per_node=4": "#@ every node\n" + c10d(nnodes=8),
    "R12 unequal-processes": nodes(static(0), static(1).replace("node=4", "node=8")),
    "R13 two-agents": nodes(c10d().strip() + " &\n" + c10d() + "wait\n", c10d()),
    "A01 localhost": nodes(static(0, "localhost"), static(1, "localhost")),
    "A01 localhost-endpoint": "#@ every node\n" + c10d("localhost:29400"),
    "A01 loopback-on-the-second": nodes(static(0), static(1, "127.0.0.1")),
    "A01 ubuntus-own": "#@ node 1\n" + static(1, "127.0.1.1"),
    "A01 ipv6-loopback": "#@ every node\n" + c10d("[::1]:29400"),
    "A01 localhost-by-variable": "#@ every node\nMASTER_ADDR=localhost\n" + static("$NODE_RANK", "$MASTER_ADDR"),
    "A01 localhost-slurm": BATCH + "export MASTER_ADDR=localhost\n" + srun(static("$SLURM_NODEID", "$MASTER_ADDR")),
    "A01 localhost-accelerate": (
        "#@ every node\naccelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank $RANK"
        " --main_process_ip localhost --main_process_port 61000 train.py\n"
    ),
    "A02 each-his-own": nodes(static(0, "10.2.3.4"), static(1, "10.2.3.5")),
    "A02 each-his-own-c10d": nodes(c10d("n1:29400"), c10d("n2:29400")),
    "A02 each-his-own-lightning": nodes(
        *[f"MASTER_ADDR=10.2.3.{4 + i} MASTER_PORT=6100 NODE_RANK={i} python train.py\n" for i in (0, 1)]
    ),
    "A03 empty": "#@ node 1\n" + static(1, '""'),
    "A03 misspelt": "#@ node 1\nMASTER_ADDR=10.2.3.4\n" + static(1, "$MASTER_ADR"),
    "A03 not-exported": BATCH + HEAD.replace("export ", "") + srun(static("$SLURM_NODEID", "$MASTER_ADDR")),
    "A04 router": "#@ node 1\n" + static(1, "192.168.1.1"),
    "A04 docker-bridge": "#@ every node\n" + static("$NODE_RANK", "172.17.0.1"),
    "A05 wildcard": "#@ every node\n" + static("$NODE_RANK", "0.0.0.0"),
    "A05 wildcard-c10d": "#@ every node\n" + c10d("0.0.0.0:29400"),
    "A06 url": "#@ node 1\n" + static(1, "tcp://10.2.3.4"),
    "A06 user": "#@ node 1\n" + static(1, "me@10.2.3.4"),
    "A06 address-with-port": "#@ node 1\n" + static(1, "10.2.3.4:61000"),
    "A06 job-id": c10d("3472853:29400"),
    "A06 five-numbers": "#@ node 1\n" + static(1, "10.2.3.4.5"),
    "A06 subnet": "#@ node 1\n" + static(1, "10.2.3.4/24"),
    "A07 c10d-address torch=1.10": "#@ every node\n" + c10d("192.168.56.101:29400"),
    "A08 c10d-name": "#@ every node\n" + c10d(),
    "A09 falls-back": "#@ every node\n" + static("$NODE_RANK", "${HEAD_IP:-localhost}"),
    "A09 falls-back-by-echo": "#@ every node\nIP=$(cat head || echo 127.0.0.1)\n" + static("$NODE_RANK", "$IP"),
    "A09 falls-back-assigned": "#@ every node\nMASTER_IP=${MASTER_IP:-127.0.0.1}\n"
    + static("$NODE_RANK", "$MASTER_IP"),
    "A10 own-name": "#@ every node\n" + static("$NODE_RANK", "$(hostname)"),
    "A10 own-name-in-task": BATCH + srun(static("$SLURM_NODEID", "$(hostname -s)")),
    "A10 own-name-variable": "#@ every node\n" + c10d("$HOSTNAME:29400"),
    "A10 own-address-assigned": "#@ every node\nexport MASTER_ADDR=$(hostname -I | awk '{print $1}')\n"
    + static("$NODE_RANK", "$MASTER_ADDR"),
    "A11 login-node": BATCH + srun(static("$SLURM_NODEID", "$SLURM_LAUNCH_NODE_IPADDR")),
    "A12 ipv6-bare": c10d("fd00:1::2:29400"),
    "A13 first-address": BATCH + 'IP=$(hostname -I | cut -d" " -f1)\nsrun ' + c10d("$IP:29400", "$SLURM_JOB_ID"),
    "A14 underscore": c10d("gpu_node1:29400"),
    "A14 case": nodes(c10d("Head:29400"), c10d("head:29400")),
    "P01 port-too-large": "torchrun --nproc_per_node=4 --master_port=295000 train.py\n",
    "P01 port-with-comma": "#@ node 1\n" + static(1, port="29500,"),
    "P01 port-of-an-endpoint": c10d("head:2940O"),
    "P01 port-deepspeed": "deepspeed --num_gpus 4 --master_port 99999 train.py\n",
    "P01 port-lightning": "#@ node 1\nMASTER_ADDR=10.2.3.4 MASTER_PORT=70000 NODE_RANK=1 python train.py\n",
    "P02 roots-port": "torchrun --nproc_per_node=4 --master_port=443 train.py\n",
    "P02 roots-port-accelerate": "accelerate launch --main_process_port 22 train.py\n",
    "P03 ephemeral": nodes(static(0, port=45321), static(1, port=45321)),
    "P03 ephemeral-formula": (
        BATCH
        + HEAD
        + "export MASTER_PORT=$((32768 + SLURM_JOB_ID % 10000))\n"
        + srun(static("$SLURM_NODEID", "$MASTER_ADDR", "$MASTER_PORT"))
    ),
    "P04 same-port-jobs": (
        "#@ job 1, same host\ntorchrun --nproc_per_node=4 --master_port=29511 a.py\n"
        "#@ job 2, same host\ntorchrun --nproc_per_node=4 --master_port=29511 b.py\n"
    ),
    "P04 same-port-background": (
        "CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=1 --master_port=29511 a.py &\n"
        "CUDA_VISIBLE_DEVICES=1 torchrun --nproc_per_node=1 --master_port=29511 b.py\n"
    ),
    "P04 default-port-twice torch=1.13": (
        "#@ job 1, same host\npython -m torch.distributed.launch --nproc_per_node=4 a.py\n"
        "#@ job 2, same host\npython -m torch.distributed.launch --nproc_per_node=4 b.py\n"
    ),
    "P04 default-port-accelerate": (
        "accelerate launch --multi_gpu --num_processes 2 a.py &\naccelerate launch --multi_gpu --num_processes 2"
        " b.py &\nwait\n"
    ),
    "P05 ports-differ": nodes(static(0, port=61000), static(1, port=61001)),
    "P05 ports-differ-c10d": nodes(c10d("head:29400"), c10d("head:29401")),
    "P05 random-port-on-each": "#@ every node\nPORT=$((20000 + RANDOM % 10000))\n" + static("$NODE_RANK", port="$PORT"),
    "P05 random-port-in-task": BATCH
    + HEAD
    + srun(static("$SLURM_NODEID", "$MASTER_ADDR", "$((10000 + RANDOM % 20000))")),
    "P06 endpoint-no-port": (
        "#@ node 1\ntorchrun --nnodes=2 --node_rank=1 --nproc_per_node=4 --rdzv_endpoint=10.2.3.4 train.py\n"
    ),
    "P07 random-port": "torchrun --nproc_per_node=4 --master_port=$RANDOM train.py\n",
    "P07 random-port-modulo": "torchrun --nproc_per_node=4 --master_port=$((RANDOM % 65535)) train.py\n",
    "P08 one-port-open": "#@ node 0\nsudo ufw allow 61000\n" + static(0),
    "P04 loop-same-port": (
        "for f in 0 1 2; do\n  CUDA_VISIBLE_DEVICES=$f torchrun --nproc_per_node=1 --master_port=29501 t.py"
        " $f &\ndone\nwait\n"
    ),
    "A06 node-list-as-address": BATCH + srun(static("$SLURM_NODEID", "$SLURM_NODELIST")),
    "R01 ssh-loop-constant": (
        'for h in n1 n2; do\n  ssh $h "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=n1"\\\n'
        '" --master_port=6100 train.py" &\ndone\nwait\n'
    ),
    "A01 deepspeed-localhost": (
        "#@ file hostfile\nn1 slots=8\nn2 slots=8\n#@ node 0\n"
        "deepspeed --hostfile hostfile --master_addr localhost --master_port 6100 train.py\n"
    ),
    "A01 url-of-its-own": (
        "#@ node 1\npython main.py --dist-url tcp://127.0.0.1:29500 --world-size 2 --rank 1"
        " --multiprocessing-distributed\n"
    ),
    "A10 task-takes-its-own-name": BATCH + srun(static("$SLURM_NODEID", "$SLURMD_NODENAME")),
    "P09 port-zero": nodes(static(0, port=0), static(1, port=0)),
}
