"""What `lint` reads in Python programs: lines of old tutorials in our own words, what each must be told, and twins of
them that are right and stay silent."""

import pytest

from gpudoctor.knowledge.lightning_strategies import TODAY, meant
from gpudoctor.knowledge.superseded import EVERY
from gpudoctor.lint.lint import lint
from gpudoctor.lint.read import kind_of_name
from gpudoctor.lint.report import LintReport
from gpudoctor.lint.rule import Example, every_rule
from gpudoctor.testing.examples import job_of

RULES = every_rule()
DIST = "import os\nimport torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
ADDRESS = 'os.environ["MASTER_ADDR"] = "10.0.0.5"\nos.environ["MASTER_PORT"] = "29400"\n'
WORK = "def work(gpu, lr):\n    dist.init_process_group('nccl', rank={}, world_size={})\n    train(gpu, lr)\n"
MAIN = "if __name__ == '__main__':\n    mp.spawn(work, nprocs=8, args=(0.1,))\n"
SPAWNS = "#@ file train.py\n" + DIST + ADDRESS + WORK.format("gpu", 16) + MAIN
PARSER = (
    "#@ file train.py\n" + DIST + "import argparse\n" + "def main():\n    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('-n', '--nodes', default=1, type=int)\n"
    "    parser.add_argument('-g', '--gpus', default=1, type=int)\n"
    "    parser.add_argument('-nr', '--nr', default=0, type=int)\n    args = parser.parse_args()\n"
    "    args.world_size = args.gpus * args.nodes\n    os.environ['MASTER_ADDR'] = '10.0.0.5'\n"
    "    os.environ['MASTER_PORT'] = '29400'\n    mp.spawn(work, nprocs=args.gpus, args=(args,))\n"
    "def work(gpu, args):\n    dist.init_process_group('nccl', 'env://', rank={}, world_size=args.world_size)\n"
    "if __name__ == '__main__':\n    main()\n"
)
NODES = "#@ node 0\npython train.py\n#@ node 1\npython train.py\n"
SLURM = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node={}\n#SBATCH --gpus-per-node=8\nsrun python train.py\n"
)
HALVES = (
    "import torch\nfrom torch import nn\nclass Halves({}):\n    def __init__(self):\n        super().__init__()\n"
    "        self.down = nn.Linear(32, 16).cuda(0)\n        self.up = nn.Linear(16, 4).cuda(1)\n"
    "    def forward(self, x):\n        x = self.down(x)\n        return self.up({})\n"
)
SHOWN = "#@ every node\nCUDA_VISIBLE_DEVICES=0,3 python train.py\n"
TORCH = "#@ file train.py\nimport torch\nfrom torch.nn import DataParallel\n"
LOADER = (
    "from torch.utils.data import DataLoader\nfrom torch.utils.data.distributed import DistributedSampler\n"
    "def run(rank):\n    order = DistributedSampler(samples, num_replicas=4, rank=rank{})\n"
    "    loader = DataLoader(samples, 16, sampler=order)\n    for epoch in range(5):\n{}        for x, y in loader:\n"
    "            fit(x, y)\n"
)

INLINE = (
    LOADER.format("", "")
    .replace("    order = Distributed", "    # ")
    .replace("sampler=order", "sampler=DistributedSampler(samples)")
)

