"""The rank program of `gpudoctor train-test`: trains a tiny model in each way, and verifies what users rely on.

Started as workers/collective.py is, with the same argument, and speaks as it does; the launch's `train` says what to
train. After the members, rank 0 says one `trained` a cell. A way that uses one process is run by rank 0, for which
the others wait.
"""

import json
import os
import sys
import tempfile
import traceback
from datetime import timedelta
from typing import Any, Callable, Dict, List

from amp_switches import too_old
from collective import LINE_BYTES, Rank, be_a_rank, leave, open_device
from collective_member import describe
from train_team import Team
from train_way import Context, FaultFound, NotApplicable, Way
from train_ways import WAYS

Say = Callable[[Dict[str, Any]], None]

HERE = os.path.dirname(os.path.abspath(__file__))
NAMED_DEVICES = 64  # so that the message fits one line
MAXIMUM_TEXT = 600
MAXIMUM_NOTES = 6


def main(say: Say, arguments: List[str]) -> None:
    be_a_rank(say, arguments, run)


def run(launch: Dict[str, Any], symmetric: bool, rank: Rank) -> None:
    # DDP imports torch._dynamo, which makes a folder for a compiler that is not used here, unless it is there already.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())
    # The modules that import torch are loaded late, here and in processes that a way starts. At the end, where this
    # folder shadows nothing.
    sys.path.append(HERE)
    rank.enter("import torch")
    import torch
    import torch.distributed

    device = open_device(torch, launch, symmetric, rank)
    rank.enter("rendezvous")
    torch.distributed.init_process_group(launch["backend"], timeout=timedelta(seconds=launch["timeout"]))
    cells = Cells(torch, launch, device, rank)
    rank.enter("exchange of who is there")
    member = describe(torch, launch, device, rank.local_rank, 0, symmetric)
    for number, answer in enumerate(cells.team.exchange(member)):
        if rank.rank == 0:
            rank.tell("member", **dict(answer, rank=number, world_size=cells.team.ranks))
    for cell in launch["train"]["cells"]:
        cells.run(str(cell["way"]), str(cell.get("precision", "fp32")))
    rank.enter("leaving")
    cells.team.wait()
    rank.tell("finished", rank=rank.rank)
    leave(torch)


class Cells:
    """Runs the cells of a launch on this rank, one after the other."""

    def __init__(self, torch: Any, launch: Dict[str, Any], device: Any, rank: Rank) -> None:
        self.torch = torch
        self.launch = launch
        self.device = device
        self.rank = rank
        exchanged_on = device if launch["backend"] == "nccl" else torch.device("cpu")
        ranks = torch.distributed.get_world_size()
        self.team = Team(torch, rank.rank, ranks, exchanged_on)
        self.alone = Team(torch, 0, 1, exchanged_on)
        self.ways: Dict[str, Way] = {}

    def run(self, name: str, precision: str) -> None:
        """Train one cell; rank 0 says what became of it. Raises what this rank cannot go on after."""
        if name not in WAYS:
            return self.tell(name, precision, {"outcome": "not applicable", "reason": f"no way is called {name!r}"})
        way = self.ways.setdefault(name, WAYS[name]())
        team = self.alone if way.one_process else self.team
        context = Context(self.torch, self.launch, name, precision, self.device, team, self.rank.enter)
        if not way.one_process or self.rank.rank == 0:
            self.tell(name, precision, self.trained(way, context))
        elif self.team.ranks > 1:
            context.enter("runs on rank 0")
        if way.one_process:
            self.team.wait()
        self.tidy()
        return None

    def trained(self, way: Way, context: Context) -> Dict[str, Any]:
        """The fields of `Trained`: those of the way, and how it ended."""
        context.enter("start")
        lacking = context.team.first_text(too_old(context.torch) or way.lacking(context))
        if lacking:
            return {"outcome": "not applicable", "reason": lacking}
        fields: Dict[str, Any] = {"outcome": "passed"}
        try:
            fields.update(way.run(context))
        except NotApplicable as why:
            fields = {"outcome": "not applicable", "reason": str(why)}
        except FaultFound as found:
            fields = {"outcome": "failed", "fault": found.fault}
        except Exception as error:
            if context.team.ranks > 1:
                raise  # nobody knows where the other ranks are
            traceback.print_exc()
            fields = {"outcome": "failed", "reason": exception_text(error)}
        fields.setdefault("ranks", context.team.ranks)
        return {**context.measured, **fields, "notes": context.notes[:MAXIMUM_NOTES]}

    def tell(self, name: str, precision: str, fields: Dict[str, Any]) -> None:
        if self.rank.rank == 0:
            self.rank.tell("trained", **fitting(dict(fields, way=name, precision=precision)))

    def tidy(self) -> None:
        """Let go of the cell's model before the next one's memory is measured."""
        import gc

        gc.collect()
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()


def exception_text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:MAXIMUM_TEXT]


def fitting(fields: Dict[str, Any]) -> Dict[str, Any]:
    """The fields as a message that fits one line: devices beyond the first are left out, then memory, then notes."""
    fields["devices"] = list(fields.get("devices", ()))[:NAMED_DEVICES]
    texts = [(fields, "reason"), (fields.get("fault") or {}, "seen"), (fields.get("fault") or {}, "wanted")]
    for holder, name in texts:
        holder[name] = str(holder.get(name, ""))[:MAXIMUM_TEXT]
    for name in ("peak_bytes", "devices", "notes"):
        while len(json.dumps(fields)) > LINE_BYTES - 100 and fields.get(name):
            kept = len(fields[name]) // 2
            fields[name] = (
                dict(list(fields[name].items())[:kept]) if isinstance(fields[name], dict) else fields[name][:kept]
            )
    for holder, name in texts:
        while len(json.dumps(fields)) > LINE_BYTES - 100 and holder[name]:
            holder[name] = holder[name][: len(holder[name]) // 2]
    return fields
