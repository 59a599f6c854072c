"""A job of tests/lab/hangs on NCCL, and what gpudoctor says of it: while it stands, and after its time-out.

    for row in run("sleeps", Way("plain"), Wheels.of("2.14.1")):
        print(row.view, row.state, row.first)

`Way` says how the job is started; each start is looked at in several views:

| view | |
|---|---|
| bare | `hang`, as on the host: NVML names the pids of the ranks |
| container | `hang`, NVML names none |
| explain | the log, once the time-out has ended the job |
| dumps | `hang --dumps` of what the ranks have written at the time-out |
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.lab import machines, warm
from tests.lab.hangs.on_gpus import EVERY
from tests.lab.hangs.training import Running, Scenario, running
from tests.lab.nccl import standins, wheels
from tests.lab.nvidia import Machine, fake_nvidia
from tests.lab.torch_nccl import scripts

LIMIT = 45
"""Seconds of the group's time-out: two looks must be over before it."""
ENDS_WITHIN = 40
"""Seconds after it in which a job ends, or it does not end by itself."""
TELLS_WITHIN = 10.0
LOOK = 240.0
KNOWS_ARM = ("early_continue", "order_of_metrics", "different_shapes", "different_groups", "holds_gil")
View = Literal["bare", "container", "explain", "dumps"]
WAYS: dict[str, dict[str, str]] = {
    "plain": {},
    "pipe": {},
    "off": {"TORCH_FR_BUFFER_SIZE": "0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"},
    "arm": {},
    "detail": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
    "blocking": {"TORCH_NCCL_BLOCKING_WAIT": "1"},
    "desync": {
        "TORCH_NCCL_DESYNC_DEBUG": "1",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_BUFFER_SIZE": "2000",
    },
}
"""How a job is started: as torch comes, with its dump pipe, without its recorder, ..., with torch's own report of who
is behind, and a recorder also in releases that have none unless it is asked for."""


Cause = tuple[str, float, tuple[int, ...], int | None]


class Wheels(NamedTuple):
    """Where a release of torch is, with what stands in for what is below it."""

    site: Path
    standins: Path

    @classmethod
    def of(cls, release: str) -> "Wheels":
        site = wheels.torch(release)
        return cls(site, standins.for_torch(site))


class Row(NamedTuple):
    """One answer."""

    scenario: str
    way: str
    view: View
    healthy: bool
    state: str
    """Of the job, as `hang` says; "" from `explain`."""
    causes: list[Cause]
    """Name, certainty, ranks and line of each."""
    undecided: str
    seconds: float
    text: str
    """The first cause in words, or what went wrong with the run."""
    failed: bool = False
    """There is no answer: the run itself went wrong."""

    @property
    def first(self) -> str:
        return self.causes[0][0] if self.causes else ""

    @property
    def certainty(self) -> float:
        return self.causes[0][1] if self.causes else 0.0

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.causes[0][2] if self.causes else ()


def run(
    name: str,
    way: str,
    wheels_: Wheels,
    *,
    healthy: bool = False,
    limit: int = LIMIT,
    after: bool = True,
    live: Sequence[View] = ("bare", "container"),
    keep: Path | None = None,
    spares: bool = False,
) -> Iterator[Row]:
    """Every view of one start; with `keep` all that was written stays in a folder below it. `spares`: ranks that wait
    leave something of the processors to others, as driver.c tells."""
    scenario = EVERY[name]
    with contextlib.ExitStack() as stack:
        if keep:
            folder = keep / f"{way}{'-healthy' if healthy else ''}" / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpudoctor-torch-nccl-")))
        try:
            yield from views(scenario, way, wheels_, folder, healthy, limit, after, live, spares)
        except Exception as error:  # a run that fails is told, and the others go on
            text = f"{type(error).__name__}: {error}"
            yield Row(name, way, "bare", healthy, "", [], "", 0.0, text[-2000:], failed=True)


def views(
    scenario: Scenario,
    way: str,
    wheels_: Wheels,
    folder: Path,
    healthy: bool,
    limit: int,
    after: bool,
    live: Sequence[View],
    spares: bool,
) -> Iterator[Row]:
    programs = scripts.write(folder / "scripts", limit)
    with meeting_place() as place, fake_nvidia(machines.hgx_h100()) as around:
        variables = environment(wheels_, way, folder, place) | {"FAKE_NVIDIA_MACHINE": around["FAKE_NVIDIA_MACHINE"]}
        if spares:
            variables["FAKE_CUDA_SPARES"] = "1"
        arm = way == "arm"
        start = running(scenario, folder, healthy=healthy, arm=arm, environment=variables, scripts=programs)
        with contextlib.ExitStack() as stack:
            try:
                job = stack.enter_context(start)
            except TimeoutError:
                if way != "detail" or healthy:
                    raise
                job = None
            if job is not None and ranks_of(job):
                time.sleep(1.5)
                (folder / "spin").touch()  # from now on ranks wait as on a GPU: at 100 %
                time.sleep(0.5)
                for view in live:
                    yield hang_row(scenario, way, view, healthy, job, folder)
                (folder / "spin").unlink()
                if healthy or not after:
                    return
                wait_for_end(job, limit)
            elif way != "detail":  # which ends a job where its ranks come to different operations
                raise RuntimeError(f"no rank uses a GPU\n{job and job.output()}")
        yield explain_row(scenario, way, folder / f"{scenario.name}.log", folder)
        dumps = list((folder / "dumps").glob("nccl_trace_rank_*"))
        if dumps:
            yield dumps_row(scenario, way, folder / "dumps", folder)


