"""Programs that start their ranks by mp.spawn, and what `lint` reads in them."""

from tests.tutorials.row import Row, Title

TITLE: Title = "DistributedDataParallel, mp.spawn and samplers"
HEAD = "import os\nimport torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n\n\n"
WORK = """def work(gpu, lr):
    dist.init_process_group("nccl", rank=gpu, world_size={world})
    train(gpu, lr)


"""
MAIN = """if __name__ == "__main__":
{address}    mp.spawn(work, nprocs=8, args=(0.1,))
"""
ADDRESS = '    os.environ["MASTER_ADDR"] = "10.0.0.5"\n    os.environ["MASTER_PORT"] = "29400"\n'
SPAWNS = HEAD + WORK.format(world=16) + MAIN.format(address=ADDRESS)
NUMBERED = "rank=int(os.environ['NODE_RANK']) * 8 + gpu"
RIGHT = SPAWNS.replace("rank=gpu", NUMBERED)
ONE_NODE = HEAD + WORK.format(world=8) + MAIN.format(address="")
SLURM = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node={}
#SBATCH --gpus-per-node=8
srun python train.py
"""
SAMPLER = """import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def run(rank):
    order = DistributedSampler(samples, num_replicas=4, rank=rank{})
    loader = DataLoader(samples, 16, sampler=order)
    for epoch in range(5):
        for x, y in loader:
            fit(x, y)
"""
NO_ADDRESS_LOG = """Traceback (most recent call last):
  File "train.py", line 14, in <module>
    mp.spawn(work, nprocs=8, args=(0.1,))
  File "/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 340, in spawn
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 3 terminated with the following error:
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/home/mia/train.py", line 8, in work
    dist.init_process_group("nccl", rank=gpu, world_size=8)
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py", line 274, in _env_rendezvous_handler
    master_addr = _get_env_or_raise("MASTER_ADDR")
ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected,\
 but not set
