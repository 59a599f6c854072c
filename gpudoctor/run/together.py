"""The doctors of one job on several nodes: what one knows of the others, and tells them.

The head keeps the report: it looks at all nodes when the job stands still or is slow, hears how the command has ended
on each, and names the first cause of all. A node without a head, or that has lost it, keeps its own, and says so at its
end.
"""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from gpudoctor import active, programs
from gpudoctor.fleet.join import NoListener, listener_at
from gpudoctor.fleet.lines import ArrivingLines, TooLong
from gpudoctor.fleet.meet_at import MeetAt
from gpudoctor.fleet.take_part import TOKEN
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.run.alone import Alone, OtherNode
from gpudoctor.run.batch import nodes_of
from gpudoctor.run.end import ENDING_SECONDS, NodeEnded, RunEnded, asked_to_end
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.hub_messages import (
    AnyHubMessage,
    ComeToLook,
    FilesSent,
    HeadMet,
    HubTask,
    LookedBefore,
    NodeApart,
    NodePresent,
    NodeRefused,
    PartBegan,
    PartEnded,
    PartTold,
    ProcessesDied,
    SendFiles,
    StopJob,
    folder_of,
    line_of,
    message_of,
)
from gpudoctor.run.kept import logs
from gpudoctor.run.look import SECONDS
from gpudoctor.run.meeting import Meeting, found_token, meeting
from gpudoctor.run.nodes_before import NodesBefore, said_elsewhere
from gpudoctor.run.preflight import BeforeTold
from gpudoctor.run.word import schedulers_word

GATHER_SECONDS = 6.0
"""For which the head waits at a bad end for what the other nodes have seen."""
HEAD_SECONDS = 8.0
"""For which a node waits at its end for its head to end too: what ends a job ends it on all nodes within seconds."""
LOOK_SECONDS = GATHER_SECONDS + SECONDS
TOLD_SECONDS = 25.0
"""For what a node's own look finds."""


