"""On PYTHONPATH in the lab: torchrun imports torch truly, and has its ranks forked from what it has imported. Where a
door of the lab's server is named, it, gpudoctor's agents and scripts that import torch are forks themselves."""

import os
import sys
from pathlib import Path
from typing import Any

_words = sys.orig_argv[1:]
_launchers = ("torch.distributed.run", "accelerate.commands.launch", "torchrun", "accelerate")  # as in warm.py
_torchrun = "gpudoctor" not in _words[:3] and any(Path(word).name in _launchers for word in _words[:4])
_door = os.environ.get("GPUDOCTOR_LAB_DOOR", "")
_agent = _words[:1] == ["-c"] and "gpudoctor.fleet.agent" in _words[1]
_script = next((Path(word) for word in _words[:2] if word.endswith(".py")), None) if _door else None
_trains = _script is not None and _script.exists() and b"import torch" in _script.read_bytes()
if "warm" not in sys.modules and (_torchrun or (_door and (_agent or _trains))):
    _file = Path(__file__).parents[1] / "warm.py"
    _own: dict[str, Any] = {"__name__": "warm", "__file__": str(_file)}
    exec(compile(_file.read_text(), "<frozen runpy>", "exec"), _own)
    # A fork comes too late for what the dynamic loader reads.
    if _door and not (os.environ.get("LD_PRELOAD") or os.environ.get("LD_LIBRARY_PATH")):
        _own["hand_over"](_door)
    if _torchrun:
        _own["load_torch"]()
        _own["fork_ranks"](_own["server_behind"]())
