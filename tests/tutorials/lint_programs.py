"""GPUs that programs name and hide, models that they split, and arguments that they invent."""

from tests.tutorials.row import Row, Title

PARALLEL: Title = "DataParallel, a model split by hand, and Apex"
DEVICES: Title = "CUDA_VISIBLE_DEVICES, numbers of GPUs, and TPUs"
LIGHTNING: Title = "Lightning over several GPUs and machines"
START = {"start.sh": "CUDA_VISIBLE_DEVICES=0,3 python train.py\n"}
HALVES = """from torch import nn


class Halves({}):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(32, 16).to("cuda:0")
        self.up = nn.Linear(16, 4).to("cuda:1")

    def forward(self, x):
        x = self.down(x)
        return self.up({})
"""
SPLIT = (
    "import lightning as L\n" + HALVES.format("L.LightningModule", 'x.to("cuda:1")') + "\n\ntrainer = L.Trainer({})\n"
)


def counted_twice(id: str, about: str, line: str, write: str) -> Row:
    """A program that is shown GPUs 0 and 3, and names 3."""
    return Row(
        id=f"twice-{id}",
        title=DEVICES,
        about=f"CUDA_VISIBLE_DEVICES=0,3 and {about}",
        line=line,
        name="train.py",
        files=START,
        command="gpudoctor lint start.sh train.py --facts lightning=1.9",
        told=("CUDA_VISIBLE_DEVICES=0,3 shows it 2, numbered 0 and 1", f"Write {write}", "counted twice"),
        today="Within the program the two GPUs are 0 and 1.",
        write=line.replace("[0, 3]", write).replace("(3)", f"({write})").rpartition("\n\n")[2],
    )


def in_python(id: str, about: str, line: str, told: tuple[str, ...], today: str, write: str, *, status: int = 1) -> Row:
    """CUDA_VISIBLE_DEVICES that the program itself sets."""
    return Row(
        id=f"set-{id}", title=DEVICES, about=about, line=line, name="train.py", command="gpudoctor lint train.py",
        status=status, told=told, untold=("no longer counts",) if status == 0 else (), today=today, write=write,
    )  # fmt: skip


