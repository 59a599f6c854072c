"""A model saved in its wrapper, and the table of nvidia-smi."""

# ruff: noqa: RUF001 - signs of other widths are what these lines are about

from tests.tutorials.row import Row, Title

TITLE: Title = "A saved state_dict, and the table of nvidia-smi"
FRAMES = """Traceback (most recent call last):
  File "/home/mia/evaluate.py", line 31, in <module>
    net.load_state_dict(torch.load("net.pt"))
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 2584, in load_state_dict
    raise RuntimeError(
"""
MISSING = """RuntimeError: Error(s) in loading state_dict for DataParallel:
\tMissing key(s) in state_dict: "module.fc.weight", "module.fc.bias".\x20
\tUnexpected key(s) in state_dict: "fc.weight", "fc.bias".\x20
"""
LEFT = """RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "fc.weight", "fc.bias".\x20
\tUnexpected key(s) in state_dict: "module.fc.weight", "module.fc.bias".\x20
"""
RANKS = ("rank", "other processes", "LOCAL_RANK")
"""Words about ranks, in a program that has none."""
INTO_WRAPPER = "model.module.load_state_dict(state)"
TAKEN_OFF = 'state = {name.removeprefix("module."): tensor for name, tensor in state.items()}'
LOADED = "model.load_state_dict(dict((name.removeprefix('module.'), tensor) for name, tensor in state.items()))"
TABLE = (
    "大家好，我的服务器上显示 +-----------------------------------------------------------------------------+ "
    "| NVIDIA-SMI 535.129.03 Driver Version: 535.129.03 CUDA Version: 12.2 | "
    "|-------------------------------+----------------------+----------------------+ "
    "| GPU Name Persistence-M | Bus-Id Disp.A | Volatile Uncorr. ECC | "
    "| Fan Temp Perf Pwr:Usage/Cap | Memory-Usage | GPU-Util Compute M. | | | | MIG M. | "
    "|===============================+======================+======================| "
    "| 0 NVIDIA GeForce RTX 3090 Off | 00000000:3B:00.0 Off | N/A | | 41% 63C P2 212W / 350W | "
    "18021MiB / 24576MiB | 97% Default | | | | N/A | "
    "+-------------------------------+----------------------+----------------------+ "
    "| 1 NVIDIA GeForce RTX 3090 Off | 00000000:AF:00.0 Off | N/A | | 30% 35C P8 21W / 350W | "
    "2MiB / 24576MiB | 0% Default | | | | N/A | "
    "+-------------------------------+----------------------+----------------------+ "
    "+-----------------------------------------------------------------------------+ | Processes: | "
    "| GPU GI CI PID Type Process name GPU Memory | | ID ID Usage | "
    "|=============================================================================| "
    "| 0 N/A N/A 4711 C python 18019MiB | "
    "+-----------------------------------------------------------------------------+ 为什么只有一张卡在工作？"
)
NOT_A_TABLE = "为什么我的程序只用一张卡？ torch.cuda.device_count() = 2"


