"""Starts that hang, fail or train in wrong worlds, in the forms in which people write them: what is found in each.

(rule's code, facts, text) by name.
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


BAD: dict[str, tuple[str, str, str]] = {
    "pasted-unchanged": ("R01", "", nodes(static(0), static(0))),
    "pasted-on-three": ("R01", "nodes=3", nodes(static(0, nnodes=3), static(1, nnodes=3), static(1, nnodes=3))),
    "rank-in-a-variable": (
        "R01",
        "",
        "#@ every node\nNODE_RANK=0\nNNODES=2\n" + static("$NODE_RANK", nnodes="$NNODES"),
    ),
    "ssh-to-both-as-zero": (
        "R01",
        "",
        "ssh n1 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=n1 --master_port=6100 t.py' &\n"
        "ssh n2 'torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=n1 --master_port=6100 t.py'"
        " &\nwait\n",
    ),
    "machine-rank-twice": (
        "R01",
        "",
        nodes(
            *[
                "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank 0"
                " --main_process_ip 10.2.3.4 --main_process_port 61000 train.py\n"
            ]
            * 2
        ),
    ),
    "constant-under-srun": ("R01", "", BATCH + HEAD + srun(static(0, "$MASTER_ADDR"))),
    "lightning-node-rank-twice": (
        "R01",
        "",
        nodes(*["MASTER_ADDR=10.2.3.4 MASTER_PORT=61000 NODE_RANK=0 python train.py\n"] * 2),
    ),
    "ranks-from-one": ("R02", "", nodes(static(1), static(2))),
    "rank-equals-nnodes": ("R02", "", "#@ node 1\n" + static(2)),
    "ranks-from-one-exported": (
        "R02",
        "",
        nodes("export NODE_RANK=1\n" + static("$NODE_RANK"), "export NODE_RANK=2\n" + static("$NODE_RANK")),
    ),
    "no-nnodes": ("R03", "", nodes(static(0).replace("--nnodes=2 ", ""), static(1).replace("--nnodes=2 ", ""))),
    "no-nnodes-old-launch": (
        "R03",
        "torch=1.13",
        "python -m torch.distributed.launch --nproc_per_node=4 --node_rank=1 --master_addr=10.2.3.4 train.py\n",
    ),
    "no-nnodes-every-node": ("R03", "nodes=2", "#@ every node\ntorchrun --nproc_per_node=8 train.py\n"),
    "no-nnodes-srun": ("R03", "", BATCH + "srun torchrun --nproc_per_node=4 train.py\n"),
    "no-nnodes-head": (
        "R03",
        "",
        "#@ node 0\npython -m torch.distributed.run --nproc_per_node=4 --node_rank=0 --master_addr=10.2.3.4 train.py\n",
    ),
    "standalone-two-nodes": ("R04", "", "torchrun --standalone --nnodes=2 --nproc_per_node=4 train.py\n"),
    "standalone-everywhere": ("R04", "nodes=2", "#@ every node\ntorchrun --standalone --nproc_per_node=4 train.py\n"),
    "standalone-srun": ("R04", "", BATCH + "srun torchrun --standalone --nproc_per_node=4 train.py\n"),
    "standalone-and-static": (
        "R04",
        "",
        nodes(*[static(i).replace("torchrun", "torchrun --standalone") for i in (0, 1)]),
    ),
    "no-address": ("R05", "", "#@ node 1\ntorchrun --nnodes=2 --nproc_per_node=4 --node_rank=1 train.py\n"),
    "address-in-the-environment": (
        "R05",
        "",
        "#@ node 1\nexport MASTER_ADDR=10.2.3.4 MASTER_PORT=61000\n"
        "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=1 train.py\n",
    ),
    "only-the-port": (
        "R05",
        "",
        nodes(*[f"torchrun --nnodes=2 --node_rank={i} --nproc_per_node=4 --master_port=61000 t.py\n" for i in (0, 1)]),
    ),
    "no-rank": (
        "R06",
        "",
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --master_addr=10.2.3.4 --master_port=6100 train.py\n",
    ),
    "no-rank-srun": (
        "R06",
        "",
        BATCH
        + HEAD
        + "srun torchrun --nnodes=2 --nproc_per_node=4 --master_addr=$MASTER_ADDR --master_port=6100 t.py\n",
    ),
    "no-rank-on-the-second": ("R06", "", nodes(static(0), static(1).replace("--node_rank=1 ", ""))),
    "fabric-no-rank": (
        "R06",
        "",
        "#@ node 1\nfabric run --main-address=10.2.3.4 --num-nodes=2 --devices=8 --accelerator=cuda train.py\n",
    ),
    "c10d-with-master": (
        "R07",
        "",
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --master_addr=10.2.3.4"
        " --master_port=61000 train.py\n",
    ),
    "c10d-with-nothing": (
        "R07",
        "",
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d t.py\n",
    ),
    "endpoint-no-backend": (
        "R08",
        "",
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_id=7 --rdzv_endpoint=head:29400 train.py\n",
    ),
    "endpoint-no-backend-slurm": (
        "R08",
        "",
        BATCH
        + HEAD
        + "srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id 7 --rdzv_endpoint $MASTER_ADDR:29500 t.py\n",
    ),
    "ids-differ": ("R09", "", nodes(c10d(id=1), c10d(id=2))),
    "random-id": ("R09", "", "#@ every node\n" + c10d(id="$RANDOM")),
    "random-id-through-a-variable": ("R09", "", "#@ every node\nJOB_ID=$RANDOM\n" + c10d(id="$JOB_ID")),
    "time-as-id": ("R09", "", "#@ every node\n" + c10d(id="run_$(date +%Y%m%d_%H%M%S)")),
    "random-id-in-task": ("R09", "", BATCH + HEAD + srun(c10d("$MASTER_ADDR:29400", "$RANDOM"))),
    "uuid": ("R09", "", c10d(id="$(uuidgen)")),
    "elastic-by-accident": ("R10", "", "#@ every node\n" + c10d(nnodes="1:2")),
    "elastic-no-restarts": ("R10", "", c10d(nnodes="2:4").replace("--rdzv_id", "--max_restarts=0 --rdzv_id")),
    "nnodes-differ": ("R11", "", nodes(static(0, nnodes=2), static(1, nnodes=3))),
    "too-many-nnodes": ("R11", "", BATCH + HEAD + srun(static("$SLURM_NODEID", "$MASTER_ADDR", nnodes=4))),
    "too-few-nnodes": ("R11", "nodes=3", nodes(static(0), static(1), static(2, nnodes=2).replace("=2 ", "=2 ", 1))),
    "nnodes-is-processes": ("R11", "nodes=2,gpus_per_node=4", "#@ every node\n" + c10d(nnodes=8)),
    "unequal-processes": ("R12", "", nodes(static(0), static(1).replace("node=4", "node=8"))),
    "two-agents": ("R13", "", nodes(c10d().strip() + " &\n" + c10d() + "wait\n", c10d())),
    "localhost": ("A01", "", nodes(static(0, "localhost"), static(1, "localhost"))),
    "localhost-endpoint": ("A01", "", "#@ every node\n" + c10d("localhost:29400")),
    "loopback-on-the-second": ("A01", "", nodes(static(0), static(1, "127.0.0.1"))),
    "ubuntus-own": ("A01", "", "#@ node 1\n" + static(1, "127.0.1.1")),
    "ipv6-loopback": ("A01", "", "#@ every node\n" + c10d("[::1]:29400")),
    "localhost-by-variable": (
        "A01",
        "",
        "#@ every node\nMASTER_ADDR=localhost\n" + static("$NODE_RANK", "$MASTER_ADDR"),
    ),
    "localhost-slurm": (
        "A01",
        "",
        BATCH + "export MASTER_ADDR=localhost\n" + srun(static("$SLURM_NODEID", "$MASTER_ADDR")),
    ),
    "localhost-accelerate": (
        "A01",
        "",
        "#@ every node\naccelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank $RANK"
        " --main_process_ip localhost --main_process_port 61000 train.py\n",
    ),
    "each-his-own": ("A02", "", nodes(static(0, "10.2.3.4"), static(1, "10.2.3.5"))),
    "each-his-own-c10d": ("A02", "", nodes(c10d("n1:29400"), c10d("n2:29400"))),
    "each-his-own-lightning": (
        "A02",
        "",
        nodes(*[f"MASTER_ADDR=10.2.3.{4 + i} MASTER_PORT=6100 NODE_RANK={i} python train.py\n" for i in (0, 1)]),
    ),
    "empty": ("A03", "", "#@ node 1\n" + static(1, '""')),
    "misspelt": ("A03", "", "#@ node 1\nMASTER_ADDR=10.2.3.4\n" + static(1, "$MASTER_ADR")),
    "not-exported": ("A03", "", BATCH + HEAD.replace("export ", "") + srun(static("$SLURM_NODEID", "$MASTER_ADDR"))),
    "router": ("A04", "", "#@ node 1\n" + static(1, "192.168.1.1")),
    "docker-bridge": ("A04", "", "#@ every node\n" + static("$NODE_RANK", "172.17.0.1")),
    "wildcard": ("A05", "", "#@ every node\n" + static("$NODE_RANK", "0.0.0.0")),
    "wildcard-c10d": ("A05", "", "#@ every node\n" + c10d("0.0.0.0:29400")),
    "url": ("A06", "", "#@ node 1\n" + static(1, "tcp://10.2.3.4")),
    "user": ("A06", "", "#@ node 1\n" + static(1, "me@10.2.3.4")),
    "address-with-port": ("A06", "", "#@ node 1\n" + static(1, "10.2.3.4:61000")),
    "job-id": ("A06", "", c10d("3472853:29400")),
    "five-numbers": ("A06", "", "#@ node 1\n" + static(1, "10.2.3.4.5")),
    "subnet": ("A06", "", "#@ node 1\n" + static(1, "10.2.3.4/24")),
    "c10d-address": ("A07", "torch=1.10", "#@ every node\n" + c10d("192.168.56.101:29400")),
    "c10d-name": ("A08", "", "#@ every node\n" + c10d()),
    "falls-back": ("A09", "", "#@ every node\n" + static("$NODE_RANK", "${HEAD_IP:-localhost}")),
    "falls-back-by-echo": (
        "A09",
        "",
        "#@ every node\nIP=$(cat head || echo 127.0.0.1)\n" + static("$NODE_RANK", "$IP"),
    ),
    "falls-back-assigned": (
        "A09",
        "",
        "#@ every node\nMASTER_IP=${MASTER_IP:-127.0.0.1}\n" + static("$NODE_RANK", "$MASTER_IP"),
    ),
    "own-name": ("A10", "", "#@ every node\n" + static("$NODE_RANK", "$(hostname)")),
    "own-name-in-task": ("A10", "", BATCH + srun(static("$SLURM_NODEID", "$(hostname -s)"))),
    "own-name-variable": ("A10", "", "#@ every node\n" + c10d("$HOSTNAME:29400")),
    "own-address-assigned": (
        "A10",
        "",
        "#@ every node\nexport MASTER_ADDR=$(hostname -I | awk '{print $1}')\n" + static("$NODE_RANK", "$MASTER_ADDR"),
    ),
    "login-node": ("A11", "", BATCH + srun(static("$SLURM_NODEID", "$SLURM_LAUNCH_NODE_IPADDR"))),
    "ipv6-bare": ("A12", "", c10d("fd00:1::2:29400")),
    "first-address": (
        "A13",
        "",
        BATCH + 'IP=$(hostname -I | cut -d" " -f1)\nsrun ' + c10d("$IP:29400", "$SLURM_JOB_ID"),
    ),
    "underscore": ("A14", "", c10d("gpu_node1:29400")),
    "case": ("A14", "", nodes(c10d("Head:29400"), c10d("head:29400"))),
    "port-too-large": ("P01", "", "torchrun --nproc_per_node=4 --master_port=295000 train.py\n"),
    "port-with-comma": ("P01", "", "#@ node 1\n" + static(1, port="29500,")),
    "port-of-an-endpoint": ("P01", "", c10d("head:2940O")),
    "port-deepspeed": ("P01", "", "deepspeed --num_gpus 4 --master_port 99999 train.py\n"),
    "port-lightning": ("P01", "", "#@ node 1\nMASTER_ADDR=10.2.3.4 MASTER_PORT=70000 NODE_RANK=1 python train.py\n"),
    "roots-port": ("P02", "", "torchrun --nproc_per_node=4 --master_port=443 train.py\n"),
    "roots-port-accelerate": ("P02", "", "accelerate launch --main_process_port 22 train.py\n"),
    "ephemeral": ("P03", "", nodes(static(0, port=45321), static(1, port=45321))),
    "ephemeral-formula": (
        "P03",
        "",
        BATCH
        + HEAD
        + "export MASTER_PORT=$((32768 + SLURM_JOB_ID % 10000))\n"
        + srun(static("$SLURM_NODEID", "$MASTER_ADDR", "$MASTER_PORT")),
    ),
    "same-port-jobs": (
        "P04",
        "",
        "#@ job 1, same host\ntorchrun --nproc_per_node=4 --master_port=29511 a.py\n"
        "#@ job 2, same host\ntorchrun --nproc_per_node=4 --master_port=29511 b.py\n",
    ),
    "same-port-background": (
        "P04",
        "",
        "CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=1 --master_port=29511 a.py &\n"
        "CUDA_VISIBLE_DEVICES=1 torchrun --nproc_per_node=1 --master_port=29511 b.py\n",
    ),
    "default-port-twice": (
        "P04",
        "torch=1.13",
        "#@ job 1, same host\npython -m torch.distributed.launch --nproc_per_node=4 a.py\n"
        "#@ job 2, same host\npython -m torch.distributed.launch --nproc_per_node=4 b.py\n",
    ),
    "default-port-accelerate": (
        "P04",
        "",
        "accelerate launch --multi_gpu --num_processes 2 a.py &\naccelerate launch --multi_gpu --num_processes 2"
        " b.py &\nwait\n",
    ),
    "ports-differ": ("P05", "", nodes(static(0, port=61000), static(1, port=61001))),
    "ports-differ-c10d": ("P05", "", nodes(c10d("head:29400"), c10d("head:29401"))),
    "random-port-on-each": (
        "P05",
        "",
        "#@ every node\nPORT=$((20000 + RANDOM % 10000))\n" + static("$NODE_RANK", port="$PORT"),
    ),
    "random-port-in-task": (
        "P05",
        "",
        BATCH + HEAD + srun(static("$SLURM_NODEID", "$MASTER_ADDR", "$((10000 + RANDOM % 20000))")),
    ),
    "endpoint-no-port": (
        "P06",
        "",
        "#@ node 1\ntorchrun --nnodes=2 --node_rank=1 --nproc_per_node=4 --rdzv_endpoint=10.2.3.4 train.py\n",
    ),
    "random-port": ("P07", "", "torchrun --nproc_per_node=4 --master_port=$RANDOM train.py\n"),
    "random-port-modulo": ("P07", "", "torchrun --nproc_per_node=4 --master_port=$((RANDOM % 65535)) train.py\n"),
    "one-port-open": ("P08", "", "#@ node 0\nsudo ufw allow 61000\n" + static(0)),
    "loop-same-port": (
        "P04",
        "",
        "for f in 0 1 2; do\n  CUDA_VISIBLE_DEVICES=$f torchrun --nproc_per_node=1 --master_port=29501 t.py"
        " $f &\ndone\nwait\n",
    ),
    "node-list-as-address": ("A06", "", BATCH + srun(static("$SLURM_NODEID", "$SLURM_NODELIST"))),
    "ssh-loop-constant": (
        "R01",
        "",
        'for h in n1 n2; do\n  ssh $h "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=n1"\\\n'
        '" --master_port=6100 train.py" &\ndone\nwait\n',
    ),
    "deepspeed-localhost": (
        "A01",
        "",
        "#@ file hostfile\nn1 slots=8\nn2 slots=8\n#@ node 0\n"
        "deepspeed --hostfile hostfile --master_addr localhost --master_port 6100 train.py\n",
    ),
    "url-of-its-own": (
        "A01",
        "",
        "#@ node 1\npython main.py --dist-url tcp://127.0.0.1:29500 --world-size 2 --rank 1"
        " --multiprocessing-distributed\n",
    ),
    "task-takes-its-own-name": ("A10", "", BATCH + srun(static("$SLURM_NODEID", "$SLURMD_NODENAME"))),
    "port-zero": ("P09", "", nodes(static(0, port=0), static(1, port=0))),
}