"""

ROWS = (
    Row(
        id="spawn-on-two-nodes",
        title=TITLE,
        about="rank=gpu, started on each of two nodes",
        line=SPAWNS,
        name="train.py",
        command="gpudoctor lint train.py --facts nodes=2",
        told=("ranks 0-7 come twice, and 8-15 never", 'int(os.environ["NODE_RANK"]) * 8 + gpu', "16 processes"),
        untold=("torchrun",),
        today="mp.spawn counts from 0 on every node: ranks 0 to 7 are there twice, and 8 to 15 nowhere.",
        write='rank = int(os.environ["NODE_RANK"]) * 8 + gpu  # NODE_RANK=0 and 1, world_size=16',
    ),
    Row(
        id="spawn-under-srun",
        title=TITLE,
        about="The same under srun",
        line=SPAWNS,
        name="train.py",
        files={"job.sh": SLURM.format(1)},
        command="gpudoctor lint job.sh train.py",
        told=("ranks 0-7 come twice, and 8-15 never", "SLURM_NODEID", "2 nodes x 8 processes = world size 16"),
        today="srun starts one task a node, and each spawns ranks from 0.",
        write='rank = int(os.environ["SLURM_NODEID"]) * 8 + gpu',
    ),
    Row(
        id="spawn-under-srun-tasks",
        title=TITLE,
        about="mp.spawn in every task of srun",
        line=SPAWNS,
        name="train.py",
        files={"job.sh": SLURM.format(8)},
        command="gpudoctor lint job.sh train.py",
        told=("8 x 8 = 64", "--ntasks-per-node=1"),
        today="Each of 8 tasks spawns 8 ranks.",
        write="srun --ntasks-per-node=1 python train.py",
    ),
    Row(
        id="spawn-under-torchrun",
        title=TITLE,
        about="The same under torchrun",
        line=SPAWNS,
        name="train.py",
        files={"start.sh": "torchrun --standalone --nproc-per-node=8 train.py\n"},
        command="gpudoctor lint start.sh train.py",
        told=("8 x 8 = 64", "plain python, once on a node"),
        today="torchrun starts 8 processes, and each spawns 8 ranks.",
        write="python train.py",
    ),
    Row(
        id="spawn-numbered-through",
        title=TITLE,
        about="Ranks that are numbered through all nodes",
        line=RIGHT,
        name="train.py",
        command="gpudoctor lint train.py --facts nodes=2",
        status=0,
        told=("No error found", "2 nodes x 8 processes = world size 16"),
        untold=("twice",),
        today="node_rank * nprocs + the process's own number is the rank.",
    ),
    Row(
        id="spawn-without-address",
        title=TITLE,
        about="mp.spawn without MASTER_ADDR and MASTER_PORT",
        line=ONE_NODE,
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=(
            "nothing sets MASTER_ADDR and MASTER_PORT",
            'os.environ["MASTER_ADDR"] = "127.0.0.1"',
            'os.environ["MASTER_PORT"] = "29500"',
        ),
        untold=("torchrun",),
        today="init_process_group reads both; a launcher sets them, and mp.spawn is none.",
        write='os.environ["MASTER_ADDR"] = "127.0.0.1"\nos.environ["MASTER_PORT"] = "29500"',
    ),
    Row(
        id="spawn-without-address-started",
        title=TITLE,
        about="The same, with the line that starts it",
        line=ONE_NODE,
        name="train.py",
        files={"start.sh": "OMP_NUM_THREADS=4 python train.py\n"},
        command="gpudoctor lint start.sh train.py",
        told=("nothing sets MASTER_ADDR and MASTER_PORT",),
        today="Neither the program nor its start sets them: every rank ends.",
        write="MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python train.py",
    ),
    Row(
        id="spawn-address-in-the-shell",
        title=TITLE,
        about="MASTER_ADDR and MASTER_PORT in the shell",
        line=ONE_NODE,
        name="train.py",
        files={"start.sh": "export MASTER_ADDR=127.0.0.1 MASTER_PORT=29400\npython train.py\n"},
        command="gpudoctor lint start.sh train.py",
        status=0,
        told=("no error found",),
        untold=("nothing sets",),
        today="The ranks inherit them.",
    ),
    Row(
        id="log-spawn-without-address",
        title=TITLE,
        about="MASTER_ADDR expected, but not set: the log of mp.spawn",
        line=NO_ADDRESS_LOG,
        name="train.log",
        command="gpudoctor explain train.log",
        told=("MASTER_ADDR is not set", 'os.environ["MASTER_ADDR"] = "127.0.0.1"', "it needs no launcher around it"),
        untold=("torchrun", "gpudoctor launch --help"),
        today="torch asks for RANK and WORLD_SIZE first: the program has told them, and lacks the address alone.",
        write='os.environ["MASTER_ADDR"] = "127.0.0.1"\nos.environ["MASTER_PORT"] = "29500"',
    ),
    Row(
        id="sampler-without-epoch",
        title=TITLE,
        about="DistributedSampler without set_epoch",
        line=SAMPLER.format(""),
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("order shuffles for each rank, and nothing tells it the epoch", "order.set_epoch(epoch)"),
        today="Every epoch has the same batches in the same order.",
        write="for epoch in range(5):\n    order.set_epoch(epoch)",
    ),
    Row(
        id="sampler-without-shuffle",
        title=TITLE,
        about="DistributedSampler that does not shuffle",
        line=SAMPLER.format(", shuffle=False"),
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("No error found",),
        untold=("set_epoch",),
        today="There is no order to draw, and no epoch to tell.",
    ),
    Row(
        id="one-seed",
        title=TITLE,
        about="torch.manual_seed(0) on every rank",
        line="""import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def run(rank):
    torch.manual_seed(0)
    net = DDP(make().to(rank))
    x = torch.randn(8, 32)
    net(x).sum().backward()
