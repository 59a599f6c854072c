"""What a launcher that runs was told of its rendezvous, as `hang` compares it between nodes."""

import re

from msgspec import Struct


class ToldStart(Struct, frozen=True, kw_only=True):
    """None and "" where it was told nothing."""

    fewest_nodes: int | None = None
    most_nodes: int | None = None
    ranks_here: int | None = None
    world_size: int | None = None
    node_rank: int | None = None
    """None where the backend gives it out (c10d)."""
    address: str = ""
    port: int = 0
    backend: str = ""
    """ "static", "c10d", "etcd", ...; "env" for a rank."""
    run_id: str = ""
    is_host: bool | None = None
    """c10d's is_host, where it is given."""
    standalone: bool = False


def number(text: str | None) -> int | None:
    """A count or a port; None where it is none ("gpu", "auto", a word of the user's)."""
    text = (text or "").strip()
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else None


def node_counts(text: str) -> tuple[int | None, int | None]:
    """ "2" or "1:4"."""
    fewest, colon, most = text.partition(":")
    return number(fewest), number(most) if colon else number(fewest)


def address_and_port(endpoint: str, default: int) -> tuple[str, int]:
    """ "node1:29500", "10.0.0.1", "[fd00::1]:29500"."""
    parts = re.fullmatch(r"\[([^\]]*)\](?::([0-9]{1,5}))?|([^:]*)(?::([0-9]{1,5}))?", endpoint.strip())
    if parts is None:  # an IPv6 address without brackets
        return endpoint.strip(), default
    port = parts[2] or parts[4]
    return parts[1] if parts[1] is not None else parts[3], int(port) if port else default
