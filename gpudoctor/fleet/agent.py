"""The agent: what a node does for the head. Reads orders, writes replies, ends with the head and leaves nothing.

The main thread takes the orders, because children must be started from it (PR_SET_PDEATHSIG fires when the *thread*
that started a child ends). What takes long runs in a thread of its own, so that a `Ping` or a `Stop` never waits for
it. Nothing but msgspec is imported before the first order that needs more: 64 agents may start on two processors.
"""

import argparse
import contextlib
import errno
import getpass
import os
import platform
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import msgspec

from gpudoctor import __version__, threads
from gpudoctor.fleet import descriptors
from gpudoctor.fleet.lines import TooLong, lines_of, write_all
from gpudoctor.fleet.messages import (
    AnyOrder,
    Bye,
    Examine,
    FindRanks,
    Garbled,
    Hello,
    Listen,
    LookAt,
    Order,
    OrderFailed,
    Ping,
    Pong,
    Reach,
    Reply,
    Run,
    Stop,
    Unlisten,
    Watch,
    encode,
    order_from,
)

if TYPE_CHECKING:
    from gpudoctor.fleet.ports import Ports
    from gpudoctor.fleet.ranks import Ranks

SILENCE_SECONDS = 30.0
"""Without any order for so long the head is taken for lost (it pings every 5 s): its machine may have vanished
without closing the connection."""
LAST_WORDS_SECONDS = 1.0
"""How long the last replies may take to be written when the agent ends."""

LONGEST_ERROR = 2000
"""Characters that are told of what went wrong."""
MOST_UNREAD = 8
"""Orders read ahead; each may be as long as a line may be."""
MOST_AT_WORK = 32
"""Orders at work at a time, each with a thread and perhaps children; a head of ours has two or three."""

Write = Callable[[bytes], None]
Later = Callable[[], Reply | None]
"""What is left to do of an order, in a thread of its own."""


def serve(
    node: int,
    lines_in: Iterable[bytes],
    write: Write,
    *,
    silence: float = SILENCE_SECONDS,
    is_guest: bool = False,
    shows_jobs: bool = False,
) -> int:
    """Serve the head until it says Bye, its lines end, or nothing comes for `silence` seconds; the exit status.

    `lines_in` is iterated and `write` (one whole line a call) called in threads of their own; either may raise
    `OSError` when the connection is lost. To be called in the main thread. Whatever ends it, also KeyboardInterrupt,
    all children are ended and all ports closed. `is_guest`: this node has joined somebody's test, or with
    `shows_jobs` a look at a job that runs on both (`orders`).
    """
    agent = Agent(node, write, is_guest=is_guest, shows_jobs=shows_jobs)
    agent.send(hello(node))
    threading.Thread(target=agent.listen, args=(lines_in,), daemon=True).start()
    try:
        return agent.work(silence)
    finally:
        agent.end()