TOLD = [
    ("spawn in sections", SPAWNS + NODES, "", "T08", ("ranks 0-7 come twice, and 8-15 never", "NODE_RANK on each")),
    ("spawn, its world says it", DIST + ADDRESS + WORK.format("gpu", 16) + MAIN, "", "T08", ("8-15 never",)),
    ("spawn, three nodes", SPAWNS + "#@ every node\npython train.py\n", "nodes=3", "T08", ("0-7 come 3 times", "8-23")),
    ("spawn, told by options", PARSER.format("gpu") + "#@ node 0\npython train.py -n 2 -g 8 -nr 0\n", "", "T08",
     ("0-7 come twice", "8-15 never", "16 processes")),
    ("spawn, RANK set by hand", DIST + ADDRESS + "def work(gpu):\n    os.environ['RANK'] = str(gpu)\n"
     "    dist.init_process_group('nccl', world_size=16)\nmp.spawn(work, nprocs=8)\n", "nodes=2", "T08",
     ("come twice",)),
    (
        "spawn without an address, in a function of its own",
        DIST + "def setup(rank, size):\n    dist.init_process_group('gloo', rank=rank, world_size=size)\n"
        "def run(rank, size):\n    setup(rank, size)\nmp.spawn(run, args=(4,), nprocs=4)\n",
        "",
        "T09",
        ("MASTER_ADDR and MASTER_PORT",),
    ),
    ("shown after a question", "import os\nimport torch\nif not torch.cuda.is_available():\n    raise SystemExit\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '2'\n", "", "G09", ("is_available() in line 3",)),
    ("counted twice where a GPU is", TORCH + "there = torch.cuda.is_available()\n"
     "d = torch.device('cuda:3' if torch.cuda.is_available() else 'cpu')\n" + SHOWN, "", "G08", ('Write "cuda:1"',)),
    ("no epoch, on a condition", LOADER.format("", "").replace("rank=rank)", "rank=rank) if many else None"), "", "T12",
     ("order.set_epoch(epoch)",)),
    ("no epoch, in the loader", INLINE, "", "T12", ("loader.sampler.set_epoch(epoch)",)),
    ("labels on the wrong half", HALVES.format("nn.Module", "x.cuda(1)") + "net = Halves()\nloss = nn.MSELoss()\n"
     "loss(net(x.cuda(0)), y.cuda(0)).backward()\n", "", "T13", ("the labels are moved to cuda:0", 'y.to("cuda:1")')),
    ("no text, a list", "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = [0, 1]\n", "", "G10", ("not list", '"0,1"')),
    ("comments in another script", "import torch\n# 模型\nm = torch.nn.DataParallel(m, devices=[0])  # 两张卡\n", "",
     "T10", ("device_ids=[0]",)),
    ("gpus=0", "import pytorch_lightning as pl\npl.Trainer(gpus=0)\n", "", "L01", ('Write accelerator="cpu".',)),
    ("amp_level alone", "import pytorch_lightning as pl\npl.Trainer(amp_level='O2')\n", "", "L01", ("it did nothing",)),
]  # fmt: skip

