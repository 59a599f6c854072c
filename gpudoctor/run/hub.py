"""A process beside each doctor of a job on several nodes, which holds its connections: the doctor itself waits for
signals and for its command, and for nothing else.

The head's hub opens the door of join mode (the same proof, the same lines) and passes on what comes; a node's hub finds
it, and passes on too. It ends with its doctor. Whatever goes wrong costs the meeting only.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from gpudoctor import active, programs
from gpudoctor.fleet.hosts import is_host
from gpudoctor.fleet.join import NoListener, keep_alive, listener_at
from gpudoctor.fleet.join_channel import Channel, Forged, NotProved, OtherVersion, TooLong, introduce
from gpudoctor.fleet.join_door import Door
from gpudoctor.fleet.lines import lines_of, write_all
from gpudoctor.fleet.own_address import own_address
from gpudoctor.fleet.take_part import TOKEN
from gpudoctor.lazy import lazy_re
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run.hub_messages import (
    AnyHubMessage,
    ClockAsked,
    ClockTold,
    ComeToLook,
    FilePart,
    FilesSent,
    HeadMet,
    HubMessage,
    HubTask,
    LookedBefore,
    NodeApart,
    NodePresent,
    NodeRefused,
    PartBegan,
    PartEnded,
    PartTold,
    SendFiles,
    StopJob,
    folder_of,
    line_of,
    message_of,
)
from gpudoctor.run.meeting import found_token, leave_token, ports, take_back_token

M = TypeVar("M", bound=HubMessage)

FINDS_SECONDS = 90.0
"""For which a node looks for its head: nodes of one job start minutes apart where images are pulled, and a look for it
costs a packet."""
AGAIN_SECONDS, SELDOM_SECONDS = 1.0, 5.0
CONNECT_SECONDS = 5.0
HANDSHAKE_SECONDS = 10.0
IDLE_SECONDS = 10
CLOCKS = 3
MOST_OF_NODE = 8 << 20
MOST_OF_FILE = 2 << 20
MOST_MEMBERS = 1024
MOST_GUESTS = 3
"""A look whether it stands still and one at its pace may be at work at a time."""
CHUNK = 128 << 10
LASTING = (SendFiles, StopJob, PartTold, LookedBefore, PartBegan)
SENT = lazy_re(r"output\.(?:log|tail-[12])|output-2\.log|run\.json|(?:rank|process)-[0-9]{1,10}[a-z0-9.-]{1,40}")
"""Files of a report that a node sends."""


def main(arguments: list[str]) -> None:
    """The process: a task as JSON."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):  # it ends with its doctor, who decides
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    end_with_the_doctor()
    task = msgspec.json.decode(arguments[0], type=HubTask)
    control = DoctorLine(task.control)
    token = os.environ.pop(TOKEN, "")
    try:
        is_head = task.meeting.is_head
        address = _address(task.meeting.head) if is_head is not False else ""
        if is_head is None:
            is_head = bool(address)
        if is_head:
            HeadHub(task, control, token, address or own_address()).work()
        else:
            MemberHub(task, control, token).work()
    except (OSError, NoListener, NotProved, OtherVersion, Forged, TooLong, ValueError, RuntimeError) as error:
        control.tell(NodeApart(why=str(error)[:300]))
    control.wait()
    os._exit(0)


def _address(host: str) -> str:
    """An address by which others reach that name, if it is this machine's; empty where it is none of ours."""
    with contextlib.suppress(OSError, UnicodeError):
        for family, kind, _, _, where in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            address = str(where[0])
            if address.startswith("127.") or address == "::1":
                continue
            with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
                probe.bind((address, 0))
                return address
    return ""


def watch(connection: socket.socket) -> None:
    """Notice within half a minute that a machine has vanished, though nothing is said for hours."""
    keep_alive(connection)
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, IDLE_SECONDS // 2)


