"""The agent's side of a launch: start torchrun, follow its ranks, collect evidence, end them all, say how it ended.

Each launch has a thread of its own that waits for torchrun's end or an order to stop, and then does everything that
follows, so that no two threads end the same launch. `Ended` is sent when no process of the launch is left.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from gpudoctor import active
from gpudoctor.fleet import post_mortem, torchrun
from gpudoctor.fleet.followed import Followed
from gpudoctor.fleet.messages import Ended, Launch, Reply, Run, Said, Stop
from gpudoctor.read.interpreter import NoSuchInterpreter, choose
from gpudoctor.read.process import ProcStat, descendants, end, oom_kills, seen

POLL_SECONDS = 0.1
TORCHRUN_AFTER_A_DEATH_SECONDS = 3.0
"""torchrun may take this long to end after one of its ranks has: it waits 30 s for a rank that is stopped."""
GONE_SECONDS = 1.0
"""Killed processes vanish within this, or sleep in the kernel."""
END_ALL_SECONDS = 4.0

Send = Callable[[Reply], None]


class Ranks:
    """The launches of this node. `send` is called from several threads, one reply at a time, and must not raise.

    `run` belongs in the main thread: the kernel ends a child whose parent's *thread* has ended.
    """

    def __init__(self, node: int, send: Send, *, environment: Mapping[str, str] | None = None) -> None:
        self._node = node
        self._send_lock = threading.Lock()
        self._reply = send
        self._environment = dict(os.environ if environment is None else environment)
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._ended: set[str] = set()

    def run(self, order: Run) -> None:
        """Start the ranks; `Said` and `Ended` follow. Returns at once."""
        launch = order.launch
        with self._lock:
            if launch.id in self._running or launch.id in self._ended:
                return self._refuse(order.number, launch.id, f"launch {launch.id} was ordered twice")
        try:
            python = order.python or choose(None, self._environment).path
            running = _Running(launch, self._node, order.number, python, self._environment, self._send, self._forget)
        except (OSError, ValueError, NoSuchInterpreter) as error:
            return self._refuse(order.number, launch.id, f"torchrun could not be started: {error}")
        with self._lock:
            self._running[launch.id] = running
        running.watch()
        return None

    def stop(self, order: Stop) -> None:
        """Have a launch stopped; its `Ended` follows. Nothing more is said of one that has ended."""
        with self._lock:
            running = self._running.get(order.launch)
            known = order.launch in self._ended
        if running is not None:
            running.stop(order.number, evidence=order.evidence)
        elif not known:
            self._refuse(order.number, order.launch, f"launch {order.launch} was never started here")

    def end_all(self) -> None:
        """End every launch without evidence, and wait until its processes are gone: the agent leaves."""
        with self._lock:
            running = list(self._running.values())
        for one in running:
            one.stop(0, evidence=False)
        deadline = time.monotonic() + END_ALL_SECONDS
        for one in running:
            one.join(max(0.0, deadline - time.monotonic()))

    def _send(self, reply: Reply) -> None:
        with self._send_lock:
            self._reply(reply)

    def _refuse(self, number: int, launch: str, why: str) -> None:
        self._send(Ended(number=number, launch=launch, how="not started", error=why))

    def _forget(self, launch: str) -> None:
        with self._lock:
            self._running.pop(launch, None)
            self._ended.add(launch)


class _Running:
    """One launch on this node."""

    def __init__(
        self,
        launch: Launch,
        node: int,
        number: int,
        python: str,
        environment: Mapping[str, str],
        send: Send,
        forget: Callable[[str], None],
    ) -> None:
        self._launch = launch
        self._node = node
        self._number = number
        self._send = send
        self._forget = forget
        self._evidence = False
        self._stopped = threading.Event()
        self._oom_kills = oom_kills()
        self._ranks = Followed(self._said)
        self._is_head = bool(launch.nodes) and launch.nodes[0] == node
        self._child = active.start(
            f"torchrun of launch {launch.id}",
            torchrun.command(launch, node, python),
            timeout=float("inf"),  # the head decides, by progress
            environment=torchrun.environment(launch, environment),
            on_line=self._ranks.hear,
        )
        self._process = seen(self._child.process.pid)
        self._thread = threading.Thread(target=self._follow, name=f"launch {launch.id}", daemon=True)

    def watch(self) -> None:
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: a limit of processes or memory
            self._finish("not started", "no thread can be started to watch torchrun (ulimit -u, pids.max)")

    def stop(self, number: int, *, evidence: bool) -> None:
        if not self._stopped.is_set():
            self._number, self._evidence = number or self._number, evidence
            self._stopped.set()

    def join(self, seconds: float) -> None:
        with contextlib.suppress(RuntimeError):  # it was never started
            self._thread.join(seconds)

    def _said(self, rank: int, message: msgspec.Raw) -> None:
        self._send(Said(number=self._number, launch=self._launch.id, rank=rank, message=message))

    def _follow(self) -> None:
        died_at: float | None = None
        while not self._stopped.wait(POLL_SECONDS):
            if self._child.process.poll() is not None:
                break
            if died_at is None and self._ranks.one_died():
                died_at = time.monotonic()
            if died_at is not None and time.monotonic() - died_at > TORCHRUN_AFTER_A_DEATH_SECONDS:
                self._evidence = True
                break
        code = self._child.process.poll()
        if code is None:
            self._finish("stopped" if self._stopped.is_set() else "failed")
        else:
            self._finish("done" if code == 0 else "failed")

    def _finish(self, how: Literal["done", "failed", "stopped", "not started"], why: str = "") -> None:
        evidence = None
        sights: dict[int, post_mortem.LastSight] = {}
        family = {process.pid: process for process in self._ranks.processes()}
        if self._child.process.poll() is None:
            sights = post_mortem.last_sights(self._ranks)
            if self._evidence:
                evidence = post_mortem.look(self._launch, self._node, self._ranks, self._process)
            if self._child.process.poll() is None:  # once it is reaped, its number may be somebody else's
                family |= {process.pid: process for process in descendants(self._child.process.pid)}
        reply = self._child.end()
        family |= {process.pid: process for process in self._ranks.processes()}
        stuck = end(family.values(), patience=GONE_SECONDS)
        ranks = post_mortem.states(self._ranks, sights, reply, is_head=self._is_head)
        killed = _difference(self._oom_kills, oom_kills())
        evidence = post_mortem.with_the_dead(evidence, self._ranks, ranks, killed)
        self._ranks.close()
        ended = Ended(
            number=self._number,
            launch=self._launch.id,
            how=how,
            ranks=ranks,
            error="; ".join(filter(None, [why or post_mortem.launcher_error(reply, ranks), _stuck(stuck, reply)])),
            evidence=msgspec.Raw(post_mortem.encoded(evidence)),
        )
        self._forget(self._launch.id)
        self._send(ended)


def _stuck(left: tuple[ProcStat, ...], reply: active.ChildReply) -> str:
    numbers = [process.pid for process in left]
    if reply.stuck and reply.pid not in numbers:
        numbers.append(reply.pid)
    if not numbers:
        return ""
    names = ", ".join(map(str, sorted(numbers)))
    word = "process" if len(numbers) == 1 else "processes"
    return f"{word} {names} cannot be killed: still in the kernel {GONE_SECONDS:g} s after SIGKILL"


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)
