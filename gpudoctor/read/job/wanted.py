"""`Wanted`: which processes of a job are to be read, on which nodes, and for how long."""

from msgspec import Struct, field


class Wanted(Struct, frozen=True, kw_only=True):
    """What a node is asked to read twice, without stopping anything."""

    pids: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By node index as text: (pid, start time in ticks) of ranks, launchers and data loaders."""
    ranks: dict[str, dict[str, int]] = field(default_factory=dict)
    """By node index as text: pid as text -> its rank, where it is one."""
    seconds: float = 2.5
    """Between the two looks."""
    ports: tuple[int, ...] = ()
    """Of the job's masters: who listens there."""
    addresses: tuple[str, ...] = ()
    """Of the job's masters, names or numbers: they are looked up and, at `ports`, connected to."""
    connect: bool = False
    """Root may connect to them though none of these processes does: the nodes of the job were named."""
    native: bool = False
    """Native frames too, for which py-spy stops each process for a moment."""
    timeout: float = 8.0
    for_dumps: float = 0.0
    """Seconds from the beginning in which a flight recorder that was asked for may still come, beyond `timeout`."""