class DoctorLine:
    """The doctor's line to its hub, the hub's side."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def tell(self, message: AnyHubMessage) -> None:
        """A doctor that is gone hears nothing."""
        with self._lock, contextlib.suppress(OSError):
            write_all(self._descriptor, line_of(message) + b"\n")

    def lines(self) -> Iterator[AnyHubMessage]:
        """What the doctor says, until it has gone."""
        with contextlib.suppress(OSError, TooLong, msgspec.MsgspecError):
            for line in lines_of(self._descriptor):
                yield message_of(line)

    def wait(self) -> None:
        """Until the doctor has gone."""
        for _ in self.lines():
            pass


class HeadHub:
    """Of the node that keeps the report."""

    def __init__(self, task: HubTask, control: DoctorLine, token: str, address: str) -> None:
        self._task, self._control, self._address = task, control, address
        self._token = token or leave_token(task.meeting.shared)
        self._lock = threading.Lock()
        self._members: dict[str, Channel] = {}
        self._names: dict[str, str] = {}
        """By the number of a member's hub: one that was cut off comes back under its name."""
        self._is_over = False
        self._said: dict[type[HubMessage], AnyHubMessage] = {}
        """What a node that comes late, or again, is to know."""

    def work(self) -> None:
        """Until the doctor has gone."""
        listener = None
        for port in ports(self._token):
            try:
                listener = listener_at(self._address, port)
                break
            except NoListener as error:
                problem = error
        if listener is None:
            raise problem
        self._control.tell(HeadMet(address=self._address, is_head=True))
        door = Door(listener, self._token, proved=self._let_in, turned_away=lambda host, why: None)
        threading.Thread(target=door.serve, args=(lambda: not self._is_over,), daemon=True).start()
        for message in self._control.lines():
            if isinstance(message, LASTING):
                self._said[type(message)] = message
            self._tell_all(message)
        self._is_over = True
        take_back_token(self._task.meeting.shared, self._token)
        with self._lock:
            channels = list(self._members.values())
        for channel in channels:
            channel.close()

    def _tell_all(self, message: AnyHubMessage) -> None:
        with self._lock:
            channels = list(self._members.values())
        for channel in channels:
            with contextlib.suppress(OSError):
                channel.send("C", line_of(message))

    def _let_in(self, channel: Channel, connection: socket.socket, host: str) -> bool:
        with self._lock:
            if len(self._members) >= MOST_MEMBERS:
                return False
        try:
            threading.Thread(target=self._hear, args=(channel, connection, host), daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _hear(self, channel: Channel, connection: socket.socket, host: str) -> None:
        name, why, silent = "", "", False
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            name = self._introduced(channel, host)
            if name:
                connection.settimeout(None)
                watch(connection)
                self._take(channel, name)
        except TimeoutError:  # the kernel has given up
            why, silent = "nothing is heard of it any more", True
        except OSError as error:
            why, silent = error.strerror or str(error), not isinstance(error, ConnectionError)
        except (Forged, TooLong, msgspec.MsgspecError, ValueError) as error:
            why = str(error)[:200]
        finally:
            with self._lock:
                left = bool(name) and self._members.get(name) is channel  # else it has come back meanwhile
                if left:
                    del self._members[name]
            if left:
                self._control.tell(NodeApart(host=name, why=why or "its gpudoctor has ended", silent=silent))
            channel.close()

    def _introduced(self, channel: Channel, host: str) -> str:
        """The name under which a node takes part; empty where it does not."""
        present = self._received(channel, NodePresent)
        if present.version != NodePresent(name="", began=0.0).version:
            channel.send("C", line_of(NodeRefused(why=f"it has gpudoctor {present.version.split()[0][:32]}")))
            return ""
        best = (60.0, 0.0)
        for _ in range(CLOCKS):
            sent, before = time.time(), time.monotonic()
            channel.send("C", line_of(ClockAsked(sent=sent)))
            now = self._received(channel, ClockTold).now
            trip = time.monotonic() - before
            best = min(best, (trip / 2, now - (sent + trip / 2)))
        name = present.name if is_host(present.name) and ":" not in present.name else host.replace(":", "-")
        with self._lock:
            if present.hub in self._names:
                name = self._names[present.hub]
            elif name in self._members or name == self._task.name:
                name = f"{name}-{sum(member.startswith(name) for member in self._members) + 2}"
            replaced, self._members[name] = self._members.get(name), channel
            if present.hub and len(self._names) < MOST_MEMBERS:
                self._names[present.hub] = name
        if replaced is not None:
            replaced.close()
        channel.send("C", line_of(HeadMet(address=self._address)))
        for said in list(self._said.values()):
            channel.send("C", line_of(said))
        self._control.tell(structs.replace(present, host=name, ahead=best[1], uncertainty=best[0]))
        return name

    def _received(self, channel: Channel, kind: type[M]) -> M:
        received = channel.receive()
        message = message_of(received[1]) if received is not None else None
        if not isinstance(message, kind):
            raise ValueError("it says something else than was asked for")
        return message

    def _take(self, channel: Channel, name: str) -> None:
        """What a node says, until it ends. Files go to the disk, and all else to the doctor."""
        room = min(MOST_OF_NODE, (256 << 20) // self._task.meeting.nodes)
        while (received := channel.receive()) is not None:
            message = message_of(received[1])
            if isinstance(message, FilePart):
                room -= len(message.data)
                if room >= 0 and self._task.folder and SENT.fullmatch(message.name):
                    self._keep(folder_of(Path(self._task.folder), name), message)
            else:
                self._control.tell(structs.replace(message, host=name))

    def _keep(self, folder: Path, part: FilePart) -> None:
        with contextlib.suppress(OSError):  # a full disk
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            file = os.open(folder / part.name, flags, 0o600)
            try:
                write_all(file, part.data)
            finally:
                os.close(file)


class MemberHub:
    """Of any other node."""

    def __init__(self, task: HubTask, control: DoctorLine, token: str) -> None:
        self._task, self._control = task, control
        self._token = token or found_token(task.meeting.shared)
        self._sent = False
        self._sending = threading.Lock()
        self._hub = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        """To a head that has taken this node in: what is said before is taken for an answer to what it asks."""
        self._met = threading.Event()
        self._said: dict[type[HubMessage], AnyHubMessage] = {}
        """The last of each kind, for a head that it was cut off from."""
        self._guests: list[subprocess.Popen[bytes]] = []

    def work(self) -> None:
        """Find the head, and pass on what both say."""
        if not self._token:
            raise ValueError(
                f"{self._task.meeting.head} has left no token in {self._task.meeting.shared} for the others"
            )
        channel, connection = self._found(FINDS_SECONDS)
        self._introduce(channel)
        threading.Thread(target=self._hear, args=(channel, connection), daemon=True).start()
        for message in self._control.lines():
            with self._lock:
                self._said[type(message)] = message
                met = self._channel
            self._pass_on(met, message)
        if self._said and self._met.wait(HANDSHAKE_SECONDS) and (met := self._channel):  # a doctor that ends at once
            met.close()
        os._exit(0)

    def _introduce(self, channel: Channel) -> None:
        channel.send("C", line_of(NodePresent(name=self._task.name, began=self._task.began, hub=self._hub)))

    def _pass_on(self, channel: Channel | None, message: AnyHubMessage) -> None:
        if channel is None:
            return
        with contextlib.suppress(OSError):  # who hears the head notices that it has gone
            channel.send("C", line_of(message))
            if isinstance(message, PartEnded):
                self._send_files(channel, message.status)

    def _found(self, seconds: float) -> tuple[Channel, socket.socket]:
        begun = time.monotonic()
        why = ""
        while True:
            # what was there first may be of another job, whose head was killed
            self._token = found_token(self._task.meeting.shared, 0.0) or self._token
            for port in ports(self._token):
                try:
                    connection = socket.create_connection((self._task.meeting.head, port), timeout=CONNECT_SECONDS)
                except (OSError, UnicodeError) as error:
                    why = f"no way to {self._task.meeting.head}: {getattr(error, 'strerror', None) or error}"
                    continue
                try:
                    channel = introduce(connection, self._token, seconds=HANDSHAKE_SECONDS)
                except (OSError, NotProved) as error:
                    connection.close()
                    why = f"{self._task.meeting.head}: {error}"
                    continue
                watch(connection)
                return channel, connection
            if time.monotonic() - begun >= seconds:
                raise ValueError(why)
            time.sleep(AGAIN_SECONDS if time.monotonic() - begun < FINDS_SECONDS else SELDOM_SECONDS)

    def _hear(self, channel: Channel, connection: socket.socket) -> None:
        """What the head says, as long as it lives: one that was cut off is looked for again."""
        while True:
            why, silent, seeks = self._heard(channel, connection)
            with self._lock:
                self._channel = None
            channel.close()
            self._control.tell(NodeApart(why=why, silent=silent, seeks=seeks))
            if not seeks:
                return
            while seeks:
                try:
                    channel, connection = self._found(float("inf"))
                    self._introduce(channel)
                    seeks = False
                except (OSError, NotProved, OtherVersion, ValueError):
                    time.sleep(SELDOM_SECONDS)

    def _heard(self, channel: Channel, connection: socket.socket) -> tuple[str, bool, bool]:
        """Until it ends: why, whether nothing came any more, and whether the head may live."""
        try:
            while (received := channel.receive()) is not None:
                message = message_of(received[1])
                if isinstance(message, ClockAsked):
                    channel.send("C", line_of(ClockTold(sent=message.sent, now=time.time())))
                elif isinstance(message, ComeToLook):
                    self._send_somebody(connection.getpeername()[0], message.port)
                else:
                    self._control.tell(message)
                    if isinstance(message, HeadMet):
                        self._tell_again(channel)
                    if isinstance(message, SendFiles):
                        self._send_files(channel, message.status)
        except OSError as error:
            return error.strerror or str(error), not isinstance(error, ConnectionError), True
        except (Forged, TooLong, msgspec.MsgspecError, ValueError) as error:
            return str(error)[:200], False, False
        return "its gpudoctor has ended", False, False

    def _tell_again(self, channel: Channel) -> None:
        """All that was said by now and counts still; from now on what is said goes out at once."""
        with self._lock:
            self._channel, said = channel, list(self._said.values())
        for message in said:
            self._pass_on(channel, message)
        self._met.set()

    def _send_somebody(self, address: str, port: int) -> None:
        """An agent takes part in the head's look, which can read and do nothing else here."""
        self._guests = [guest for guest in self._guests if guest.poll() is None]
        if len(self._guests) >= MOST_GUESTS:
            return
        with contextlib.suppress(OSError):
            guest = subprocess.Popen(
                active.own_module("gpudoctor.run.guest", address, str(port)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=programs.environment({**os.environ, TOKEN: self._token}),
                cwd=programs.ELSEWHERE,
                start_new_session=True,
            )
            self._guests.append(guest)

    def _send_files(self, channel: Channel, status: int) -> None:
        """Once, where one of the two has not ended well: what the head needs to find the cause."""
        with self._sending, contextlib.suppress(OSError):
            if self._sent:
                return
            self._sent = True
            for name, data in self._parts() if status else ():
                channel.send("C", line_of(FilePart(name=name, data=data)))
            channel.send("C", line_of(FilesSent()))
            self._control.tell(FilesSent())

    def _parts(self) -> Iterator[tuple[str, bytes]]:
        room = min(MOST_OF_NODE, (256 << 20) // self._task.meeting.nodes)
        report = Path(self._task.folder)
        names = sorted(place.name for place in report.iterdir()) if self._task.folder else []
        for name in filter(SENT.fullmatch, names):
            with contextlib.suppress(OSError), open(f"{self._task.folder}/{name}", "rb") as file:  # noqa: PTH123
                size = os.fstat(file.fileno()).st_size
                kept = min(MOST_OF_FILE, room // 2)
                if size > kept:
                    half = kept // 2
                    head = file.read(half)
                    file.seek(size - half)
                    data = head + b"\n[gpudoctor: some of it is left out here]\n" + file.read(half)
                else:
                    data = file.read(kept)
                room -= len(data)
                for start in range(0, len(data), CHUNK):
                    yield name, data[start : start + CHUNK]
