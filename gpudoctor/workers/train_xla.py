"""A TPU through torch_xla 2.x: torch_xla.launch, xm.reduce_gradients, one process or thread a device.

Written from torch_xla's documentation and source (2.9); tried on one CPU device of it, and never on a TPU. torch_xla is
never imported where the doctor goes on: a process of its own launches the ranks, for the runtime starts once and stays.
"""

import contextlib
import glob
import importlib
import json
import multiprocessing
import os
import time
import traceback
from threading import Lock
from typing import Any, Dict, List, Tuple

from train_children import LEAVING_SECONDS, end_with, ending, error_text, taken_over
from train_packages import installed, numbers
from train_samples import torch_order
from train_team import Team
from train_watch import Scale, Surroundings, Watch
from train_way import Context, Way

DISTRIBUTIONS = ("torch-xla",)
OLDEST = (2, 3)  # the first with torch_xla.launch
CHIPS = "/dev/accel[0-9]*"  # TPU v2 to v4; later ones are behind vfio
OF_A_LAUNCH = ("TORCHELASTIC_", "PET_", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_", "MASTER_")
START_SECONDS = 300.0
"""The first step of each graph is compiled, which the processes can say nothing of."""
_making = Lock()  # ranks may be threads of one process, and torch's random numbers are the process's


class Xla(Way):
    """What torch_xla.launch starts: as many ranks as it finds devices."""

    name = "xla"
    one_process = True

    def lacking(self, context: Context) -> str:
        name, version = installed(DISTRIBUTIONS)
        if not name:
            return "torch_xla is not installed; on a TPU VM: pip install torch_xla[tpu]"
        if numbers(version) < OLDEST:
            return f"torch_xla {version} is older than 2.3, the first with torch_xla.launch"
        torch_version = str(context.torch.__version__)
        if numbers(version) != numbers(torch_version):
            return (
                f"torch_xla {version} is made for torch {'.'.join(map(str, numbers(version)))}; this is {torch_version}"
            )
        if "PJRT_DEVICE" not in os.environ and not glob.glob(CHIPS) and "TPU_ACCELERATOR_TYPE" not in os.environ:
            return "no TPU is here (no /dev/accel*); with PJRT_DEVICE=CPU torch_xla is tried on the CPU"
        if context.precision == "fp16":
            return "fp16 on an XLA device: a TPU computes in bf16"
        return ""

    def run(self, context: Context) -> Dict[str, Any]:
        context.enter("start of processes")
        with Surroundings(OF_A_LAUNCH):
            return Launched(context).follow()


class Launched:
    """The process that calls torch_xla.launch, and what its ranks write into a pipe: one JSON object a line."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.phases: Dict[int, str] = {}
        self.reading, self.writing = os.pipe()
        wish = {"launch": context.launch, "precision": context.precision, "parent": os.getpid(), "pipe": self.writing}
        self.process = multiprocessing.get_context("spawn").Process(target=launcher, args=(wish,))

    def follow(self) -> Dict[str, Any]:
        import select  # here, for Windows knows it for sockets only

        outcome: Dict[str, Any] = {}
        held = b""
        try:
            self.process.start()
            last = time.monotonic()
            while True:
                alive = self.process.is_alive()
                ready, _, _ = select.select([self.reading], [], [], 0.2 if alive else 0.0)
                if ready:
                    *lines, held = (held + os.read(self.reading, 65536)).split(b"\n")
                    for line in lines:
                        outcome = self._take(json.loads(line.decode("utf-8"))) or outcome
                    last = time.monotonic()
                elif not alive:
                    break
                if time.monotonic() - last > max(START_SECONDS, self.context.launch["timeout"]):
                    raise RuntimeError(f"the processes of torch_xla.launch do not get on ({self._where()})")
        finally:
            self.end()
        if not outcome:
            code = self.process.exitcode
            raise RuntimeError(f"torch_xla.launch ended with {code} and without a result ({self._where()})")
        kind = str(outcome.pop("kind"))
        return taken_over(self.context, kind, outcome.get("text") if kind == "not applicable" else outcome)

    def end(self) -> None:
        """No process of the cell is left: the ranks end with the launching process."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join(LEAVING_SECONDS)
        os.close(self.reading)
        os.close(self.writing)

    def _take(self, said: Dict[str, Any]) -> Dict[str, Any]:
        rank = int(said.pop("rank", 0))
        if said["kind"] == "phase":
            self.phases[rank] = str(said["text"])
            if rank == 0:
                self.context.enter(self.phases[0])
        elif said["kind"] == "error":
            raise RuntimeError(
                f"rank {rank} of torch_xla.launch, in {self.phases.get(rank, 'its start')!r}: {said['text']}"
            )
        elif rank == 0:
            return said
        return {}

    def _where(self) -> str:
        return ", ".join(f"{rank}: {phase}" for rank, phase in sorted(self.phases.items())[:8]) or "no rank has begun"


class Pipe:
    """Written to by processes that inherit nothing: through /proc, which shows the pipe of the rank program."""

    def __init__(self, wish: Dict[str, Any]) -> None:
        self.file = os.open(f"/proc/{wish['parent']}/fd/{wish['pipe']}", os.O_WRONLY | os.O_CLOEXEC)

    def say(self, rank: int, kind: str, **fields: Any) -> None:
        os.write(self.file, json.dumps(dict(fields, rank=rank, kind=kind)).encode("utf-8") + b"\n")


def launcher(wish: Dict[str, Any]) -> None:
    """The process between: has torch_xla start the ranks."""
    end_with(int(wish["parent"]))
    pipe = Pipe(wish)
    pipe.say(0, "phase", text="import torch_xla")
    try:
        torch_xla = importlib.import_module("torch_xla")
        torch_xla.launch(ranks_main, args=(wish, os.getpid()))
    except BaseException as error:
        traceback.print_exc()
        pipe.say(0, "error", text=error_text(error))
        os._exit(1)
    os._exit(0)


def ranks_main(ordinal: int, wish: Dict[str, Any], parent: int) -> None:
    """One rank: a process of torch_xla's pool, or a thread of it where a process has several devices."""
    if os.getpid() != parent:
        end_with(parent)
    pipe = Pipe(wish)
    try:
        kind, said = trained(ordinal, wish, pipe)
    except Exception as error:
        traceback.print_exc()
        pipe.say(ordinal, "error", text=error_text(error))
        raise
    pipe.say(ordinal, kind, **(said if isinstance(said, dict) else {"text": said}))


def trained(ordinal: int, wish: Dict[str, Any], pipe: Pipe) -> Tuple[str, Any]:
    import torch

    torch_xla = importlib.import_module("torch_xla")
    xm = importlib.import_module("torch_xla.core.xla_model")
    runtime = importlib.import_module("torch_xla.runtime")
    with contextlib.suppress(ImportError, AttributeError):  # 2.6; a TPU multiplies float32 in bf16 without it
        importlib.import_module("torch_xla.backends").set_mat_mul_precision("highest")
    device, ranks = torch_xla.device(), int(runtime.world_size())
    team = HostTeam(torch, xm, ordinal, ranks)

    def enter(phase: str) -> None:
        pipe.say(ordinal, "phase", text=phase.partition(" ")[2].partition(" ")[2])

    launch, precision = wish["launch"], str(wish["precision"])
    # What is compared is compared on the CPU; `device` is where the training is.
    context = Context(torch, launch, Xla.name, precision, torch.device("cpu"), team, enter)
    kind = str(xm.xla_device_hw(device))
    context.note(f"torch_xla {torch_xla.__version__}: {ranks} x {kind}")
    return ending(context, lambda: Loop(context, torch_xla, xm, device, f"{kind}:{ordinal}").run())


class HostTeam(Team):
    """Exchanges through torch_xla's rendezvous, in bytes: a TPU rounds float64, and emulates int64."""

    def __init__(self, torch: Any, xm: Any, rank: int, ranks: int) -> None:
        super().__init__(torch, rank, ranks, torch.device("cpu"))
        self.xm = xm
        self.number = 0

    def _all(self, own: Any) -> List[Any]:
        if self.ranks == 1:
            return [own]
        self.number += 1
        numbers_text = json.dumps(own.tolist()).encode("ascii")  # Python's floats survive it exactly
        said = self.xm.rendezvous(f"gpudoctor {self.number}", numbers_text)
        return [self.torch.tensor(json.loads(bytes(one)), dtype=own.dtype).reshape(own.shape) for one in said]


class XlaWatch(Watch):
    """Compares on the CPU what is on an XLA device."""

    xla_name = ""

    def begin(self) -> None:
        self.context.enter("wrapper")
        self.verifier.wrapped(self._parameters())

    def held(self, tensor: Any) -> Any:
        return None if tensor is None else tensor.cpu()

    def device_name(self) -> str:
        return self.xla_name


class Loop:
    """The loop that torch_xla's documentation shows, watched."""

    def __init__(self, context: Context, torch_xla: Any, xm: Any, device: Any, name: str) -> None:
        self.context = context
        self.torch_xla = torch_xla
        self.xm = xm
        self.device = device
        self.scale = Scale(context.plan, context.precision, context.team.ranks)
        self.seed = int(context.plan["seed"])
        order = torch_order(context.torch, self.scale.samples, self.seed)
        with _making:
            self.watch = XlaWatch(context, self.scale, order)
        self.watch.xla_name = name

    def run(self) -> Dict[str, Any]:
        import train_net
        from train_reference import optimizer

        context, torch, watch = self.context, self.context.torch, self.watch
        context.enter("model")
        with _making:
            torch.manual_seed(self.seed)
            net = train_net.Net()
        watch.unwrapped(net)
        context.enter("model to the device")
        net.to(self.device)
        watch.begin()
        stepping = optimizer(torch, net.parameters())
        samples = train_net.Samples(self.scale.samples)
        team = context.team
        sampler = torch.utils.data.DistributedSampler(
            samples, num_replicas=team.ranks, rank=team.rank, shuffle=True, seed=self.seed
        )
        loader = torch.utils.data.DataLoader(samples, batch_size=self.scale.batch, sampler=sampler)
        for epoch in range(self.scale.epochs):
            sampler.set_epoch(epoch)
            for batch in loader:
                if watch.step >= self.scale.steps:
                    break
                watch.took(epoch, [int(number) for number in batch[2]])
                stepping.zero_grad()
                with self.autocast():
                    outputs = net(batch[0].to(self.device))
                watch.forward(train_net.loss_of(outputs, batch[1].to(self.device))).backward()
                self.xm.reduce_gradients(stepping)
                self.torch_xla.sync()
                watch.before_optimizer()
                stepping.step()
                self.torch_xla.sync()
                watch.after_optimizer()
            watch.end_epoch(epoch)
        return watch.finish()

    def autocast(self) -> Any:
        if self.context.precision == "fp32":
            return contextlib.nullcontext()
        return self.context.torch.autocast("xla", dtype=self.context.torch.bfloat16)
