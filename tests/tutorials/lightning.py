"""Lightning's Trainer over several GPUs and machines."""

from tests.tutorials.row import Row, Title

TITLE: Title = "Lightning over several GPUs and machines"
TRAINER = "from lightning import Trainer\n\ntrainer = Trainer({})\ntrainer.fit(model)\n"
TORCHRUN = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234 train.py\n"
)
DDP = 'accelerator="gpu", devices=4, num_nodes=2, strategy="ddp"'


def argument(name: str, value: str, since: str, today: str, write: str) -> Row:
    """An argument of Trainer, as a log refuses it."""
    return Row(
        id=f"log-{name}".replace("_", "-"),
        title=TITLE,
        about=f"{name}= of Trainer, in a log",
        line=f"""Traceback (most recent call last):
  File "/home/mia/fit.py", line 12, in <module>
    trainer = Trainer({name}={value})
  File "/opt/venv/lib/python3.11/site-packages/lightning/pytorch/utilities/argparse.py", line 70, in insert_env_defaults
    return fn(self, **kwargs)
TypeError: Trainer.__init__() got an unexpected keyword argument '{name}'
""",
        name="fit.log",
        command="gpudoctor explain fit.log",
        told=(since, write, "fit.py:12"),
        untold=("Correct what raised it", "dependency"),
        today=today,
        write=f"trainer = Trainer({write})",
    )


