"""The two ends of join mode, for tests: a head's half of the handshake on a socket, and a node that has joined."""

import socket
from typing import NamedTuple

import msgspec

from gpudoctor import __version__
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.fleet.join_channel import Admission, Channel, NotProved, introduce
from gpudoctor.fleet.join_messages import Newcomer, Welcome
from gpudoctor.fleet.messages import PROTOCOL, Hello, encode

PATIENCE = 120.0


def welcome(connection: socket.socket, token: str, *, seconds: float = PATIENCE) -> Channel:
    """The head's half. Raises `NotProved` and `OSError`."""
    connection.settimeout(seconds)
    admission = Admission(token)
    connection.sendall(admission.greeting)
    while data := connection.recv(100):
        try:
            proof = admission.take(data)
        except NotProved as error:
            connection.sendall(error.told)
            raise
        if proof is not None:
            connection.sendall(proof)
            connection.settimeout(None)
            return admission.channel(connection)
    raise NotProved("it left", stranger=True)


class At(NamedTuple):
    """A head in another process."""

    port: int
    token: str


def proved(fleet: JoinFleet | At) -> tuple[socket.socket, Channel]:
    """Somebody who knows the token, and has said no more."""
    connection = socket.create_connection(("127.0.0.1", fleet.port), timeout=PATIENCE)
    try:
        return connection, introduce(connection, fleet.token, seconds=PATIENCE)
    except BaseException:
        connection.close()
        raise


def newcomer(fleet: JoinFleet | At, name: str, *, machine: str = "") -> tuple[socket.socket, Channel, Welcome]:
    """Somebody who introduces himself so, and what the head says to it."""
    connection, channel = proved(fleet)
    channel.send("C", msgspec.json.encode(Newcomer(machine or f"machine of {name}", name, __version__, PROTOCOL)))
    received = channel.receive()
    assert received is not None
    return connection, channel, msgspec.json.decode(received[1], type=Welcome)


def joined(fleet: JoinFleet, name: str) -> tuple[socket.socket, Channel]:
    """Somebody who has joined and says Hello, and no more."""
    connection, channel, told = newcomer(fleet, name)
    assert told.node > 0, told
    hello = encode(Hello(node=told.node, hostname=name, gpudoctor=__version__))
    channel.send("O", hello.rstrip(b"\n"))
    return connection, channel
