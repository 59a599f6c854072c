"""A doctor whose job is on one node: it knows of no others, and loads nothing of what several nodes need.

`Together` is one that does; whoever uses either need not ask which of them it is.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from gpudoctor.fleet.meet_at import MeetAt
from gpudoctor.run.end import NodeEnded, RunEnded, SchedulersWord, SignalSeen
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.preflight import BeforeTold


class OtherNode(Struct, kw_only=True):
    """What the head knows of a node."""

    name: str
    began: float
    """When its command was started, by the head's clock, in seconds since 1970."""
    ahead: float = 0.0
    """Of the head's clock."""
    ended: tuple[ProcessEnded, ...] = ()
    status: int | None = None
    seconds: float = 0.0
    told: tuple[str, ...] = ()
    said_at: float = 0.0
    """When its end is to be said at the latest; 0: there is nothing to say, or it was said."""
    has_sent: bool = False
    gone: str = ""
    """Why it is not heard any more."""
    gone_at: float = 0.0
    silent: bool = False
    asked: SignalSeen | None = None
    word: SchedulersWord | None = None


class Alone:
    """What a doctor knows of other nodes, and tells them: nothing."""

    def __init__(self, *, is_second: bool = False) -> None:
        """`is_second`: srun has started a doctor for each of its tasks, and the first of this node looks at all."""
        self.is_second = is_second
        self.nodes = 1
        self.others: dict[str, OtherNode] = {}
        self.is_head = False
        self.stop = 0
        """The signal by which the head wants the job to end."""

    @property
    def has_head(self) -> bool:
        """Whether another doctor looks: of the node that keeps the report, or of this node's first task."""
        return self.is_second

    # before the start

    def before(self) -> BeforeTold | None:
        """What a look at all nodes together has found; None: it goes on still, or has not begun."""
        return BeforeTold()

    def not_started(self) -> None:
        """It has an error, and is not to start (--stop-on-error)."""

    def started(self) -> None:
        """The command runs now."""

    # while it runs

    def look(self, ended: Sequence[ProcessEnded] = ()) -> bool:
        """Hear what is new, and tell what is: processes of the job that have not ended well. Whether the command is to
        be ended now, by `stop`."""
        return False

    def invited(self) -> tuple[MeetAt | None, dict[str, str] | None]:
        """Have somebody of each node come to a look: where that is, and the environment of who looks, in which is what
        they know each other by. (None, None) where nobody would come."""
        return None, None

    def stop_all(self, number: int) -> None:
        """The job is to end on the other nodes too."""

    # at the end

    def end(self, ended: RunEnded, until: Callable[[float], bool]) -> None:
        """The command has ended here. Waits a few seconds for what belongs to it on the other nodes."""

    def missed(self) -> tuple[str, ...]:
        """When nothing was heard of nodes that were heard again."""
        return ()

    def elsewhere(self) -> tuple[NodeEnded, ...]:
        """What only the other nodes can know of their ends."""
        return ()

    @property
    def is_kept_by_head(self) -> bool:
        """Whether the head has ended too, and has all that was seen here, or has told what it has found."""
        return False

    @property
    def head_found(self) -> tuple[str, ...]:
        """The cause, in the words of the head; empty where it has not told it by now."""
        return ()

    @property
    def gone(self) -> list[OtherNode]:
        """Nodes that were lost without a word, the first first."""
        return []

    def wait_for_head(self, until: Callable[[float], bool]) -> None:
        """Until the head, where it has ended too, has said what it has found: srun --kill-on-bad-exit ends all as soon
        as one has ended."""

    def others_found(self) -> tuple[str, ...]:
        """What looks of other nodes have found, where this one's did not come to its end."""
        return ()

    def told(self, lines: Sequence[str]) -> None:
        """What this node's own look has found, for a head that goes on; or what the head's has, for who ends later."""

    def seen(self) -> tuple[ProcessEnded, ...]:
        """What has ended on the other nodes, by this node's clock."""
        return ()

    def logs(self) -> tuple[str, ...]:
        """Files that other nodes have sent, by their names in the report's folder."""
        return ()

    def summary(self) -> tuple[str, ...]:
        """At a bad end: what this node does not know."""
        return ()

    def close(self) -> None:
        """Let what was said go out."""