""",
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("every rank has the seed 0, and draws in line 8", "torch.manual_seed(SEED + rank)"),
        today="The same weights everywhere, which is right, and then the same random data everywhere.",
        write="net = DDP(make().to(rank))\ntorch.manual_seed(rank)",
    ),
    Row(
        id="global-in-a-function",
        title=TITLE,
        about="model = model.cuda() of a global",
        line="import torch\n\nmodel = make()\n\n\ndef train(gpu):\n    model = model.cuda(gpu)\n    model(x)\n",
        name="train.py",
        command="gpudoctor lint train.py",
        told=("UnboundLocalError", "'model'", "gpu_model = model.cuda(gpu)"),
        today="The assignment makes model the function's own name, which has no value yet.",
        write="gpu_model = model.cuda(gpu)",
    ),
    Row(
        id="log-global-in-a-function",
        title=TITLE,
        about="The same, in a log",
        line="""Traceback (most recent call last):
  File "/home/mia/train.py", line 31, in <module>
    train(0)
  File "/home/mia/train.py", line 14, in train
    net = net.cuda(gpu)
UnboundLocalError: local variable 'net' referenced before assignment
""",
        name="train.log",
        command="gpudoctor explain train.log",
        told=("net is assigned in that function", "`global net`"),
        untold=("Correct what raised it", "rank"),
        today="Python said so in other words before 3.11.",
        write="gpu_net = net.cuda(gpu)",
    ),
    Row(
        id="autocast-dtype-before-its-time",
        title=TITLE,
        about="torch.cuda.amp.autocast(dtype=...) with an older torch",
        line="import torch\n\nwith torch.cuda.amp.autocast(dtype=torch.bfloat16):\n    loss = net(x)\n",
        name="train.py",
        command="gpudoctor lint train.py --facts torch=1.9",
        told=("autocast has no argument dtype in torch 1.9; it came with torch 1.10",),
        today="Since 1.10 autocast computes in bfloat16 too.",
        write='with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = net(x)',
    ),
    Row(
        id="loader-misspelt",
        title=TITLE,
        about="DataLoader(..., num_worker=4)",
        line="from torch.utils.data import DataLoader\n\nloader = DataLoader(samples, 32, num_worker=4)\n",
        name="train.py",
        command="gpudoctor lint train.py",
        told=("DataLoader has no argument num_worker", "Write num_workers=4."),
        today="It is no argument of any release.",
        write="loader = DataLoader(samples, 32, num_workers=4)",
    ),
    Row(
        id="worldworld-size",
        title=TITLE,
        about="init_process_group(..., worldworld_size=8)",
        line='import torch.distributed as dist\n\ndist.init_process_group("nccl", rank=rank, worldworld_size=8)\n',
        name="train.py",
        command="gpudoctor lint train.py",
        told=("init_process_group has no argument worldworld_size", "Write world_size=8."),
        today="It is no argument of any release: a TypeError.",
        write='dist.init_process_group("nccl", rank=rank, world_size=8)',
    ),
    Row(
        id="device-id-before-its-time",
        title=TITLE,
        about="init_process_group(device_id=...) with an older torch",
        line='import torch.distributed as dist\n\ndist.init_process_group("nccl", device_id=device)\n',
        name="train.py",
        command="gpudoctor lint train.py --facts torch=2.1",
        told=("init_process_group has no argument device_id in torch 2.1; it came with torch 2.3",),
        today="It is there since torch 2.3.",
        write='dist.init_process_group("nccl")',
    ),
    Row(
        id="plain-ddp",
        title=TITLE,
        about="A script of torch alone, with a class that is called Trainer",
        line="""from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, gpus):
        self.model = DDP(model)


Trainer(model, gpus=4)
""",
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("Understood: python, torch (DistributedDataParallel)",),
        untold=("lightning", "devices="),
        today="It is torch's DistributedDataParallel, and nothing of Lightning's.",
    ),
    Row(
        id="no-training",
        title=TITLE,
        about="A script that trains nothing",
        line="import json\n\nprint(json.dumps({}))\n",
        name="tool.py",
        command="gpudoctor lint tool.py",
        status=3,
        told=("Not understood",),
        untold=("lightning", "No error found"),
        today="Nothing in it starts a training, and that is said.",
    ),
)
