"""The programs of tests/lab/hangs as they would be on GPUs: on NCCL, with tensors on the device.

No line moves, so that what a scenario says of lines stays true. Loaders and checkpoints keep their data in the host's
memory, as theirs do; a step prints its loss, as nearly all training does, and so waits for the GPU.
"""

import ast
import re
from pathlib import Path

from tests.lab.hangs.training import HANGS

MAKERS = {f"torch.{name}" for name in ("ones", "zeros", "rand", "randn", "tensor", "nn.Linear")}
"""What makes a tensor on the device that is named."""
ON_HOST = {
    "early_continue.py": ("torch.randn",),
    "loader_deadlock.py": tuple(MAKERS),
    "loader_waits.py": ("torch.ones",),
    "loads_before_init.py": tuple(MAKERS),
    "reads_fifo.py": tuple(MAKERS),
    "slow_checkpoint.py": ("torch.randn",),
    "uneven_batches.py": ("torch.randn",),
}
"""What a program makes in the host's memory."""
ON_DEVICE = ("dist.all_reduce(batch", "dist.all_reduce(sample", "dist.all_reduce(data[0]", "model(batch")
"""Calls that want their first argument there."""
DEVICE = "torch.cuda.set_device({rank}); "
LOCAL_RANK = 'int(__import__("os").environ.get("LOCAL_RANK") or 0)'
DELTA = '__import__("datetime").timedelta(seconds={limit})'
BACKEND = f'dist.init_process_group("nccl", timeout={DELTA}'
LOSS = '", "loss", torch.zeros(1, device="cuda").item(), flush=True)'


def on_nccl(script: str, limit: int) -> str:
    """A program of the lab; `limit`: its group's time-out in seconds."""
    text = (HANGS / script).read_text()
    lines = text.split("\n")
    for row, column in sorted(ends_of_makers(script, text), reverse=True):
        lines[row] = f'{lines[row][:column]}, device="cuda"{lines[row][column:]}'
    text = "\n".join(lines)
    for call in ON_DEVICE:
        if script in ON_HOST:
            text = text.replace(call, f"{call}.cuda()")
    setup = DEVICE.format(rank="rank" if "rank=rank" in text else LOCAL_RANK)
    text = text.replace('dist.init_process_group("gloo"', setup + BACKEND.format(limit=limit))
    return re.sub(r'(?<=step \{step\})", flush=True\)', LOSS, text)


def ends_of_makers(script: str, text: str) -> list[tuple[int, int]]:
    """Where the arguments of each call end that makes something on the device."""
    kept = ON_HOST.get(script, ())
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    made = [call for call in calls if (name := ast.unparse(call.func)) in MAKERS and name not in kept]
    return [(call.end_lineno - 1, call.end_col_offset - 1) for call in made if call.end_lineno and call.end_col_offset]


def write(folder: Path, limit: int) -> Path:
    """All of them, into a folder; those of cuda/ are for GPUs as they are."""
    (folder / "cuda").mkdir(parents=True, exist_ok=True)
    for script in (HANGS / "cuda").glob("*.py"):
        delta = DELTA.format(limit=limit)
        timed = re.sub(r'init_process_group\("[a-z:,]+"', rf"\g<0>, timeout={delta}", script.read_text())
        (folder / "cuda" / script.name).write_text(timed)
    for script in HANGS.glob("*.py"):
        if "init_process_group" in script.read_text():
            (folder / script.name).write_text(on_nccl(script.name, limit))
    return folder