ROWS = (
    argument(
        "gpus",
        "4",
        "removed in lightning 2.0",
        "Gone since 2.0: the kind of device and their number are two arguments.",
        'accelerator="gpu", devices=',
    ),
    argument(
        "distributed_backend",
        '"ddp"',
        "removed in lightning 1.5",
        "It became accelerator= and, in 1.5, strategy=.",
        "strategy=",
    ),
    argument(
        "use_amp",
        "True",
        "removed in lightning 0.9",
        "precision= says it since 0.7.",
        'precision="16-mixed"',
    ),
    argument(
        "amp_level",
        '"O2"',
        "removed in lightning 2.0",
        "Apex left Lightning with 2.0; PyTorch's own mixed precision has no levels.",
        'precision="16-mixed"',
    ),
    Row(
        id="log-gpus-python-3-9",
        title=TITLE,
        about="gpus= of Trainer, in a log of Python 3.9",
        line="""Traceback (most recent call last):
  File "/home/mia/fit.py", line 12, in <module>
    trainer = pl.Trainer(gpus=2, max_epochs=3)
  File "/opt/venv/lib/python3.9/site-packages/pytorch_lightning/utilities/argparse.py", line 69, in insert_env_defaults
    return fn(self, **kwargs)
TypeError: __init__() got an unexpected keyword argument 'gpus'
""",
        name="fit.log",
        command="gpudoctor explain fit.log",
        told=("removed in lightning 2.0", 'accelerator="gpu", devices=', "fit.py:12"),
        untold=("Correct what raised it", "dependency"),
        today="Python before 3.10 does not say whose __init__ it was; the traceback does.",
        write='trainer = Trainer(accelerator="gpu", devices=2, max_epochs=3)',
    ),
    Row(
        id="log-fairscale",
        title=TITLE,
        about='strategy="fairscale", in a log',
        line="ValueError: You selected an invalid strategy name: `strategy='fairscale'`. It must be either a string or "
        "an instance of `lightning.pytorch.strategies.Strategy`. Example choices: auto, ddp, ddp_spawn, deepspeed, ...",
        name="fit.log",
        command="gpudoctor explain fit.log",
        told=("never", 'strategy="fsdp"'),
        untold=("Correct what raised it",),
        today="No release knew that name: fairscale's sharding was called ddp_sharded, until 2.0.",
        write='trainer = Trainer(accelerator="gpu", devices=4, strategy="fsdp")',
    ),
    Row(
        id="three-lines",
        title=TITLE,
        about="A node's lines by hand: MASTER_ADDR, NODE_RANK, and nothing else",
        line="#@ file fit.py\n" + TRAINER.format(DDP) + "#@ node 0\nMASTER_ADDR=10.20.0.11 MASTER_PORT=61234 "
        "WORLD_SIZE=8 NODE_RANK=0 LOCAL_RANK=0 python fit.py\n#@ node 1\nMASTER_ADDR=10.20.0.11 MASTER_PORT=61234 "
        "WORLD_SIZE=8 NODE_RANK=1 LOCAL_RANK=0 python fit.py\n",
        name="start.txt",
        command="gpudoctor lint start.txt --kind shell",
        told=("LOCAL_RANK",),
        today="With LOCAL_RANK set, Lightning takes somebody else for who starts the ranks, and starts none itself.",
        write="MASTER_ADDR=10.20.0.11 MASTER_PORT=61234 NODE_RANK=0 python fit.py   # NODE_RANK=1 on the other node",
    ),
    Row(
        id="dp-and-half",
        title=TITLE,
        about='strategy="dp" with precision=16',
        line=TRAINER.format('gpus=4, strategy="dp", precision=16'),
        name="fit.py",
        command="gpudoctor lint fit.py --facts lightning=1.9.5",
        told=("DataParallel", 'strategy="ddp"'),
        today="DataParallel's threads do not get the precision that was asked for; dp itself is gone since 2.0.",
        write='trainer = Trainer(accelerator="gpu", devices=4, strategy="ddp", precision="16-mixed")',
    ),
    *(
        Row(
            id=f"strategy-{name}".replace("_", "-"),
            title=TITLE,
            about=f'strategy="{name}"',
            line=TRAINER.format(f'accelerator="gpu", devices=4, strategy="{name}"'),
            name="fit.py",
            command="gpudoctor lint fit.py --facts lightning=2.4",
            told=(since, f'strategy="{instead}"'),
            today=today,
            write=f'trainer = Trainer(accelerator="gpu", devices=4, strategy="{instead}")',
        )
        for name, since, instead, today in (
            ("dp", "removed in lightning 2.0", "ddp", "Gone since 2.0."),
            ("horovod", "removed in lightning 2.0", "ddp", "Gone since 2.0; before, horovodrun started it."),
            (
                "bagua",
                "removed in lightning 2.0",
                "ddp",
                "There from 1.6 to 1.9; Bagua itself has had no release since.",
            ),
            (
                "fairscale",
                "never part of lightning",
                "fsdp",
                "Never a name of Lightning's; ddp_sharded was, until 2.0.",
            ),
            ("ddp_sharded", "removed in lightning 2.0", "fsdp", "fairscale's sharding; PyTorch's own took its place."),
        )
    ),
    *(
        Row(
            id=f"launch-fairscale-{version}",
            title=TITLE,
            about=f"fairscale on two machines, with Lightning {version}",
            line="fairscale",
            command="gpudoctor launch --framework lightning --strategy LINE --nodes 2 --gpus-per-node 4 "
            f"--framework-version {version}",
            status=2,
            told=("never a strategy", error, "--strategy ddp_sharded", "the package fairscale", plugin),
            untold=(other,),
            today=f"That release refuses the word ({error.partition(':')[0]}) and calls it ddp_sharded. With fairscale "
            "installed it runs on several machines; in 2.0 it left, and PyTorch's own FSDP took its place.",
            write='trainer = Trainer(accelerator="gpu", devices=4, num_nodes=2, strategy="ddp_sharded")',
        )
        for version, error, plugin, other in (
            ("1.5.10", "ValueError: 'fairscale' is not a valid DistributedType", "DDPShardedPlugin", "KeyError"),
            ("1.7.4", "KeyError: 'fairscale' not found in registry", "DDPShardedStrategy", "DistributedType"),
        )
    ),
    *(
        Row(
            id=f"log-fairscale-{version}",
            title=TITLE,
            about=f'strategy="fairscale" in a log, with Lightning {version}',
            line=line,
            name="fit.log",
            command="gpudoctor explain fit.log",
            told=("never part of lightning", 'strategy="fsdp"'),
            untold=("Correct what raised it", "Look at the sample"),
            today="The same refusal in the words of that release.",
            write='trainer = Trainer(accelerator="gpu", devices=4, strategy="fsdp")',
        )
        for version, line in (
            ("1.5", "ValueError: 'fairscale' is not a valid DistributedType"),
            (
                "1.7",
                "KeyError: \"'fairscale' not found in registry. Available names: ['bagua', 'ddp', 'ddp_sharded']\"",
            ),
        )
    ),
    *(
        Row(
            id=f"launch-{framework}",
            title=TITLE,
            about=f"A start of two nodes with four GPUs each, by {framework}",
            line=framework,
            command="gpudoctor launch --framework LINE --nodes 2 --gpus-per-node 4",
            status=0,
            told=told,
            today=today,
        )
        for framework, told, today in (
            (
                "lightning",
                ("NODE_RANK=1", "num_nodes=2", "devices=4"),
                "Lightning starts the ranks of its node itself.",
            ),
            (
                "slurm",
                ("#SBATCH --nodes=2", "srun"),
                "srun starts one torchrun a node, and that the ranks.",
            ),
        )
    ),
    Row(
        id="nccl-debug",
        title=TITLE,
        about="NCCL told to say what it does, and which interface to take",
        line="export NCCL_DEBUG=INFO\nexport NCCL_SOCKET_IFNAME=eth0\n" + TORCHRUN,
        name="start.sh",
        command="gpudoctor lint start.sh",
        status=0,
        told=("No error found",),
        untold=("NCCL_DEBUG", "E08"),
        today="Both are read as they were; an interface need only be named where NCCL chooses wrongly.",
    ),
    Row(
        id="nccl-without-infiniband",
        title=TITLE,
        about="NCCL without InfiniBand",
        line="export NCCL_IB_DISABLE=1\n" + TORCHRUN,
        name="start.sh",
        command="gpudoctor lint start.sh",
        status=0,
        told=("NCCL_IB_DISABLE=1 is set", "talks over TCP"),
        today="It makes a broken fabric work, many times slower, and is forgotten in the script.",
        write="unset NCCL_IB_DISABLE",
    ),
    Row(
        id="nccl-over-loopback",
        title=TITLE,
        about="NCCL over the loopback interface",
        line="export NCCL_SOCKET_IFNAME=lo\n" + TORCHRUN,
        name="start.sh",
        command="gpudoctor lint start.sh",
        told=("NCCL_SOCKET_IFNAME=lo", "does not leave the node"),
        today="Right on one machine; on two, each tells the other an address that leads back to itself.",
        write="export NCCL_SOCKET_IFNAME=eth0",
    ),
    Row(
        id="nccl-name-that-nobody-reads",
        title=TITLE,
        about="A variable that NCCL does not read",
        line="export NCCL_IFNAME=eth0\n" + TORCHRUN,
        name="start.sh",
        command="gpudoctor lint start.sh",
        told=("Nothing reads NCCL_IFNAME", "NCCL_SOCKET_IFNAME"),
        today="No release of NCCL has read it.",
        write="export NCCL_SOCKET_IFNAME=eth0",
    ),
    Row(
        id="log-ddp-plugin",
        title=TITLE,
        about="DDPPlugin, which left the plugins",
        line="ImportError: cannot import name 'DDPPlugin' from 'pytorch_lightning.plugins' "
        "(/opt/venv/lib/python3.10/site-packages/pytorch_lightning/plugins/__init__.py)",
        name="fit.log",
        command="gpudoctor explain fit.log",
        told=("DDPStrategy", "Trainer(strategy=...)"),
        today="Plugins of that kind have been strategies since 1.6.",
        write="from pytorch_lightning.strategies import DDPStrategy\n\n"
        "trainer = Trainer(strategy=DDPStrategy(find_unused_parameters=True))",
    ),
    Row(
        id="log-tokenizer-of-another-trainer",
        title=TITLE,
        about="An argument of Hugging Face's Trainer, which is no other's",
        line="""Traceback (most recent call last):
  File "/home/mia/tune.py", line 61, in <module>
    trainer = Trainer(model=model, args=args, train_dataset=samples, tokenizer=words)
  File "/opt/venv/lib/python3.11/site-packages/transformers/utils/deprecation.py", line 171, in wrapped_func
    return func(*args, **kwargs)
TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'
""",
        name="tune.log",
        command="gpudoctor explain tune.log",
        told=("Trainer takes tokenizer no more", "removed in transformers 5.0", "processing_class="),
        untold=("Lightning", "do not fit"),
        today="It is called processing_class since 4.46.",
        write="trainer = Trainer(model=model, args=args, train_dataset=samples, processing_class=words)",
    ),
)
