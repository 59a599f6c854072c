"""Where agents of one job meet for a look: a file of its own, for `gpudoctor run` loads little before it starts."""

from msgspec import Struct


class MeetAt(Struct, frozen=True, kw_only=True):
    """Where agents of one job meet for a look: an address and port of this machine. Their token is in the
    environment."""

    address: str
    port: int
    nodes: int
