"""Nodes of a Slurm allocation: one agent a node, started by `srun`, which also carries the lines.

Everything that reaches the tasks is srun's standard input; what they say comes back labelled with the task's number.
The options are those of Slurm 20.11 (`--overlap`) and later; tried with 22.05.8 (tests/test_fleet_slurm.py).
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Literal

import msgspec

from gpudoctor import programs
from gpudoctor.active import own_module, signal_name
from gpudoctor.errors import BadInput
from gpudoctor.fleet.fleet import Fleet, Lost, LostKind, Node
from gpudoctor.fleet.lines import TooLong, lines_of, write_all
from gpudoctor.fleet.messages import MAXIMUM_LINE_BYTES, Bye, encode
from gpudoctor.fleet.slurm_lines import LONGEST_LABEL, Assembly, Placed, StepEnded, task_failure
from gpudoctor.fleet.ssh_errors import printable
from gpudoctor.lazy import lazy_re

Situation = Literal["none", "allocation", "step"]

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Step numbers from here on are no steps of srun: batch script, interactive shell of salloc, extern (slurm.h)."""

WORDS_SECONDS = 2.0
"""How much later than its end a task's last words may come."""
CLOSE_SECONDS = 1.0
"""How long srun may take to end after its standard input was closed, and again after each signal."""

SQUEUE_SECONDS = 10.0

OPTIONS = (
    "--ntasks-per-node=1",
    "--overlap",  # a step that holds the allocation (a shell by `srun --pty`) must not keep ours waiting; 20.11
    "--mem=0",  # all that the job has; a step that asks for it again would wait
    "--cpu-bind=none",  # our rank's threads may use every CPU that the job has
    "--mpi=none",  # no PMI server: torchrun needs none
    "--input=all",
    "--label",
    "--kill-on-bad-exit=0",  # an agent that dies is a finding, and the others go on
    "--wait=0",  # nor after a while, as slurm.conf's WaitTime may say
    "--no-kill",  # nor when a node fails
    "--export=ALL",  # also where the job was submitted with --export=NONE
    "--job-name=gpudoctor",
)
"""No --unbuffered: it puts a pseudo terminal between, which echoes and changes line ends."""

KEPT = lazy_re(r"SLURM_(JOB_?ID|JOB_UID|JOB_USER|JOB_NODELIST|NODELIST|CONF|CLUSTER_NAME|CLUSTERS|WORKING_CLUSTER)")
"""Of the variables that srun reads as options (`man srun`, INPUT ENVIRONMENT VARIABLES) only these are meant for our
step: SLURM_NTASKS_PER_NODE, SLURM_MEM_PER_CPU, SLURM_GPUS_PER_TASK and the like describe the user's own."""

TASK = r"""
printf 'gpudoctor-task %s %s\n' "$SLURMD_NODENAME" "$SLURM_STEP_ID"
if [ -x "$1" ] && [ -r "$2" ]; then
  "$1" -c "$3" --node "$SLURM_PROCID"
elif command -v gpudoctor >/dev/null 2>&1; then
  gpudoctor agent --node "$SLURM_PROCID"
else
  (exit 127)
fi
printf 'gpudoctor-ended %s\n' "$?"
"""
"""What each task runs: the head's own interpreter where the node has it, else the gpudoctor on PATH."""


class NoSlurm(BadInput):
    """The allocation cannot be used as asked; the message is one line for the user."""


def situation(environment: Mapping[str, str]) -> Situation:
    """Where in Slurm this process runs.

    "allocation": in the shell of salloc, an sbatch script, or a step of one task (`srun --pty bash`): we are the head.
    "step": one of several tasks that the user's own srun started, each of which runs this program.

    SLURM_PROCID tells nothing: in a batch script it is 0 as well (facts measured on 22.05.8). A batch script and the
    shell of salloc have no step number, or a special one.
    """
    if not environment.get("SLURM_JOB_ID", "").isdecimal():
        return "none"
    step = environment.get("SLURM_STEP_ID", "")
    if not step.isdecimal() or int(step) >= FIRST_SPECIAL_STEP:
        return "allocation"
    if "SLURM_PTY_PORT" in environment:  # srun --pty: a shell for a person, on the first of the step's nodes
        return "allocation"
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "")
    return "step" if tasks.isdecimal() and int(tasks) > 1 else "allocation"


