"""Ranks handed out by hand, Horovod, packages whose work torch took over, TPUs: the starts that were silent."""

from tests.tutorials.row import Row, Title

PARALLEL: Title = "DataParallel, a model split by hand, and Apex"
DISTRIBUTED: Title = "DistributedDataParallel, mp.spawn and samplers"
DEVICES: Title = "CUDA_VISIBLE_DEVICES, numbers of GPUs, and TPUs"
LIGHTNING: Title = "Lightning over several GPUs and machines"
TCP = 'dist.init_process_group("nccl", init_method="tcp://10.20.0.11:23456", rank={}, world_size=3)\n'
IMPORTS = "import sys\nimport torch.distributed as dist\n\n"
THREE = "#@ node 0\npython train.py 0\n#@ node 1\npython train.py 1\n#@ node 2\npython train.py {}\n"
HOROVOD = """import horovod.torch as hvd
import torch

hvd.init()
torch.cuda.set_device(hvd.local_rank())
net = make().cuda()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1))
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
"""
AMP = """import torch
from apex import amp

net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
with amp.scale_loss(loss, optimizer) as scaled:
    scaled.backward()
"""

ROWS = (
    Row(
        id="data-parallel-on-cuda-3",
        title=PARALLEL,
        about="DataParallel(device_ids=[0, 3]) of a model on cuda:3",
        line='import torch\n\nnet = make().to("cuda:3")\nnet = torch.nn.DataParallel(net, device_ids=[0, 3])\n',
        name="train.py",
        command="gpudoctor lint train.py",
        told=("the model is on cuda:3 and DataParallel wants it on cuda:0", 'model.to("cuda:0")', "name 3 first"),
        today="DataParallel copies the model from the first GPU of its list, and does not bring it there.",
        write='net = torch.nn.DataParallel(make().to("cuda:0"), device_ids=[0, 3])',
    ),
    Row(
        id="data-parallel-plain-cuda",
        title=PARALLEL,
        about="DataParallel(device_ids=[2, 3]).cuda()",
        line="import torch\n\nnet = torch.nn.DataParallel(make(), device_ids=[2, 3]).cuda()\nnet(x)\n",
        name="train.py",
        command="gpudoctor lint train.py",
        told=("the model is on cuda:0 and DataParallel wants it on cuda:2",),
        today=".cuda() without a number is GPU 0, and the list begins with 2.",
        write="net = torch.nn.DataParallel(make(), device_ids=[2, 3]).cuda(2)",
    ),
    Row(
        id="device-ids-of-text",
        title=PARALLEL,
        about='device_ids="0,1".split(",")',
        line='import torch\n\nnet = torch.nn.DataParallel(make().cuda(), device_ids="0,1".split(","))\n',
        name="train.py",
        command="gpudoctor lint train.py",
        told=("device_ids are texts", "Invalid device string: '0'", "[int(each) for each in"),
        today="torch.device knows no GPU that is called '0'.",
        write='ids = [int(each) for each in "0,1".split(",")]',
    ),
    Row(
        id="apex-script",
        title=PARALLEL,
        about="amp.initialize and amp.scale_loss of Apex",
        line=AMP,
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("apex.amp is of apex, and torch does this itself", 'torch.autocast("cuda"', "torch.amp.GradScaler"),
        untold=("Not understood",),
        today="torch has mixed precision itself since 1.6; Apex's amp is no longer maintained.",
        write='scaler = torch.amp.GradScaler("cuda")\nwith torch.autocast("cuda", dtype=torch.float16):\n'
        "    loss = net(x)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    ),
    Row(
        id="cuda-amp-script",
        title=PARALLEL,
        about="torch.cuda.amp.autocast()",
        line="import torch\n\nwith torch.cuda.amp.autocast():\n    loss = net(x)\nloss.backward()\n",
        name="train.py",
        command="gpudoctor lint train.py --facts torch=2.6",
        status=0,
        told=("deprecated since torch 2.4", 'torch.autocast("cuda", dtype=torch.float16)'),
        today="It works, with a FutureWarning since 2.4.",
        write='with torch.autocast("cuda", dtype=torch.float16):\n    loss = net(x)',
    ),
    Row(
        id="no-module-apex",
        title=PARALLEL,
        about="No module named 'apex'",
        line="ModuleNotFoundError: No module named 'apex'\n",
        command="gpudoctor explain -",
        told=("another project", "NVIDIA's", "torch.autocast", "convert_sync_batchnorm"),
        untold=("pip install apex",),
        today="The apex of the package index is a part of a web framework.",
        write='with torch.autocast("cuda", dtype=torch.float16):\n    loss = net(x)',
    ),
    Row(
        id="no-module-fairscale",
        title=PARALLEL,
        about="No module named 'fairscale'",
        line="ModuleNotFoundError: No module named 'fairscale'\n",
        command="gpudoctor explain -",
        told=("torch.distributed.fsdp", "ZeroRedundancyOptimizer"),
        today="fairscale's sharding went on as torch's FSDP; its last release is of 2022.",
        write="from torch.distributed.fsdp import fully_shard\n\nfully_shard(model)",
    ),
    Row(
        id="rank-of-argv-twice",
        title=DISTRIBUTED,
        about="Three machines by hand, with ranks 0, 1 and 1",
        line="#@ file train.py\n" + IMPORTS + TCP.format("int(sys.argv[1])") + THREE.format(1),
        name="start.sh",
        command="gpudoctor lint start.sh",
        told=("rank 1 is started twice (node 1 and node 2), and rank 2 never", "Give one of them rank 2."),
        today="Nobody looks whether two say the same rank; all wait for the one that nobody is.",
        write="python train.py 2   # on the third machine",
    ),
    Row(
        id="rank-of-argv-once",
        title=DISTRIBUTED,
        about="Three machines by hand, with ranks 0, 1 and 2",
        line="#@ file train.py\n" + IMPORTS + TCP.format("int(sys.argv[1])") + THREE.format(2),
        name="start.sh",
        command="gpudoctor lint start.sh",
        status=0,
        told=("No error found",),
        today="It still works so; torchrun hands the ranks out by itself.",
    ),
    Row(
        id="rank-fixed",
        title=DISTRIBUTED,
        about="rank=0, world_size=3 in the script that every machine runs",
        line="#@ file train.py\n" + IMPORTS + TCP.format(0) + "#@ every node\npython train.py\n",
        name="start.sh",
        command="gpudoctor lint start.sh --facts nodes=3",
        told=("rank=0 is fixed in the program, so each of 3 machines is rank 0 of 3",),
        today="All of them are rank 0, and wait for the others.",
        write="rank = int(sys.argv[1])  # python train.py 0, 1 and 2",
    ),
    Row(
        id="horovod-under-torchrun",
        title=DISTRIBUTED,
        about="A Horovod script under torchrun",
        line=HOROVOD,
        name="train.py",
        files={"start.sh": "torchrun --standalone --nproc-per-node=4 train.py\n"},
        command="gpudoctor lint start.sh train.py",
        told=("torchrun starts train.py, which uses Horovod", "horovodrun -np"),
        today="Horovod reads neither RANK nor WORLD_SIZE: four trainings of one rank each.",
        write="horovodrun -np 4 -H localhost:4 python train.py",
    ),
    Row(
        id="horovod-alone",
        title=DISTRIBUTED,
        about="A Horovod script",
        line=HOROVOD,
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("horovodrun", "Understood: horovodrun, horovod"),
        untold=("no start of a training was found",),
        today="horovodrun or mpirun starts its ranks; Horovod's last release is of 2023.",
        write="horovodrun -np 4 -H localhost:4 python train.py",
    ),
    Row(
        id="xmp-spawn-eight",
        title=DEVICES,
        about="xmp.spawn(..., nprocs=8)",
        line="import torch_xla.distributed.xla_multiprocessing as xmp\n\nif __name__ == '__main__':\n"
        "    xmp.spawn(work, args=(), nprocs=8)\n",
        name="train.py",
        command="gpudoctor lint train.py",
        told=("since torch_xla 2.6 it takes 1, or nothing", "Unsupported nprocs (8)"),
        today="PJRT takes all devices, or one: torch_xla 2.6 refuses other numbers.",
        write="xmp.spawn(work, args=())",
    ),
    Row(
        id="lightning-lite",
        title=LIGHTNING,
        about="LightningLite",
        line="from pytorch_lightning.lite import LightningLite\n\n\nclass Lite(LightningLite):\n    pass\n",
        name="fit.py",
        command="gpudoctor lint fit.py --facts lightning=2.1",
        told=("removed in lightning 2.0", "lightning.fabric.Fabric"),
        today="It became Fabric in 2.0.",
        write='fabric = lightning.fabric.Fabric(accelerator="gpu", devices=2)\nfabric.launch()',
    ),
    Row(
        id="ddp-plugin",
        title=LIGHTNING,
        about="plugins=DDPPlugin(find_unused_parameters=False)",
        line="from pytorch_lightning import Trainer\nfrom pytorch_lightning.plugins import DDPPlugin\n\n"
        'trainer = Trainer(accelerator="gpu", devices=2, plugins=DDPPlugin(find_unused_parameters=False))\n',
        name="fit.py",
        command="gpudoctor lint fit.py --facts lightning=2.1",
        told=("DDPPlugin was removed in lightning 1.8", "DDPStrategy"),
        today="Plugins of that kind have been strategies since 1.6.",
        write='trainer = Trainer(accelerator="gpu", devices=2, strategy=DDPStrategy(find_unused_parameters=False))',
    ),
)