SILENT = [
    ("ranks through all nodes", SPAWNS.replace("rank=gpu", 'rank=int(os.environ["NODE_RANK"]) * 8 + gpu')
     + NODES.replace("python", "NODE_RANK=0 python", 1).replace("\npython", "\nNODE_RANK=1 python"), ""),
    ("a rank that is computed before", DIST + ADDRESS + "def work(gpu, args):\n    rank = args.nr * args.gpus + gpu\n"
     "    dist.init_process_group('nccl', rank=rank, world_size=args.world)\nmp.spawn(work, nprocs=8, args=(a,))\n",
     "nodes=2"),
    ("ranks of a parser's options", PARSER.format("args.nr * args.gpus + gpu")
     + "#@ node 0\npython train.py -n 2 -g 8 -nr 0\n", ""),
    ("one node of a parser's options", PARSER.format("gpu") + "#@ node 0\npython train.py -g 8\n", ""),
    ("one node", SPAWNS.replace("world_size=16", "world_size=8") + "#@ every node\npython train.py\n", "nodes=1"),
    ("an address in the shell", SPAWNS.replace(ADDRESS, "").replace("16", "8")
     + "#@ every node\nMASTER_ADDR=10.0.0.5 MASTER_PORT=29400 python train.py\n", ""),
    ("an address in the call", DIST + WORK.format("gpu", "8, init_method='tcp://10.0.0.5:29400'") + MAIN, ""),
    ("an address in an f-string", DIST + WORK.format("gpu", "8, init_method=f'tcp://{host}:29400'") + MAIN, ""),
    ("spawn only without a launcher", "#@ file train.py\n" + DIST + ADDRESS + WORK.format("gpu", 8)
     + "if 'LOCAL_RANK' not in os.environ:\n    mp.spawn(work, args=(0.1,), nprocs=8)\n"
     "#@ every node\ntorchrun --standalone --nproc-per-node=8 train.py\n", ""),
    ("somebody's own Trainer", "from engine import Trainer\nTrainer(use_amp=False, amp_level='O2', strategy='dpp')\n",
     ""),
    ("a Trainer of the text", "import torch\nclass Trainer:\n    pass\nTrainer(devices=2, strategy='dpp', gpus=3)\n",
     ""),
    ("numbers within the program", TORCH + "m = DataParallel(m, device_ids=[1, 0]).cuda(1)\n" + SHOWN, ""),
    ("a number of GPUs", "#@ file train.py\nimport lightning as L\nL.Trainer(accelerator='gpu', devices=2)\n" + SHOWN,
     ""),
    ("all are there", TORCH + "m = DataParallel(m, device_ids=[0, 3])\n#@ every node\npython train.py\n",
     "gpus_per_node=4"),
    ("shown in time", 'import os\nimport torch\ntorch.manual_seed(1)\nos.environ["CUDA_VISIBLE_DEVICES"] = "2"\n'
     "net = make().cuda()\n", ""),
    ("shown to children", "import os, subprocess, torch\nassert torch.cuda.is_available()\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '2'\nsubprocess.run(['python', 'train.py'])\n", ""),
    ("moved in a function that nobody calls first", "import os, torch\ndef move(net):\n    return net.cuda()\n"
     "os.environ['CUDA_VISIBLE_DEVICES'] = '2'\nmove(net)\n", ""),
    ("a good value", "import os\nimport torch\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,2'\n", ""),
    ("another package's DataParallel", "from torch_geometric.nn import DataParallel\nDataParallel(m, devices=1)\n", ""),
    ("apex where it is", "try:\n    from apex.parallel import DistributedDataParallel as DDP\nexcept ImportError:\n"
     "    from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(m, delay_allreduce=True)\n", ""),
    ("a strategy of one's own", "from lightning.pytorch.strategies import StrategyRegistry\nimport lightning as L\n"
     "StrategyRegistry.register('dpp', Mine)\nL.Trainer(devices=2, accelerator='gpu', strategy='dpp')\n", ""),
    ("halves that are fed rightly", HALVES.format("nn.Module", "x.cuda(1)"), ""),
    ("labels on the right half", HALVES.format("nn.Module", "x.cuda(1)") + "net = Halves()\nloss = nn.MSELoss()\n"
     "out = net(x.cuda(0))\nloss(out, y.cuda(1)).backward()\n", ""),
    ("halves moved by a function", HALVES.format("nn.Module", "move(x)"), ""),
    ("a split model in one process", "import lightning as L\n" + HALVES.format("L.LightningModule", "x.cuda(1)")
     + "trainer = L.Trainer(accelerator='gpu', devices=1)\n", ""),
    ("a sampler for validation", LOADER.format("", "").replace("fit(x, y)", "total += hits(net(x), y)")
     + "def elsewhere(loss):\n    loss.backward()\n", ""),
    ("an epoch that is told", LOADER.format("", "        order.set_epoch(epoch)\n"), ""),
    ("no shuffling", LOADER.format(", shuffle=False", ""), ""),
    ("a loop elsewhere", LOADER.format("", "").replace("        for x, y in loader:\n            fit(x, y)\n",
     "        one_epoch(loader, epoch)\n"), ""),
    ("a global that is named so", "import torch\n"
     "net = make()\ndef train(gpu):\n    global net\n    net = net.cuda(gpu)\n",
     ""),
    ("a global that is only used", "import torch\nnet = make()\ndef train(gpu):\n    net.cuda(gpu)\n", ""),
    ("a seed for each rank", "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
     "def run(rank):\n    torch.manual_seed(1 + rank)\n    net = DDP(make(rank))\n    x = torch.randn(8, 32)\n", ""),
]  # fmt: skip


def asked(text: str, facts: str = "") -> LintReport:
    return lint(job_of(Example(text, facts)), RULES)