def node_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the allocation's nodes. Raises `NoSlurm` when Slurm's list cannot be read."""
    from gpudoctor.fleet.hosts import BadHosts, from_hosts

    folded = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST", "")
    if not folded.strip():
        raise NoSlurm("SLURM_JOB_ID is set, but SLURM_JOB_NODELIST names no node")
    try:
        return tuple(node.name for node in from_hosts(folded))
    except BadHosts as error:
        raise NoSlurm(f"SLURM_JOB_NODELIST={folded[:80]!r} cannot be read: {error}") from None


def job_environment(job: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as inside that running job of this user, for `SlurmFleet.inside`. Raises `NoSlurm`."""
    try:
        asked = subprocess.run(
            ["squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T %N"],
            env=programs.environment(step_environment(environment)),
            cwd=programs.ELSEWHERE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SQUEUE_SECONDS,
            check=False,
        )
    except OSError as error:
        raise NoSlurm(f"squeue cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise NoSlurm(f"squeue gave no answer within {SQUEUE_SECONDS:g} s; slurmctld may be down") from None
    words = asked.stdout.split()
    if asked.returncode or not words:
        said = asked.stderr.strip().splitlines()
        raise NoSlurm(f"Slurm knows no job {job}" + (f": {printable(said[-1])[:300]}" if said else ""))
    if words[0] not in ("RUNNING", "COMPLETING") or len(words) < 2:
        raise NoSlurm(f"Slurm job {job} is {words[0]}: it has no processes to look at")
    return {**step_environment(environment), "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": words[1]}


def step_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for srun: without the options that the user's job has given to its own steps."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("SLURM_", "SRUN_", "SLURMD_")) or KEPT.fullmatch(name)
    }


