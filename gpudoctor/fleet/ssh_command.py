"""The command line by which ssh starts an agent on a node."""

import os
import shlex
from collections.abc import Mapping

from msgspec import Struct

from gpudoctor.active import own_module
from gpudoctor.errors import BadInput
from gpudoctor.fleet.fleet import Node

GPUDOCTOR_SSH = "GPUDOCTOR_SSH"
"""Environment variable: another ssh and options for it, as one would write them in a shell ("ssh -F file")."""
MISSING = "gpudoctor-is-missing"
"""What the node's shell says, with status 127, where there is no gpudoctor."""
ALIVE_SECONDS = 5
ALIVE_COUNT = 6
"""ssh gives a node up that answers nothing for 5 x 6 s: its power or its network is gone."""


class BadSsh(BadInput):
    """$GPUDOCTOR_SSH is no command; the message is one line for the user."""


class Remote(Struct, frozen=True):
    """What is run on the nodes."""

    gpudoctor: str = ""
    """Path of the `gpudoctor` command there; empty: the interpreter that runs this one, where it is there too (a
    shared file system, the same image), else `gpudoctor` on the PATH of a login."""


def ssh_words(environment: Mapping[str, str]) -> list[str]:
    """The ssh to run with the user's own options. Raises `BadSsh`."""
    text = environment.get(GPUDOCTOR_SSH, "")
    if not text.strip():
        return ["ssh"]
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadSsh(f"{GPUDOCTOR_SSH}={text[:80]!r}: {error}") from None
    words = [os.path.expanduser(word) for word in words]  # noqa: PTH111 - a word, not a path
    # ssh starts in / (`programs`); the files that are named here lie where the user stands.
    befores = ["-F" if "/" in words[0] else "", *words]
    return [os.path.abspath(word) if before in ("-F", "-i") else word for before, word in zip(befores, words)]  # noqa: PTH100, B905


def command(ssh: list[str], node: Node, index: int, remote: Remote, connect_timeout: float) -> list[str]:
    """The whole command line for one node. Our options stand behind the user's, who wins: ssh takes the first."""
    options = [
        "-T",
        "-oBatchMode=yes",
        f"-oConnectTimeout={max(1, round(connect_timeout))}",
        f"-oServerAliveInterval={ALIVE_SECONDS}",
        f"-oServerAliveCountMax={ALIVE_COUNT}",
        "-oForwardAgent=no",
        "-oForwardX11=no",
        "-oClearAllForwardings=yes",
        # Goes through a master that is there, but starts none: that would stay behind when we leave.
        "-oControlMaster=no",
        "-oEscapeChar=none",
        "-oLogLevel=ERROR",
    ]
    if node.user:
        options.append(f"-oUser={node.user}")
    if node.port:
        options.append(f"-oPort={node.port}")
    return [*ssh, *options, "--", node.name, remote_command(index, remote)]


def remote_command(index: int, remote: Remote) -> str:
    """What the node's login shell is given: one line that sh, csh and fish all take for the same words.

    `index` is a number of ours; the paths are quoted. Nothing else is put into it.
    """
    if remote.gpudoctor:
        script = in_order(_command(remote.gpudoctor, index), named=remote.gpudoctor)
    else:
        python, option, code = own_module("gpudoctor.fleet.agent")
        path, looking = shlex.quote(python), shlex.quote(code.replace(BEGIN, LOOK + BEGIN))
        otherwise = in_order(_command("gpudoctor", index))
        # One start of Python only: on a network file system that can take seconds.
        script = (
            f"rest={shlex.quote(otherwise)}; "
            f'[ -x {path} ] && exec {path} {option} {looking} --node {index} "$rest"; eval "$rest"'
        )
    return f"exec sh -c {shlex.quote(script)}"


BEGIN = "from gpudoctor.fleet.agent import main"
LOOK = (
    "import os, importlib.util; "
    "all(map(importlib.util.find_spec, ('gpudoctor', 'msgspec'))) or os.execvp('sh', ['sh', '-c', sys.argv[-1]]); "
)
"""The interpreter of the head's path may be another one on a node, without what an agent needs: the rest is tried."""


def _command(gpudoctor: str, index: int) -> str:
    path = shlex.quote(gpudoctor)
    return f"command -v {path} >/dev/null 2>&1 && exec {path} agent --node {index}"


def in_order(*attempts: str, named: str = "") -> str:
    """Commands for a shell of which the first that is there is run; without any, it says that gpudoctor is missing.

    `named`: the one path that was tried, where the user named it.
    """
    said = shlex.quote(f"{MISSING} {named}".strip())
    return "; ".join([*attempts, f"echo {said} >&2", "exit 127"])


def shown(ssh: list[str], node: Node) -> str:
    """The line by which a user tries the way to a node."""
    port = ["-p", str(node.port)] if node.port else []
    return shlex.join([*ssh, *port, f"{node.user}@{node.name}" if node.user else node.name, "true"])