@pytest.mark.parametrize(
    ("text", "facts", "code", "words"), [each[1:] for each in TOLD], ids=[each[0] for each in TOLD]
)
def test_a_line_of_a_tutorial_is_told(text: str, facts: str, code: str, words: tuple[str, ...]) -> None:
    found = [each for each in asked(text, facts).problems if each.code == code]
    assert found, "silent"
    said = " ".join(f"{each.summary} {each.happens} {each.fix.text}" for each in found)
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(("text", "facts"), [each[1:] for each in SILENT], ids=[each[0] for each in SILENT])
def test_its_healthy_twin_is_not_accused(text: str, facts: str) -> None:
    accused = [each for each in asked(text, facts).problems if each.severity != "info" and each.code not in ("T06",)]
    assert [(each.code, each.summary) for each in accused] == []


@pytest.mark.parametrize(
    ("text", "framework", "verdict"),
    [
        ("import torch\nclass Trainer:\n    def step(self, loss):\n        loss.backward()\nTrainer().step(x)\n",
         "torch (one process, no wrapper)", "ok"),
        ("import torch\nnet = torch.nn.DataParallel(net).cuda()\n", "torch (DataParallel)", "ok"),
        ("from torch.nn.parallel import DistributedDataParallel as D\nnet = D(net)\n",
         "torch (DistributedDataParallel)", "ok"),
        (HALVES.format("nn.Module", "x.cuda(1)"), "torch (a model split over GPUs)", "ok"),
        ("import lightning as L\ntrainer = L.Trainer()\n", "lightning", "ok"),
        ("import torch\nx = torch.ones(3)\n", None, "not understood"),
        ("import json\nprint(json.dumps({}))\n", None, "not understood"),
    ],
)  # fmt: skip
def test_what_a_program_is(text: str, framework: str | None, verdict: str) -> None:
    report = asked(text)
    assert (report.understood.framework, report.verdict) == (framework, verdict)


def test_ranks_that_a_program_spawns_are_counted() -> None:
    for text in (SPAWNS + NODES, PARSER.format("gpu") + "#@ every node\npython train.py --nodes=2 -g 8\n"):
        understood = asked(text).understood
        assert (understood.nodes, understood.processes_per_node, understood.world_size) == (2, 8, 16)


def test_the_strategies_of_today_are_none_that_is_gone() -> None:
    gone = {each.name for each in EVERY if each.kind == "strategy"}
    assert not gone & set(TODAY)
    assert [meant(name) for name in (*TODAY, *gone, "quokka", "", "DDP")] == [""] * (len(TODAY) + len(gone) + 3)
    assert (meant("dpp"), meant("fdsp"), meant("deepspeed_stage2")) == ("ddp", "fsdp", "deepspeed_stage_2")


def test_a_docstring_that_quotes_a_header_makes_no_batch_script() -> None:
    quoted = (
        'import signal\n"""\n    #!/bin/bash\n    #SBATCH --time=10:00\n    #SBATCH --signal=USR1@300\n"""\nID = 1\n'
    )
    assert kind_of_name("handlers.py", quoted) == "python"
    handed_on = (
        "jobs:\n  one:\n    steps:\n    - uses: a/hpc@v2\n      with:\n        options: |\n          #SBATCH -N 2\n"
    )
    assert kind_of_name("ci.yml", handed_on) == "manifest"
    assert kind_of_name("job.py", "#!/usr/bin/env python\n#SBATCH --nodes=2\nimport torch\n") is None


def test_who_misses_a_collective_is_who_has_the_condition() -> None:
    text = (
        "#@ file t.py\nimport os\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "if dist.get_rank() == 0 and os.path.exists('seen.json'):\n    rows = read()\nelse:\n    rows = score()\n"
        "    dist.barrier()\n#@ every node\ntorchrun --standalone --nproc-per-node=2 t.py\n"
    )
    said = [each.summary for each in lint(job_of(Example(text)), RULES).problems if each.code == "T54"]
    assert said == ["rank 1 comes to barrier, and rank 0 does not"]