class SlurmFleet(Fleet):
    """Agents on the nodes of the allocation that this process runs in."""

    how = "srun"

    def __init__(
        self,
        nodes: tuple[Node, ...],
        *,
        nodelist: tuple[str, ...] = (),
        srun: tuple[str, ...] = ("srun",),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`nodelist`: take these of the allocation's nodes and no others. Raises `NoSlurm` without an srun."""
        super().__init__(nodes)
        self._steps: set[str] = set()
        self._names = {node.name: index for index, node in enumerate(self.nodes)}
        self._placed: dict[int, str] = {}
        self._environment = programs.environment(step_environment(os.environ if environment is None else environment))
        self._said: deque[str] = deque(maxlen=50)  # srun's own words
        self._task_said: dict[int, str] = {}  # each task's last line on standard error
        self._word = threading.Condition()
        self._patience: float | None = None  # until when words are waited for
        self._over: set[int] = set()
        self._losing = threading.Lock()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        root = Path(__file__).resolve().parent.parent
        python, _, code = own_module("gpudoctor.fleet.agent")
        count = len(self.nodes)
        wanted = (f"--nodes={count}", f"--ntasks={count}", *([f"--nodelist={','.join(nodelist)}"] if nodelist else []))
        task = ("sh", "-c", TASK, "gpudoctor", python, str(root / "__init__.py"), code)
        try:
            self._process = subprocess.Popen(
                [*srun, *wanted, *OPTIONS, *task],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=self._environment,
                cwd=programs.ELSEWHERE,
                start_new_session=True,  # Ctrl-C is ours to hear; srun would ask for a second one
            )
        except OSError as error:
            raise NoSlurm(f"SLURM_JOB_ID is set, but srun cannot be run: {error.strerror}") from None
        assert self._process.stdout is not None and self._process.stderr is not None
        self._errors_read = threading.Thread(target=self._overhear, args=(self._process.stderr,), daemon=True)
        listening = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._threads = (self._errors_read, listening, threading.Thread(target=self._write, daemon=True))
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "SlurmFleet":
        return self

    @classmethod
    def inside(
        cls,
        nodes: int = 0,
        *,
        exclude: Collection[str] = (),
        srun: tuple[str, ...] = ("srun",),
        environment: Mapping[str, str] | None = None,
    ) -> "SlurmFleet":
        """The fleet of the allocation that this process is in. Raises `NoSlurm`.

        nodes: only so many of its nodes, 0 for all; exclude: without these.
        """
        environment = os.environ if environment is None else environment
        every = node_names(environment)
        job = environment.get("SLURM_JOB_ID", "?")
        if strangers := [name for name in exclude if name not in every]:
            raise NoSlurm(f"--exclude {','.join(strangers)}: Slurm job {job} has no such node ({', '.join(every)})")
        left = tuple(name for name in every if name not in exclude)
        if not left:
            raise NoSlurm(f"--exclude leaves no node of Slurm job {job} ({', '.join(every)})")
        if nodes > len(left):
            raise NoSlurm(f"--nodes {nodes}: Slurm job {job} has {len(left)} ({', '.join(left)})")
        taken = left[:nodes] if nodes else left
        nodelist = taken if len(taken) < len(every) else ()
        return cls(tuple(Node(name) for name in taken), nodelist=nodelist, srun=srun, environment=environment)

    # ------------------------------------------------------------ the agents' side

    @staticmethod
    def _lines(stream: IO[bytes]) -> Iterator[bytes]:
        with contextlib.suppress(OSError, ValueError, TooLong):
            yield from lines_of(stream.fileno())

    def _listen(self, stream: IO[bytes]) -> None:
        """Take what srun prints: each line begins with the task's number."""
        assembly = Assembly(MAXIMUM_LINE_BYTES)
        for line in self._lines(stream):
            for task, what in assembly.feed(line):
                if not 0 <= task < len(self.nodes):
                    continue
                if isinstance(what, Placed):
                    self._place(task, what)
                elif isinstance(what, StepEnded):
                    self._end(task, what.status)
                else:
                    self.heard(task, what)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        self._errors_read.join(CLOSE_SECONDS)  # what srun said last is why
        last = self._said[-1] if self._said else f"srun ended with exit status {self._process.returncode}"
        for node in range(len(self.nodes)):
            self._lose(node, "scheduler", last)

    def _place(self, task: int, placed: Placed) -> None:
        """Slurm decides which task runs where; the list of names that we began with is only likely.

        Our script says it first. What a task says later may be anybody's; one that names no node of ours, or another
        task's, keeps the name that was likely; and where tasks name several steps, none is ever cancelled.
        """
        if task in self._placed or placed.node not in self._names or placed.node in self._placed.values():
            return
        self._placed[task] = placed.node
        left = iter(sorted(self._names.keys() - set(self._placed.values()), key=self._names.__getitem__))
        self.nodes = tuple(
            msgspec.structs.replace(node, name=self._placed.get(index) or next(left))
            for index, node in enumerate(self.nodes)
        )
        self._steps.add(f"{self._environment.get('SLURM_JOB_ID', '')}.{placed.step}")

    @property
    def step(self) -> str:
        """ "JOB.STEP", once a task has said it; empty where they do not agree."""
        return next(iter(self._steps)) if len(self._steps) == 1 else ""

    def _end(self, task: int, status: int) -> None:
        said = self._words_of(task) if 0 < status <= 128 else self._task_said.get(task, "")
        if status == 127 and not said:
            detail = f"neither {sys.executable} nor a gpudoctor on PATH can be run there"
            self._lose(task, "gpudoctor missing", detail)
        elif status > 128:
            self._lose(task, "connection lost", f"gpudoctor was ended there by {signal_name(status - 128)}")
        elif status:
            self._lose(task, "gpudoctor failed", said or f"exit status {status}")
        else:
            self._lose(task, "connection lost", said or "gpudoctor has ended there")

    def _words_of(self, task: int) -> str:
        """What it said on standard error, which another thread reads: a moment later than its end, it may be. All that
        have failed without a word wait no longer than one of them."""
        with self._word:
            self._patience = self._patience or time.monotonic() + WORDS_SECONDS
            self._word.wait_for(lambda: task in self._task_said, max(0.0, self._patience - time.monotonic()))
            return self._task_said.get(task, "")

    def _overhear(self, stream: IO[bytes]) -> None:
        """Take srun's standard error: its own words, and those of the tasks with their number."""
        for raw in self._lines(stream):
            line = printable(raw.decode("utf-8", "replace"))
            label, colon, rest = line.partition(":")
            if colon and label.isdecimal():
                if rest.strip() and len(label) <= LONGEST_LABEL and int(label) < len(self.nodes):
                    with self._word:
                        self._task_said[int(label)] = rest.strip()[:300]
                        self._word.notify_all()
                continue
            if not line:
                continue
            failed = task_failure(line)
            if failed is None:
                self._said.append(line.removeprefix("srun: ").removeprefix("error: ")[:300])
                continue
            for task in failed.tasks:
                if 0 <= task < len(self.nodes):
                    self._lose(task, "connection lost", f"srun: {failed.reason}")

    def _lose(self, task: int, kind: LostKind, detail: str) -> None:
        with self._losing:
            if task in self._over:
                return
            self._over.add(task)
        self.connection_over(task, Lost(kind, detail))

    # ------------------------------------------------------------ the head's side

    def write(self, line: bytes) -> None:
        self._outgoing.put(line)

    def _write(self) -> None:
        """In a thread: srun reads no faster than the slowest node takes it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # srun has ended, which `_listen` tells
            while (line := self._outgoing.get()) is not None:
                write_all(self._process.stdin.fileno(), line)
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """End the step: the agents end by themselves at the end of their input, srun with them."""
        self.write(encode(Bye()))
        self._outgoing.put(None)
        if not self._ends():
            self._process.send_signal(signal.SIGTERM)  # srun ends its step
            if not self._ends():
                self._cancel()
                self._process.kill()
                if not self._ends():  # it sleeps in the kernel, on a dead file system for example
                    self._process.returncode = -signal.SIGKILL  # or Popen warns of it when it is collected
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None and not any(thread.is_alive() for thread in self._threads):
                stream.close()

    def _ends(self) -> bool:
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _cancel(self) -> None:
        """Have Slurm end our step; never the job, which is the user's."""
        if re.fullmatch(r"\d+\.\d+", self.step) is None:
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["scancel", "--signal=KILL", self.step],
                env=self._environment,
                cwd=programs.ELSEWHERE,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=5,
                check=False,
            )