ROWS = (
    Row(
        id="module-missing",
        title=TITLE,
        about="A state dict saved without the wrapper, loaded into the wrapper",
        line=MISSING,
        name="evaluate.log",
        command="gpudoctor explain evaluate.log",
        told=("saved without the wrapper", "[checkpoint-mismatch]", INTO_WRAPPER, "gpudoctor checkpoint FILE --fix"),
        untold=RANKS,
        today="DataParallel and DistributedDataParallel put `module.` before every name; a state dict without it is "
        "loaded into the model inside.",
        write='state = torch.load("net.pt", map_location="cpu", weights_only=True)\n' + INTO_WRAPPER,
    ),
    Row(
        id="module-missing-traceback",
        title=TITLE,
        about="The same with its traceback, of a program of one process",
        line=FRAMES + MISSING,
        name="evaluate.log",
        command="gpudoctor explain evaluate.log",
        told=("saved without the wrapper", "evaluate.py", INTO_WRAPPER, "gpudoctor checkpoint FILE --fix"),
        untold=RANKS,
        today="The traceback names the line that loads; nothing of it has to do with ranks.",
        write='state = torch.load("net.pt", map_location="cpu", weights_only=True)\n' + INTO_WRAPPER,
    ),
    Row(
        id="module-missing-one-line",
        title=TITLE,
        about="The same as one line, as it is typed into a question",
        line='RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "module.weight"',
        command="gpudoctor explain -",
        told=("saved without the wrapper", INTO_WRAPPER),
        untold=("Nothing wrong found", *RANKS),
        today="The names that the model misses begin with `module.`: it is the model that is wrapped.",
        write=INTO_WRAPPER,
    ),
    Row(
        id="module-left",
        title=TITLE,
        about="A state dict saved with the wrapper, loaded into a plain model",
        line=LEFT,
        name="evaluate.log",
        command="gpudoctor explain evaluate.log",
        told=("saved with the wrapper", "[checkpoint-mismatch]", LOADED, "gpudoctor checkpoint FILE --fix"),
        untold=RANKS,
        today="The names in the file begin with `module.`, and those of a plain model do not.",
        write='state = torch.load("net.pt", map_location="cpu", weights_only=True)\n'
        + TAKEN_OFF
        + "\nmodel.load_state_dict(state)",
    ),
    Row(
        id="module-left-traceback",
        title=TITLE,
        about="The same with its traceback, of a program of one process",
        line=FRAMES + LEFT,
        name="evaluate.log",
        command="gpudoctor explain evaluate.log",
        told=("saved with the wrapper", "evaluate.py", LOADED),
        untold=RANKS,
        today="strict=False would silence it, and load nothing.",
        write=TAKEN_OFF + "\nmodel.load_state_dict(state)",
    ),
    Row(
        id="module-left-torch-0-3",
        title=TITLE,
        about="The same in the words of torch up to 0.3",
        line="KeyError: 'unexpected key \"module.features.3.weight\" in state_dict'",
        name="evaluate.log",
        command="gpudoctor explain evaluate.log",
        told=("saved with the wrapper", "[checkpoint-mismatch]", LOADED),
        untold=("sample or column", *RANKS),
        today="The first name that the model does not have; torch lists them all since 0.4.",
        write=TAKEN_OFF + "\nmodel.load_state_dict(state)",
    ),
    Row(
        id="another-model",
        title=TITLE,
        about="A state dict of another model",
        line="RuntimeError: Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "head.weight". \n'
        '\tUnexpected key(s) in state_dict: "classifier.weight". \n',
        name="evaluate.log",
        command="gpudoctor explain evaluate.log",
        told=("[checkpoint-mismatch]", "names or shapes differ"),
        untold=("saved with", "removeprefix", *RANKS),
        today="No wrapper is in it: the model was built otherwise than the one that was saved.",
        write="model = Net(**the_arguments_that_the_saved_model_had)",
    ),
    Row(
        id="like-plain-of-wrapped",
        title=TITLE,
        about="A plain file, held against a file that was saved in the wrapper",
        line="model.load_state_dict(torch.load('plain.pt'))",
        saved={"plain.pt": ("fc.weight", "fc.bias"), "wrapped.pt": ("module.fc.weight", "module.fc.bias")},
        command="gpudoctor checkpoint plain.pt --like wrapped.pt",
        status=0,
        told=('"module."', "2 missing", "2 unexpected", "differ only by", 'state = {"module." + name: tensor'),
        untold=("takes the names as they are",),
        today="The model of wrapped.pt is in its wrapper; its names begin with `module.`.",
        write=INTO_WRAPPER,
    ),
    Row(
        id="like-wrapped-of-plain",
        title=TITLE,
        about="A file that was saved in the wrapper, held against a plain one",
        line="model.load_state_dict(torch.load('wrapped.pt'))",
        saved={"plain.pt": ("fc.weight", "fc.bias"), "wrapped.pt": ("module.fc.weight", "module.fc.bias")},
        command="gpudoctor checkpoint wrapped.pt --like plain.pt",
        status=0,
        told=('"module."', "2 missing", "2 unexpected", "differ only by", '.removeprefix("module.")'),
        untold=("takes the names as they are",),
        today="The file's names begin with `module.`, and the model's do not.",
        write=TAKEN_OFF + "\nmodel.load_state_dict(state)",
    ),
    Row(
        id="like-itself",
        title=TITLE,
        about="A wrapped file, held against itself",
        line="model.load_state_dict(torch.load('wrapped.pt'))",
        saved={"wrapped.pt": ("module.fc.weight", "module.fc.bias")},
        command="gpudoctor checkpoint wrapped.pt --like wrapped.pt",
        status=0,
        told=("takes the names as they are",),
        untold=("missing", "unexpected", "removeprefix"),
        today="The model that saved it takes it: the wrapper is there on both sides.",
    ),
    Row(
        id="module-in-file",
        title=TITLE,
        about="What a checkpoint of DataParallel holds",
        line="torch.save(model.state_dict(), 'wrapped.pt')",
        saved={"wrapped.pt": ("module.fc.weight", "module.fc.bias")},
        command="gpudoctor checkpoint wrapped.pt",
        status=0,
        told=('Names carry "module."', "DistributedDataParallel or DataParallel", '.removeprefix("module.")', "--fix"),
        today="The wrapper's prefix is saved with the names; `model.module.state_dict()` has none.",
        write='torch.save(model.module.state_dict(), "plain.pt")',
    ),
    Row(
        id="clean-copy",
        title=TITLE,
        about="A copy of it without the prefix",
        line="state = {k[7:]: v for k, v in torch.load('wrapped.pt').items()}",
        saved={"wrapped.pt": ("module.fc.weight", "module.fc.bias")},
        command="gpudoctor checkpoint wrapped.pt --fix plain.pt",
        status=0,
        told=("Written: plain.pt", "2 with another name", "compared: every byte"),
        today="k[7:] cuts whatever stands there; removeprefix cuts `module.` alone.",
        write="gpudoctor checkpoint wrapped.pt --fix plain.pt",
    ),
    Row(
        id="smi-table-in-a-question",
        title=TITLE,
        about="The table of nvidia-smi in one line, between the words of a question",
        line=TABLE,
        name="question.txt",
        command="gpudoctor check --from question.txt",
        status=0,
        told=("2x GeForce RTX 3090", "535.129.03"),
        untold=("\\u", "internal error", "neither a snapshot"),
        today="It is read as if its lines were there; `nvidia-smi -q` tells more than the table.",
        write="gpudoctor check --from smi.txt   # what `nvidia-smi -q > smi.txt` wrote",
    ),
    Row(
        id="a-question-without-a-table",
        title=TITLE,
        about="A question alone",
        line=NOT_A_TABLE,
        name="question.txt",
        command="gpudoctor check --from question.txt",
        status=2,
        told=("neither a snapshot nor output of nvidia-smi", "为什么我的程序只用一张卡？"),
        untold=("\\u",),
        today="Nothing of the machine is in it, and the text is shown as it is.",
        write="gpudoctor check",
    ),
)
