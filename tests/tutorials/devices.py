"""CUDA_VISIBLE_DEVICES as tutorials write it, and TPUs."""

# ruff: noqa: RUF001 - signs of other widths are what these lines are about

from tests.tutorials.row import Row, Title

TITLE: Title = "CUDA_VISIBLE_DEVICES, numbers of GPUs, and TPUs"
MACHINE = "h100_node"
ASK = "gpudoctor devices --from machine.json --cuda-visible-devices LINE"

NO_TENSORFLOW = "gpudoctor knows PyTorch, and TensorFlow is not covered"
XLA = "gpudoctor launch --framework xla"
TPU_SCRIPT = """import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="grpc://10.20.0.4:8470")
tf.config.experimental_connect_to_cluster(resolver)
tf.tpu.experimental.initialize_tpu_system(resolver)
strategy = tf.distribute.experimental.TPUStrategy(resolver)
"""


def odd(id: str, about: str, line: str, today: str, *, shown: str) -> Row:
    """A value that means 0,3 and is written so that CUDA reads something else."""
    return Row(
        id=id,
        title=TITLE,
        about=about,
        line=line,
        machine=MACHINE,
        command=ASK,
        told=("export CUDA_VISIBLE_DEVICES=0,3", shown),
        untold=("CUDA_VISIBLE_DEVICES=3", "\\u"),
        today=today,
        write="export CUDA_VISIBLE_DEVICES=0,3",
    )


ROWS = (
    Row(
        id="visible-two",
        title=TITLE,
        about="Two GPUs of eight",
        line="0,3",
        machine=MACHINE,
        command=ASK,
        status=0,
        told=("selects 2 of 8 GPUs", "0 0 GPU-00000000", "1 3 GPU-00000003"),
        untold=("problem", "meant"),
        today="The program sees GPUs 0 and 3, and calls them cuda:0 and cuda:1.",
    ),
    Row(
        id="visible-reordered",
        title=TITLE,
        about="The same in another order",
        line="3,0",
        machine=MACHINE,
        command=ASK,
        status=0,
        told=("selects 2 of 8 GPUs", "0 3 GPU-00000003", "1 0 GPU-00000000"),
        untold=("problem", "meant"),
        today="The order counts: cuda:0 is GPU 3.",
    ),
    Row(
        id="visible-none",
        title=TITLE,
        about="An empty value",
        line="",
        machine=MACHINE,
        command=ASK,
        told=("Every GPU is hidden", "unset CUDA_VISIBLE_DEVICES"),
        today="Every GPU is hidden; unset the variable to have all.",
        write="unset CUDA_VISIBLE_DEVICES",
    ),
    Row(
        id="visible-space",
        title=TITLE,
        about="A blank behind the comma",
        line="0, 3",
        machine=MACHINE,
        command=ASK,
        status=0,
        told=("selects 2 of 8 GPUs",),
        untold=("problem", "meant"),
        today="CUDA passes over blanks before a number.",
    ),
    odd(
        "visible-typographic-quotes",
        "Typographic quotes, as a word processor sets them",
        "‘0,3’",
        "The shell takes ASCII quotes alone away: CUDA is given ‘0 and 3’, and the list ends at its first entry.",
        shown="‘0",
    ),
    odd(
        "visible-double-quotes",
        "Typographic double quotes",
        "“0,3”",
        "The same with double quotes.",
        shown="“0",
    ),
    odd(
        "visible-full-width-comma",
        "A full-width comma",
        "0，3",
        "CUDA reads 0 and ignores the rest: a full-width comma separates nothing.",
        shown="，",
    ),
    odd(
        "visible-full-width-digits",
        "Full-width digits",
        "０，３",
        "No digit that CUDA knows stands there, and every GPU is hidden.",
        shown="０",
    ),
    odd(
        "visible-ideographic-comma",
        "An ideographic comma",
        "0、3",
        "CUDA reads 0 and ignores the rest.",
        shown="、",
    ),
    odd(
        "visible-small-comma",
        "A comma of another form, and brackets",
        "【0﹐3】",
        "No digit stands first, and every GPU is hidden.",
        shown="【",
    ),
    Row(
        id="tensorflow-tpu",
        title=TITLE,
        about="TensorFlow's TPUClusterResolver and TPUStrategy",
        line=TPU_SCRIPT,
        name="tpu.py",
        command="gpudoctor lint tpu.py",
        status=3,
        told=(NO_TENSORFLOW, XLA),
        untold=("Nothing to judge", "No error found"),
        today="That is TensorFlow's way; PyTorch reaches TPUs through torch_xla.",
        write="gpudoctor launch --framework xla -- train.py",
    ),
    Row(
        id="tensorflow-strategy",
        title=TITLE,
        about="TPUStrategy as the strategy of a start",
        line="TPUStrategy",
        command="gpudoctor launch --strategy LINE --nodes 1 --gpus-per-node 8",
        status=2,
        told=(NO_TENSORFLOW, XLA),
        today="PyTorch has no strategy of that name.",
        write="gpudoctor launch --framework xla -- train.py",
    ),
    Row(
        id="tensorflow-framework",
        title=TITLE,
        about="TensorFlow as the framework of a start",
        line="tensorflow",
        command="gpudoctor launch --framework LINE --nodes 1 --gpus-per-node 8",
        status=2,
        told=(NO_TENSORFLOW, XLA),
        today="gpudoctor writes starts of PyTorch.",
        write="gpudoctor launch --framework xla -- train.py",
    ),
    Row(
        id="launch-xla",
        title=TITLE,
        about="PyTorch on a TPU",
        line="xla",
        command="gpudoctor launch --framework LINE --nodes 1",
        status=0,
        told=("PJRT_DEVICE=TPU",),
        untold=("XRT_TPU_CONFIG=",),
        today="PJRT finds the chips by itself; xla_dist and XRT_TPU_CONFIG are gone since torch_xla 2.1.",
        write="PJRT_DEVICE=TPU python3 train.py",
    ),
    Row(
        id="xrt-tpu-config",
        title=TITLE,
        about="XRT_TPU_CONFIG",
        line="export XRT_TPU_CONFIG='localservice;0;localhost:51011'\npython train.py\n",
        name="start.sh",
        command="gpudoctor lint start.sh",
        status=0,
        told=("torch_xla has had no XRT since 2.1", "Write PJRT_DEVICE=TPU."),
        today="PJRT took the place of XRT, and nothing reads the variable.",
        write="export PJRT_DEVICE=TPU",
    ),
)