ROWS = (
    Row(
        id="data-parallel-devices",
        title=PARALLEL,
        about="DataParallel(model, devices=[0, 1])",
        line="model = torch.nn.DataParallel(model, devices=[0, 1])\n",
        command="gpudoctor lint -",
        told=("DataParallel has no argument devices", "Write device_ids=[0, 1]."),
        today="It is device_ids, and was in every release.",
        write="model = torch.nn.DataParallel(model, device_ids=[0, 1])",
    ),
    Row(
        id="data-parallel-script",
        title=PARALLEL,
        about="A script of DataParallel",
        line="import torch\n\nmodel = torch.nn.DataParallel(make(), device_ids=[0, 1]).cuda()\n",
        name="train.py",
        command="gpudoctor lint train.py",
        status=0,
        told=("No error found", "python, torch (DataParallel)"),
        untold=("lightning",),
        today="One process with a thread for each GPU.",
    ),
    Row(
        id="past-the-gpus",
        title=PARALLEL,
        about="device_ids beyond the GPUs of the machine",
        line="import torch\n\nmodel = torch.nn.DataParallel(model, device_ids=[0, 1, 2])\n",
        name="train.py",
        command="gpudoctor lint train.py --facts gpus_per_node=2",
        told=("names GPU 2, and a node has 2, 0 to 1", "Name GPUs from 0 to 1."),
        today="AssertionError: Invalid device id.",
        write="model = torch.nn.DataParallel(model, device_ids=[0, 1])",
    ),
    Row(
        id="halves",
        title=PARALLEL,
        about="The halves of a model on two GPUs",
        line=HALVES.format("nn.Module", 'x.to("cuda:1")'),
        name="model.py",
        command="gpudoctor lint model.py",
        status=0,
        told=("No error found", "torch (a model split over GPUs)"),
        today="What goes from one half to the other is moved between them.",
    ),
    Row(
        id="wrong-half",
        title=PARALLEL,
        about="The second half gets what the first gave",
        line=HALVES.format("nn.Module", "x"),
        name="model.py",
        command="gpudoctor lint model.py",
        told=(
            "self.up is on cuda:1, and what it is given comes from cuda:0",
            'self.up(x.to("cuda:1"))',
            "Expected all tensors to be on the same device",
        ),
        today="Nothing moves by itself from one GPU to the other.",
        write='return self.up(x.to("cuda:1"))',
    ),
    Row(
        id="wrong-half-by-name",
        title=PARALLEL,
        about="The same, where the devices have names",
        line="import torch\n"
        + HALVES.format("nn.Module", "x").replace('"cuda:0"', "left").replace('"cuda:1"', "right")
        + '\n\nleft = torch.device("cuda:0")\nright = torch.device("cuda:1")\n',
        name="model.py",
        command="gpudoctor lint model.py",
        told=("self.up is on cuda:1, and what it is given comes from cuda:0", 'self.up(x.to("cuda:1"))'),
        today="What a name stands for is read where the text says it.",
        write="return self.up(x.to(right))",
    ),
    Row(
        id="input-to-the-wrong-half",
        title=PARALLEL,
        about="The input is moved to the second half's GPU",
        line=HALVES.format("nn.Module", 'x.to("cuda:1")') + '\n\nmodel = Halves()\nmodel(x.to("cuda:1"))\n',
        name="model.py",
        command="gpudoctor lint model.py",
        told=("the first part of Halves is on cuda:0", 'model(x.to("cuda:0"))'),
        today="The first half takes the input as it comes.",
        write='model(x.to("cuda:0"))',
    ),
    counted_twice(
        "trainer-devices",
        "Trainer(devices=[0, 3])",
        'from lightning import Trainer\n\ntrainer = Trainer(accelerator="gpu", devices=[0, 3])\n',
        "[0, 1]",
    ),
    counted_twice(
        "trainer-gpus",
        "Trainer(gpus=[0, 3])",
        "from lightning import Trainer\n\ntrainer = Trainer(gpus=[0, 3])\n",
        "[0, 1]",
    ),
    counted_twice(
        "data-parallel",
        "DataParallel(device_ids=[0, 3])",
        "from torch.nn import DataParallel\n\nmodel = DataParallel(model, device_ids=[0, 3])\n",
        "[0, 1]",
    ),
    counted_twice("cuda", ".cuda(3)", "import torch\n\nmodel = make().cuda(3)\n", "1"),
    Row(
        id="counted-once",
        title=DEVICES,
        about="CUDA_VISIBLE_DEVICES=0,3 and devices=2",
        line='from lightning import Trainer\n\ntrainer = Trainer(accelerator="gpu", devices=2)\n',
        name="train.py",
        files=START,
        command="gpudoctor lint start.sh train.py --facts lightning=2.4",
        status=0,
        told=("no error found",),
        untold=("counted twice",),
        today="A number is how many, and both are taken.",
    ),
    in_python(
        "too-late",
        "CUDA_VISIBLE_DEVICES set after .cuda()",
        'import os\nimport torch\n\nnet = make().cuda()\nos.environ["CUDA_VISIBLE_DEVICES"] = "2"\n',
        ("set after make().cuda() in line 4, and no longer counts", "CUDA_VISIBLE_DEVICES=2 python"),
        "CUDA reads the variable once, at the first call into it.",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "2"\nnet = make().cuda()',
    ),
    in_python(
        "after-is-available",
        "CUDA_VISIBLE_DEVICES set after torch.cuda.is_available()",
        "import os\nimport torch\n\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"\n',
        ("set after torch.cuda.is_available() in line 4, and no longer counts",),
        "The question alone makes CUDA read the variable.",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"\ndevice = torch.device(...)',
    ),
    in_python(
        "in-time",
        "CUDA_VISIBLE_DEVICES set after import torch",
        'import os\nimport torch\n\ntorch.manual_seed(1)\nos.environ["CUDA_VISIBLE_DEVICES"] = "2"\n'
        "net = make().cuda()\n",
        ("No error found",),
        "import torch makes no call into CUDA: it still counts.",
        "",
        status=0,
    ),
    in_python(
        "no-list",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0-2"',
        'import os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "0-2"\n',
        ('of "0-2" CUDA reads 0', 'Write "0,1,2".'),
        "The value is read as in a shell: the program sees one GPU.",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2"',
    ),
    in_python(
        "no-text",
        'os.environ["CUDA_VISIBLE_DEVICES"] = 0',
        'import os\n\nos.environ["CUDA_VISIBLE_DEVICES"] = 0\n',
        ("which is no text", "TypeError: str expected, not int", 'Write "0".'),
        "Python takes no numbers there.",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0"',
    ),
    Row(
        id="amp-off",
        title=LIGHTNING,
        about="Trainer(amp_level='O2', use_amp=False)",
        line="trainer = Trainer(amp_level='O2', use_amp=False)\n",
        command="gpudoctor lint - --facts lightning=2.4",
        told=(
            'Write precision="32-true"',
            "False meant that mixed precision was off",
            "amp_level='O2': removed in lightning",
        ),
        untold=("16-mixed",),
        today="Both are gone. use_amp=False trained in full precision, and amp_level meant nothing beside it.",
        write='trainer = Trainer(precision="32-true")',
    ),
    Row(
        id="gpus-alone",
        title=LIGHTNING,
        about="gpus= of Trainer, in a program",
        line="from pytorch_lightning import Trainer\n\ntrainer = Trainer(gpus=4)\n",
        name="train.py",
        command="gpudoctor lint train.py --facts lightning=2.4",
        told=('Write accelerator="gpu", devices=4.', "removed in lightning 2.0"),
        today="Gone since 2.0.",
        write='trainer = Trainer(accelerator="gpu", devices=4)',
    ),
    Row(
        id="strategy-dpp",
        title=LIGHTNING,
        about="strategy='dpp'",
        line="from lightning import Trainer\n\ntrainer = Trainer(devices=2, accelerator='gpu', strategy='dpp')\n",
        name="train.py",
        command="gpudoctor lint train.py --facts lightning=2.4",
        told=("no release of Lightning knows it", 'Write strategy="ddp".'),
        today="It is no strategy of any release.",
        write='trainer = Trainer(devices=2, accelerator="gpu", strategy="ddp")',
    ),
    Row(
        id="trainer-misspelt",
        title=LIGHTNING,
        about="Trainer(acelerator=..., device=...)",
        line="from lightning import Trainer\n\ntrainer = Trainer(acelerator='gpu', device=2)\n",
        name="train.py",
        command="gpudoctor lint train.py",
        told=("Trainer has no argument acelerator", "Write accelerator='gpu'.", "Write devices=2."),
        untold=("No error found",),
        today="No release knew these words.",
        write='trainer = Trainer(accelerator="gpu", devices=2)',
    ),
    Row(
        id="strategy-in-plugins",
        title=LIGHTNING,
        about="plugins='ddp_sharded'",
        line="from pytorch_lightning import Trainer\n\ntrainer = Trainer(accelerator='gpu', plugins='ddp_sharded')\n",
        name="train.py",
        command="gpudoctor lint train.py --facts lightning=2.1",
        told=("plugins= takes no more since lightning 1.7", 'strategy="fsdp"'),
        today="Up to 1.6 a strategy could stand among the plugins; the word ddp_sharded left with 2.0.",
        write='trainer = Trainer(accelerator="gpu", devices=4, strategy="fsdp")',
    ),
    Row(
        id="split-and-all-gpus",
        title=LIGHTNING,
        about="Trainer() beside a model that is split by hand",
        line=SPLIT.format(""),
        name="train.py",
        command="gpudoctor lint train.py --facts lightning=2.4",
        told=("takes all GPUs, a process for each", "since Lightning 2.0", "devices=1", 'strategy="fsdp"'),
        today="Since 2.0 the defaults take all GPUs, a rank on each, and the whole model goes to its rank's GPU.",
        write='trainer = L.Trainer(accelerator="gpu", devices=1)  # and place the halves in on_fit_start()',
    ),
    Row(
        id="split-and-one-process",
        title=LIGHTNING,
        about="Trainer(devices=1) beside a model that is split by hand",
        line=SPLIT.format('accelerator="gpu", devices=1'),
        name="train.py",
        command="gpudoctor lint train.py --facts lightning=2.4",
        status=0,
        told=("No error found",),
        untold=("all GPUs",),
        today="One process, which is what a split model wants.",
    ),
    Row(
        id="interface-that-is-not-there",
        title=LIGHTNING,
        about="NCCL_SOCKET_IFNAME of another machine",
        line="export NCCL_SOCKET_IFNAME=nosuch0\ntorchrun --standalone --nproc-per-node=2 train.py\n",
        name="start.sh",
        command="gpudoctor lint start.sh --check",
        told=("this machine has no interface nosuch0",),
        today="NCCL finds no interface and ends.",
        write="unset NCCL_SOCKET_IFNAME",
    ),
)