def wait_for_end(job: Running, limit: int) -> None:
    """Until the time-out has ended it, as far as it does."""
    until = time.monotonic() + limit + ENDS_WITHIN
    while ranks_of(job) and time.monotonic() < until:
        time.sleep(0.5)
    until = time.monotonic() + TELLS_WITHIN  # its launcher writes down then who has failed
    while job.processes() and time.monotonic() < until:
        time.sleep(0.2)


@contextlib.contextmanager
def meeting_place() -> Iterator[Path]:
    """Where the ranks of a job exchange what they bring to a collective."""
    place = Path(tempfile.mkdtemp(prefix="gpudoctor-nccl-", dir="/dev/shm"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def environment(wheels_: Wheels, way: str, folder: Path, place: Path) -> dict[str, str]:
    (folder / "dumps").mkdir(exist_ok=True)
    forks = warm.of_torchrun().get("PYTHONPATH")  # one import of torch serves all ranks of torchrun
    variables = WAYS[way] | {
        "PYTHONPATH": ":".join([str(wheels_.site), *([forks] if forks else [])]),
        "LD_LIBRARY_PATH": str(wheels_.standins),
        "FAKE_CUDA_SPIN": str(folder / "spin"),
        "FAKE_NCCL_DIR": str(place),
        "FAKE_NCCL_SMALL": "0",  # the lab's tensors stand for those of a model, of which none is small
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_RAS_ADDR": f"localhost:{free_port()}",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1000",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(folder / "dumps" / "nccl_trace_rank_"),
    }
    if way == "pipe":
        variables["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = str(folder / "pipe_rank_")
    return variables


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def ranks_of(job: Running) -> dict[int, int]:
    """The ranks that use a GPU, by process id; what a rank has forked only looks as if it did."""
    found: dict[int, int] = {}
    for pid in job.processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ranks = [int(word[5:]) for word in words if word.startswith(b"RANK=")]
            if ranks and b"libcuda.so." in Path(f"/proc/{pid}/maps").read_bytes():
                found[pid] = ranks[0]
    return {pid: rank for pid, rank in found.items() if parent_of(pid) not in found}


def parent_of(pid: int) -> int:
    """0 of one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def machine_of(ranks: Mapping[int, int], view: View) -> Machine:
    """GPUs that spin in a kernel of NCCL: busy, with idle memory and little power."""
    machine = machines.hgx_h100()
    for pid, rank in ranks.items():
        seen: dict[str, str | int] = {"process.0": f"{pid} 629145600"} if view == "bare" else {}
        machine = machine.but_gpu(rank, busy=100, memory_used=700 << 20, sm_clock=1980, milliwatts=118_000, **seen)
    return machine


def gpudoctor(folder: Path, name: str, machine: Machine, *words: str) -> tuple[Any, float]:
    begin = time.monotonic()
    with fake_nvidia(machine) as variables:
        variables.pop("PYTHONPATH", None)
        command = [sys.executable, "-m", "gpudoctor", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=LOOK, check=False)
    (folder / f"{name}.json").write_text(done.stdout)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"gpudoctor {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout), round(time.monotonic() - begin, 1)


def hang_row(scenario: Scenario, way: str, view: View, healthy: bool, job: Running, folder: Path) -> Row:
    machine = machine_of(ranks_of(job), view)
    answer, seconds = gpudoctor(folder, f"hang-{view}", machine, "hang", "--pid", str(job.pid))
    return row_of_job(scenario, way, view, healthy, answer, seconds)


def dumps_row(scenario: Scenario, way: str, dumps: Path, folder: Path) -> Row:
    answer, seconds = gpudoctor(folder, "dumps", machines.hgx_h100(), "hang", "--dumps", str(dumps))
    return row_of_job(scenario, way, "dumps", False, answer, seconds)


def row_of_job(scenario: Scenario, way: str, view: View, healthy: bool, answer: Any, seconds: float) -> Row:
    if view == "dumps":  # jobs that live on this machine are told too
        answer["jobs"] = [job for job in answer["jobs"] if job["ranks"] and not any(row["pid"] for row in job["ranks"])]
    if len(answer["jobs"]) != 1:
        text = f"{len(answer['jobs'])} jobs are seen"
        return Row(scenario.name, way, view, healthy, "", [], "", seconds, text, failed=True)
    (job,) = answer["jobs"]
    causes: list[Cause] = [
        (each["cause"], each["confidence"], tuple(each["ranks"]), (each.get("where") or {}).get("line"))
        for each in job["causes"]
    ]
    text = job["causes"][0]["summary"] if job["causes"] else ""
    return Row(scenario.name, way, view, healthy, job["state"], causes, job["undecided"] or "", seconds, text)


def explain_row(scenario: Scenario, way: str, log: Path, folder: Path) -> Row:
    answer, seconds = gpudoctor(folder, "explain", machines.hgx_h100(), "explain", str(log))
    causes: list[Cause] = [
        (each.get("cause") or each.get("id"), each.get("confidence", 1.0), tuple(each.get("ranks", ())), None)
        for each in answer["causes"]
    ]
    text = answer["causes"][0].get("summary", "") if answer["causes"] else ""
    return Row(scenario.name, way, "explain", False, "", causes, answer["unknown"] or "", seconds, text)