class Agent:
    """One node's agent. Its inbox holds lines; None is the end of the connection."""

    def __init__(self, node: int, write: Write, *, is_guest: bool = False, shows_jobs: bool = False) -> None:
        self.node = node
        self._write = write
        self._is_guest, self._shows_jobs = is_guest, shows_jobs
        self._at_work = threading.Semaphore(MOST_AT_WORK)
        # Bounded: a head that orders faster than we work waits, and fills its own pipe instead of our memory.
        self._inbox: queue.Queue[bytes | None] = queue.Queue(MOST_UNREAD)
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ports: Ports | None = None
        self._ranks: Ranks | None = None
        # A thread: a head that does not read must not keep us from noticing that it is gone.
        self._writer = threading.Thread(target=self._write_all, daemon=True)
        self._writer.start()

    def send(self, reply: Reply) -> None:
        """Hand a reply to the writer; never blocks. For every thread."""
        self._outbox.put(encode(reply))

    def _write_all(self) -> None:
        try:
            while (line := self._outbox.get()) is not None:
                self._write(line)
        except (OSError, ValueError):  # nobody reads any more
            self._inbox.put(None)

    def listen(self, lines_in: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError, TooLong, ValueError):
            for line in lines_in:
                self._inbox.put(line)
        self._inbox.put(None)

    def work(self, silence: float) -> int:
        """Take orders until the end; the exit status."""
        while True:
            try:
                line = self._inbox.get(timeout=silence)
            except queue.Empty:
                return 1
            if line is None:
                return 0
            if not line.strip():
                continue
            try:
                order = order_from(line)
            except Garbled as error:
                self.send(OrderFailed(error=f"not understood: {error}"))
                continue
            if isinstance(order, Bye):
                return 0
            if not order.to or self.node in order.to:
                self._obey(order)

    def _obey(self, order: AnyOrder) -> None:
        if not self._at_work.acquire(blocking=False):
            self.send(OrderFailed(number=order.number, error=f"{MOST_AT_WORK} orders are at work already"))
            return
        later = False
        try:
            result = self._begin(self._allowed(order))
            if isinstance(result, Reply):
                self._answer(order, result)
            elif result is not None:
                threads.start(threading.Thread(target=self._finish, args=(order, result), daemon=True))
                later = True
        except Exception as error:  # whatever is wrong with one order, the agent stays there for the next
            self._fail(order, error)
        finally:
            if not later:
                self._at_work.release()

    def _allowed(self, order: AnyOrder) -> AnyOrder:
        """Raises `orders.NotAllowed`."""
        if isinstance(order, Ping | Stop | Unlisten):
            return order
        from gpudoctor.fleet import orders

        orders.check(order)
        if self._shows_jobs:
            return orders.of_a_look(order, os.environ)
        return orders.of_a_guest(order, os.environ) if self._is_guest else order

    def _begin(self, order: AnyOrder) -> Reply | Later | None:
        """Do what must be done in the main thread; the reply, or what is left to do for it."""
        if isinstance(order, Ping):
            return Pong(time=time.time())
        if isinstance(order, Examine):
            from gpudoctor.fleet import facts

            return facts.begin(order)
        if isinstance(order, FindRanks | LookAt | Watch):
            from gpudoctor.fleet import look_at

            if isinstance(order, Watch):
                return look_at.watch(order, self.node)
            if isinstance(order, FindRanks):
                return lambda: look_at.find(order)
            return look_at.begin(order, self.node)
        if isinstance(order, Listen | Reach | Unlisten):
            return self._with_ports(order)
        if isinstance(order, Run):
            self.ranks.run(order)
        elif isinstance(order, Stop):
            return partial(self.ranks.stop, order)
        return None

    def _with_ports(self, order: Listen | Reach | Unlisten) -> Reply | Later | None:
        if self._ports is None:
            from gpudoctor.fleet.ports import Ports

            self._ports = Ports(self.node)
        ports = self._ports
        if isinstance(order, Listen):
            return partial(ports.listen, order)
        if isinstance(order, Reach):
            return partial(ports.reach, order)
        ports.close()
        return None

    @property
    def ranks(self) -> "Ranks":
        if self._ranks is None:
            from gpudoctor.fleet.ranks import Ranks

            self._ranks = Ranks(self.node, self.send)
        return self._ranks

    def _finish(self, order: Order, later: Later) -> None:
        try:
            reply = later()
        except Exception as error:
            self._fail(order, error)
        else:
            if reply is not None:
                self._answer(order, reply)
        finally:
            self._at_work.release()

    def _answer(self, order: Order, reply: Reply) -> None:
        self.send(msgspec.structs.replace(reply, number=order.number))

    def _fail(self, order: Order, error: Exception) -> None:
        words = f"{type(order).__name__}: {type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            words = f"no file descriptors are left there (ulimit -n; {descriptors.allowed()} are allowed)"
        self.send(OrderFailed(number=order.number, error=words[:LONGEST_ERROR]))

    def end(self) -> None:
        """End the ranks and every other child, close the ports, let the last replies go."""
        from gpudoctor import active

        with active.signals_deferred():  # scancel and a closing ssh send one while we clear up: nothing is left out
            for finish in (
                self._ranks.end_all if self._ranks is not None else None,
                self._ports.close if self._ports is not None else None,
                active.end_all,
                active.end_all,  # a thread that was starting or ending one beside us
            ):
                if finish is not None:
                    with contextlib.suppress(Exception):  # each of them must have its turn
                        finish()
        self._outbox.put(None)
        self._writer.join(LAST_WORDS_SECONDS)


def hello(node: int) -> Hello:
    return Hello(
        node=node,
        hostname=socket.gethostname(),
        gpudoctor=__version__,
        python_version=platform.python_version(),
        pid=os.getpid(),
        user=own_name(),
    )


def own_name() -> str:
    """The user's name; the number where no name is known (a container's arbitrary user)."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else ""


def node_index(given: int | None, environment: Mapping[str, str]) -> int:
    """Which node of the fleet this is: as told, or the task's number where one `srun` starts all agents."""
    if given is not None:
        return given
    number = environment.get("SLURM_PROCID", "0")
    return int(number) if number.isascii() and number.isdecimal() else 0


def main(arguments: list[str]) -> NoReturn:
    """Entry point of an agent on standard input and output: `[--node K]`."""
    parser = argparse.ArgumentParser(prog="gpudoctor agent", add_help=False)
    parser.add_argument("--node", type=int)
    namespace, _ = parser.parse_known_args(arguments)  # a newer head may tell more
    run(node_index(namespace.node, os.environ))


def run(node: int) -> NoReturn:
    """Serve on standard input and output, and exit without waiting for any thread."""
    # The channel gets descriptors of its own, which no child inherits: what else is printed in this process goes to
    # standard error and cannot garble it, and no child can eat an order or keep the channel open.
    orders, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    ended_by: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if not ended_by:  # a second signal must not cut the clearing up short
            ended_by.append(number)
            raise KeyboardInterrupt

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), stop)

    def write(line: bytes) -> None:
        write_all(replies, line)

    try:
        # Ends whatever was printed before us without a line's end: a login's banner.
        write(b"\n")
        status = serve(node, lines_of(orders), write)
    except KeyboardInterrupt:
        status = 128 + (ended_by[0] if ended_by else int(signal.SIGINT))
    except OSError:
        status = 1
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)