class Together(Alone):
    """One doctor's side. `look` is called several times a second."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None,
        say: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__()
        self._folder, self._say = folder, say
        self._token = environment.get(TOKEN, "")
        self._meeting, self._alone = meeting(command, environment)
        self.nodes = nodes_of(command, environment)
        self._began = time.time()
        self._since = time.monotonic()
        self._deaths = 0
        self._address = ""
        self._head_has_ended = self._sent = False
        self._head_ended_at = 0.0
        self._head_found: tuple[str, ...] = ()
        self._looks = 0
        self._away_since = 0.0
        """When the way to the head was lost, which is looked for; 0: it was not."""
        self._missed: list[str] = []
        self._lines = ArrivingLines()
        self._control: socket.socket | None = None
        self._stops = 0
        self._nodes_before = NodesBefore(command, environment)
        self._before: BeforeTold | None = None
        if self._meeting is not None:
            self._start(self._meeting)

    def _start(self, where: Meeting) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        task = HubTask(
            meeting=where,
            name=socket.gethostname(),
            began=self._began,
            folder=str(self._folder or ""),
            control=theirs.fileno(),
        )
        environment = {name: value for name, value in os.environ.items() if name != TOKEN}
        try:
            self._hub = subprocess.Popen(
                active.own_module("gpudoctor.run.hub", msgspec.json.encode(task).decode()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=programs.environment({**environment, TOKEN: self._token} if self._token else environment),
                cwd=programs.ELSEWHERE,
                start_new_session=True,
            )
        except OSError as error:
            self._apart(f"no process can be started: {error.strerror}")
        finally:
            theirs.close()

    @property
    def has_head(self) -> bool:
        return bool(self._address) and self._control is not None and not self.is_head and not self._away_since

    # before the start

    def before(self) -> BeforeTold | None:
        self._hear()
        if self._control is None:
            return BeforeTold()
        if self.is_head and self._before is None and len(self.others) >= self.nodes - 1:
            self._before = self._nodes_before.look(self.invited)
            if self._before is not None:
                self.tell(LookedBefore(errors=self._before.errors))
        return self._before

    def not_started(self) -> None:
        self.tell(LookedBefore(errors=1))

    def started(self) -> None:
        self._began, self._since = time.time(), time.monotonic()
        self.tell(PartBegan(began=self._began))

    # while it runs

    def look(self, ended: Sequence[ProcessEnded] = ()) -> bool:
        before = self._stops
        if len(ended) > self._deaths:
            self._deaths = len(ended)
            self.tell(ProcessesDied(ended=tuple(ended)))
        self._hear()
        for node in self.others.values():
            if node.said_at and (node.told or time.monotonic() >= node.said_at):
                node.said_at = 0.0
                how = f"{node.name} has ended with {_how(node.status or 0)} after {node.seconds:.0f} s; here it goes on"
                self._say((how, *(f"  {node.name}: {line}" for line in node.told)))
        return self._stops > before

    def tell(self, message: AnyHubMessage) -> None:
        """To the head, or to all others."""
        if self._control is None:
            return
        line = line_of(message) + b"\n"
        self._control.setblocking(True)
        try:
            self._control.settimeout(1.0)
            self._control.sendall(line)
        except OSError:
            self._apart("its hub has ended")
        finally:
            if self._control is not None:
                self._control.setblocking(False)

    def _hear(self) -> None:
        while self._control is not None:
            try:
                chunk = self._control.recv(1 << 16)
                lines = self._lines.feed(chunk)
            except BlockingIOError:
                return
            except (OSError, TooLong):
                chunk, lines = b"", []
            if not chunk:
                self._apart("its hub has ended")
                return
            for line in lines:
                with contextlib.suppress(msgspec.MsgspecError):
                    self._take(message_of(line))

    def _take(self, message: AnyHubMessage) -> None:
        node = self.others.get(message.host)
        if isinstance(message, HeadMet):
            self._address, self.is_head = message.address, message.is_head
            if self._away_since:
                self._found_again("the head", self._away_since)
                self._away_since, self._alone = 0.0, ""
        elif isinstance(message, NodeApart) and not message.host and message.seeks:
            self._away_since = self._seconds()
            self._alone = f"{message.why} (the head, after {self._away_since:.0f} s)"
        elif isinstance(message, NodeApart) and not message.host:
            self._apart(message.why)
        elif isinstance(message, NodeRefused):
            self._apart(f"the head does not take part with this node: {message.why}")
        elif isinstance(message, SendFiles):
            self._head_has_ended, self._head_ended_at = True, time.monotonic()
        elif isinstance(message, PartTold) and not message.host:
            self._head_found = message.lines
        elif isinstance(message, StopJob):
            self.stop, self._stops = message.number, self._stops + 1
        elif isinstance(message, NodePresent):
            began, ahead = message.began - message.ahead, message.ahead
            if node is None:
                self.others[message.host] = OtherNode(name=message.host, began=began, ahead=ahead)
            elif node.gone:
                self._found_again(node.name, node.gone_at)
                node.gone, node.gone_at, node.silent = "", 0.0, False
        elif isinstance(message, FilesSent) and not message.host:
            self._sent = True
        elif isinstance(message, LookedBefore):
            self._before = said_elsewhere(message.host, message.errors)
        elif node is None:
            return
        elif isinstance(message, PartBegan):
            node.began = message.began - node.ahead
        elif isinstance(message, ProcessesDied):
            node.ended = message.ended
        elif isinstance(message, PartEnded):
            node.status, node.seconds = message.status, message.seconds
            node.asked, node.word = message.asked, message.word
            node.said_at = time.monotonic() + TOLD_SECONDS if message.status else 0.0
        elif isinstance(message, PartTold):
            node.told = message.lines
        elif isinstance(message, FilesSent):
            node.has_sent = True
        elif isinstance(message, NodeApart):
            node.gone, node.gone_at, node.silent = message.why, self._seconds(), message.silent
            if node.status is None:
                self._say((f"{node.name}: {self._lost(node)}",))

    def _seconds(self) -> float:
        """Since the start; the wall clock may be set meanwhile."""
        return time.monotonic() - self._since

    def _found_again(self, name: str, since: float) -> None:
        now = self._seconds()
        self._say((f"{name} is heard again, after {now - since:.0f} s",))
        whose = "its ranks" if self.is_head else "those of other nodes"
        self._missed.append(
            f"nothing was heard of {name} from {since:.0f} s to {now:.0f} s: looks of that time were without {whose}"
        )

    def missed(self) -> tuple[str, ...]:
        return tuple(self._missed)

    def elsewhere(self) -> tuple[NodeEnded, ...]:
        return tuple(NodeEnded(name=node.name, asked=node.asked, word=node.word) for node in self.others.values())

    def _lost(self, node: OtherNode) -> str:
        when = f"after {node.gone_at:.0f} s"
        if node.silent:
            return f"nothing is heard of this node any more {when}: it was lost, or its network ({node.gone})"
        return f"its gpudoctor has gone without a word {when} ({node.gone}); its part of the job may go on"

    def _apart(self, why: str) -> None:
        """From now on this node is alone."""
        if self._control is not None:
            self._control.close()
        when = f" (the head, after {self._seconds():.0f} s)" if self._address and not self.is_head else ""
        self._control = None
        self._alone = self._alone or f"{why}{when}"

    def invited(self) -> tuple[MeetAt | None, dict[str, str] | None]:
        here = [node for node in self.others.values() if not node.gone and node.status is None]
        if not self.is_head or self._control is None or not here or self._meeting is None:
            return None, None
        port = _free_port(self._address)
        token = self._token or found_token(self._meeting.shared, 0.0)
        if not port or not token:
            return None, None
        self.tell(ComeToLook(port=port))
        return MeetAt(address=self._address, port=port, nodes=1 + len(here)), {**os.environ, TOKEN: token}

    def stop_all(self, number: int) -> None:
        if self.is_head:
            self.tell(StopJob(number=number))

    # at the end

    def end(self, ended: RunEnded, until: Callable[[float], bool]) -> None:
        if self._control is None:
            return
        status = ended.status
        if self.is_head:
            self.tell(SendFiles(status=status))
        else:
            self.tell(ProcessesDied(ended=ended.ended))
            word = schedulers_word(ended) if status else None  # the head has no other way to know it
            self.tell(PartEnded(status=status, seconds=ended.seconds, asked=asked_to_end(ended), word=word))
            if self._away_since:
                return
        deadline = time.monotonic() + (GATHER_SECONDS if self.is_head else HEAD_SECONDS)
        while self._control is not None and time.monotonic() < deadline:
            self._hear()
            if self.is_head and all(node.has_sent or node.gone for node in self.others.values()):
                break
            if not self.is_head and self._sent and (self._head_has_ended or not status):
                break
            if not status or until(0.02):
                break

    @property
    def is_kept_by_head(self) -> bool:
        is_same_end = self._head_has_ended and time.monotonic() - self._head_ended_at < ENDING_SECONDS
        return is_same_end and (bool(self._head_found) or (self.has_head and self._sent))

    @property
    def head_found(self) -> tuple[str, ...]:
        return tuple(line for line in self._head_found if line.startswith("cause:"))[:1]

    @property
    def gone(self) -> list[OtherNode]:
        lost = [node for node in self.others.values() if node.gone and node.status is None and node.silent]
        return sorted(lost, key=lambda node: node.gone_at)

    def wait_for_head(self, until: Callable[[float], bool]) -> None:
        self._hear()
        if not self._head_has_ended:
            return
        deadline = time.monotonic() + LOOK_SECONDS
        while self._control is not None and time.monotonic() < deadline and not until(0.05):
            self._hear()

    def others_found(self) -> tuple[str, ...]:
        self._hear()
        other_node = next((node for node in self.others.values() if node.told), None)
        return tuple(f"{other_node.name}: {line}" for line in other_node.told) if other_node is not None else ()

    def told(self, lines: Sequence[str]) -> None:
        if self.has_head or self.is_head:
            self.tell(PartTold(lines=tuple(lines)))

    def seen(self) -> tuple[ProcessEnded, ...]:
        return tuple(
            structs.replace(ended, host=node.name, seconds=ended.seconds + node.began - self._began)
            for node in self.others.values()
            for ended in node.ended
        )

    def logs(self) -> tuple[str, ...]:
        if self._folder is None:
            return ()
        folder = self._folder
        return tuple(
            str((place / name).relative_to(folder))
            for node in self.others.values()
            for place in (folder_of(folder, node.name),)
            for name in logs(place)
        )

    def summary(self) -> tuple[str, ...]:
        if self.nodes < 2:
            return ()
        own = socket.gethostname()
        if not self.is_head or self._control is None:
            if self.has_head:
                return ()
            why = self._alone or "they have not found each other yet"
            return (f"this is what {own} has seen; each of the {self.nodes} nodes keeps a report of its own: {why}",)
        lines = [
            f"{node.name}: {self._lost(node)}" for node in self.others.values() if node.gone and node.status is None
        ]
        goes_on = sorted(node.name for node in self.others.values() if node.status is None and not node.gone)
        if goes_on:
            lines.append(f"it had not ended on {listed(goes_on)} by then")
        if missing := self.nodes - 1 - len(self.others):
            lines.append(f"{counted(missing, 'node')} of {self.nodes} did not come to {own}, and told nothing")
        return tuple(lines)

    def close(self) -> None:
        self._nodes_before.end()
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._hub.wait(1.0)


def _free_port(address: str) -> int:
    """At which a look can listen; 0 where there is none."""
    try:
        with contextlib.closing(listener_at(address, 0)) as listener:
            return int(listener.getsockname()[1])
    except NoListener:
        return 0


def _how(status: int) -> str:
    return active.signal_name(-status) if status < 0 else f"exit status {status}"
