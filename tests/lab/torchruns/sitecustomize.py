"""On PYTHONPATH in the lab: torchrun imports torch truly, and has its ranks forked from what it has imported."""

import sys
from pathlib import Path
from typing import Any

if "warm" not in sys.modules and any(
    word == "torch.distributed.run" or Path(word).name in ("torchrun", "accelerate") for word in sys.orig_argv
):
    _file = Path(__file__).parents[1] / "warm.py"
    _own: dict[str, Any] = {"__name__": "warm", "__file__": str(_file)}
    exec(compile(_file.read_text(), "<frozen runpy>", "exec"), _own)
    _own["load_torch"]()
    _own["fork_ranks"]()
