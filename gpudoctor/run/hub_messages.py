"""What the doctors of one job tell each other, and what each tells its own hub: one JSON object a line."""

from pathlib import Path

import msgspec
from msgspec import Struct

from gpudoctor import __version__
from gpudoctor.fleet.messages import PROTOCOL
from gpudoctor.run.end import SchedulersWord, SignalSeen
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.meeting import Meeting


class HubMessage(Struct, frozen=True, kw_only=True, tag=True):
    """`host`: of whom it came, as the head's hub knows it; empty for this node's own."""

    host: str = ""


class NodePresent(HubMessage, frozen=True):
    """A node introduces itself; to the head's doctor with what its clock is ahead of the head's."""

    name: str
    began: float
    """When its command was started (or is about to be: `PartBegan`), in seconds since 1970 by its own clock."""
    version: str = f"{__version__} {PROTOCOL}"
    ahead: float = 0.0
    uncertainty: float = 0.0
    hub: str = ""
    """A number of its own: by it a node is known that was cut off and has found its way back."""


class NodeRefused(HubMessage, frozen=True):
    """The head does not take that node in."""

    why: str


class ClockAsked(HubMessage, frozen=True):
    """What time is it there?"""

    sent: float


class ClockTold(HubMessage, frozen=True):
    """The answer."""

    sent: float
    now: float


class ProcessesDied(HubMessage, frozen=True):
    """Processes of the job that have not ended well there; all that are known by then."""

    ended: tuple[ProcessEnded, ...]


class PartBegan(HubMessage, frozen=True):
    """The command is started there: at this time by its own clock."""

    began: float


class LookedBefore(HubMessage, frozen=True):
    """What the look at all nodes before the start has found."""

    errors: int


class PartEnded(HubMessage, frozen=True):
    """The command has ended there."""

    status: int
    seconds: float
    asked: SignalSeen | None = None
    """By which somebody there had asked it to end."""
    word: SchedulersWord | None = None
    """What Kubernetes or SLURM says there of its end."""


class PartTold(HubMessage, frozen=True):
    """What that node's own look has found."""

    lines: tuple[str, ...]


class SendFiles(HubMessage, frozen=True):
    """The head wants what is kept there: its own command has ended, with this status."""

    status: int


class FilePart(HubMessage, frozen=True):
    """Of a file."""

    name: str
    data: bytes


class FilesSent(HubMessage, frozen=True):
    """There is no more of them."""


class ComeToLook(HubMessage, frozen=True):
    """Somebody of each node is wanted for a look, at this port of the head."""

    port: int


class StopJob(HubMessage, frozen=True):
    """The job is to be ended by a signal: it stands still (--on-stall kill)."""

    number: int


class HeadMet(HubMessage, frozen=True):
    """A node has found its head; or it is the head, and listens."""

    address: str
    is_head: bool = False


class NodeApart(HubMessage, frozen=True):
    """It is alone, or alone again. `silent`: nothing came any more, neither a word nor an end."""

    why: str
    silent: bool = False
    seeks: bool = False
    """It looks for the way back."""


AnyHubMessage = (
    NodePresent
    | NodeRefused
    | ClockAsked
    | ClockTold
    | ProcessesDied
    | PartBegan
    | LookedBefore
    | PartEnded
    | PartTold
    | SendFiles
    | FilePart
    | FilesSent
    | ComeToLook
    | StopJob
    | HeadMet
    | NodeApart
)
_DECODER: msgspec.json.Decoder[AnyHubMessage] = msgspec.json.Decoder(AnyHubMessage)


class HubTask(Struct, frozen=True, kw_only=True):
    """For the hub."""

    meeting: Meeting
    name: str
    began: float
    folder: str
    control: int
    """A descriptor: the doctor's end of it closes with the doctor."""


def line_of(message: HubMessage) -> bytes:
    """Without an end."""
    return msgspec.json.encode(message)


def message_of(line: bytes) -> AnyHubMessage:
    """Raises `msgspec.MsgspecError`."""
    return _DECODER.decode(line)


def folder_of(report: Path, host: str) -> Path:
    """Where the head keeps what a node has sent."""
    return report / "nodes" / host
