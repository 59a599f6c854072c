"""Join mode, the other nodes' side: find the head, prove the token, serve as an agent, end with the head's verdict."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from gpudoctor import __version__
from gpudoctor.command import command
from gpudoctor.fleet.hosts import MAXIMUM_HOSTS
from gpudoctor.fleet.join_channel import Channel, Closed, Forged, NotProved, OtherVersion, TooLong, introduce
from gpudoctor.fleet.join_messages import Newcomer, Verdict, Welcome, machine_identity, with_port
from gpudoctor.fleet.messages import PROTOCOL
from gpudoctor.fleet.ssh_errors import SHOWN, printable

TOKEN = "GPUDOCTOR_TOKEN"
"""The environment variable that holds the token."""
PATIENCE_SECONDS = 60.0
"""The line may be pasted here before the head has started."""
CONNECT_SECONDS = 5.0
HANDSHAKE_SECONDS = 10.0
AGAIN_SECONDS = 0.5
LARGEST_STATUS = 255


class NotJoined(Exception):
    """It could not take part; the message is one line for the user, with what to do."""


def take_part(
    address: str,
    port: int,
    token: str,
    *,
    patience: float = PATIENCE_SECONDS,
    say: Callable[[str], None] | None = None,
    shows_jobs: bool = False,
) -> int:
    """Join the head at `address`, do what it orders, and end with it; the exit status that it told. `shows_jobs`: the
    head is a doctor of the same job, and may look at what runs here, and do nothing else.

    1 when it could not join, or the head ended without a verdict; what happened is told through `say` (by default
    one line on standard error). To be called in the main thread, as `agent.serve`. Raises KeyboardInterrupt.
    """
    say = say or _on_standard_error
    os.environ.pop(TOKEN, None)  # the ranks have no use for it, and nobody shall find it in what they record
    try:
        return _take_part(address, port, token, patience, say, shows_jobs)
    except NotJoined as error:
        say(f"gpudoctor: {error}")
        return 1


def _take_part(
    address: str, port: int, token: str, patience: float, say: Callable[[str], None], shows_jobs: bool
) -> int:
    from gpudoctor.fleet.agent import serve

    where = with_port(address, port)
    connection, channel = _admitted(address, port, token, patience, say)
    with connection:
        own = Newcomer(machine_identity(), socket.gethostname(), __version__, PROTOCOL)
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            channel.send("C", msgspec.json.encode(own))
            received = channel.receive()
            connection.settimeout(None)
            if received is None:
                raise NotJoined(f"the head at {where} closed the connection")
            welcome = msgspec.json.decode(received[1], type=Welcome)
        except (OSError, Forged, TooLong, msgspec.MsgspecError, ValueError) as error:
            raise NotJoined(f"the head at {where} did not let us in: {error}") from None
        if welcome.refused or not 0 < welcome.node < welcome.nodes <= MAXIMUM_HOSTS:
            refused = welcome.refused[:SHOWN] or "it gives us no place that a test has"
            raise NotJoined(f"the head at {where} does not take us in: {refused}")
        say(f"joined {where} as node {welcome.node} of {welcome.nodes}; the head starts when all are there")
        verdicts: list[Verdict] = []
        try:
            write = partial(_send, channel)
            serve(welcome.node, _orders(channel, verdicts), write, is_guest=True, shows_jobs=shows_jobs)
        finally:
            channel.close()
    if not verdicts:
        say(f"gpudoctor: the head at {where} ended without a verdict")
        return 1
    status = verdicts[-1].status
    if not 0 <= status <= LARGEST_STATUS:  # the kernel keeps eight bits: 256 would end as a success
        status = 1
    say(f"the head's test ended with exit status {status}; what was measured stands there")
    return status


def _send(channel: Channel, line: bytes) -> None:
    channel.send("O", line.rstrip(b"\n"))


def _orders(channel: Channel, verdicts: list[Verdict]) -> Iterator[bytes]:
    """The head's orders; its verdict is put aside. Raises `OSError` when somebody else's line arrives."""
    try:
        while (received := channel.receive()) is not None:
            kind, payload = received
            if kind == "O":
                yield payload
            else:
                verdicts.append(msgspec.json.decode(payload, type=Verdict))
    except (Forged, TooLong, msgspec.MsgspecError, ValueError) as error:
        raise OSError(str(error)) from None


def connected(address: str, port: int, patience: float, say: Callable[[str], None]) -> socket.socket:
    """A connection to the head, which may not have started yet. Raises `NotJoined` after `patience` seconds."""
    where = with_port(address, port)
    deadline = time.monotonic() + patience
    is_told = False
    while True:
        try:
            return socket.create_connection((address, port), timeout=CONNECT_SECONDS)
        except socket.gaierror as error:
            raise NotJoined(
                f"the head's name {address} does not resolve here ({error.strerror}); paste its IP address instead"
            ) from None
        except UnicodeError:  # a label that is empty or too long, before any look-up
            raise NotJoined(f"{address[:80]!r} is no host's name; paste the line that the head printed") from None
        except TimeoutError:
            reason = (
                f"nothing answers at {where}; a firewall between the nodes drops the connection, or that address "
                f"belongs to a network that this node is not on{_way(address)}"
            )
        except ConnectionRefusedError:
            reason = (
                f"{where} refuses the connection: no head waits there; it has all its nodes, its wait is over, or "
                "the address is another machine's"
            )
        except OSError as error:
            reason = f"{where} cannot be reached: {error.strerror or error}{_way(address)}"
        if time.monotonic() + AGAIN_SECONDS >= deadline:
            raise NotJoined(reason)
        if not is_told:
            say(f"no head at {where} yet; trying for {patience:g} s")
            is_told = True
        time.sleep(AGAIN_SECONDS)


def _way(address: str) -> str:
    """How to look at the way there, in parentheses; empty where the address is none."""
    line = command("ip route get {:address}", address)
    return f" ({line})" if line else ""


def _admitted(
    address: str, port: int, token: str, patience: float, say: Callable[[str], None]
) -> tuple[socket.socket, Channel]:
    """A connection on which both have proved the token. Raises `NotJoined`.

    A head that talks to many newcomers at once closes the connections of the others, who try again.
    """
    where = with_port(address, port)
    deadline = time.monotonic() + patience
    is_told = False
    while True:
        connection = connected(address, port, max(0.0, deadline - time.monotonic()), say)
        try:
            return connection, _prove(connection, token, where)
        except Closed as error:
            connection.close()
            if time.monotonic() + AGAIN_SECONDS >= deadline:
                raise NotJoined(
                    f"{where}: {error}; it is no head, or too many connect to it at once from here; compare the line "
                    "with the one that the head printed"
                ) from None
            if not is_told:
                say(f"{where} is busy with others, or no head; trying for {patience:g} s")
                is_told = True
        except BaseException:
            connection.close()
            raise
        time.sleep(AGAIN_SECONDS)


def _prove(connection: socket.socket, token: str, where: str) -> Channel:
    try:
        return introduce(connection, token, seconds=HANDSHAKE_SECONDS)
    except OtherVersion as error:
        raise NotJoined(f"{error}; install the same gpudoctor on both") from None
    except Closed:
        raise
    except NotProved as error:
        if error.stranger:
            raise NotJoined(f"{where}: {error}; compare the line with the one that the head printed") from None
        raise NotJoined(
            f"the head at {where} lets nobody in with it: the token is that of another test; paste the line "
            "that this head printed"
        ) from None
    except TimeoutError:
        raise NotJoined(f"{where} took the connection and said nothing for {HANDSHAKE_SECONDS:g} s") from None
    except OSError as error:
        raise NotJoined(f"the connection to {where} broke: {error.strerror or error}") from None


def _on_standard_error(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
