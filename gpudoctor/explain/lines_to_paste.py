"""Lines to paste beside a fix, made of the values that the log tells: the package that is not there, the name that is
not resolved, the path that is not found.
"""

import posixpath
from collections.abc import Mapping

from gpudoctor.command import Command, command


def lines_for(cause: str, variant: str, values: Mapping[str, str]) -> tuple[Command, ...]:
    """Those that work as they stand with this log's values; none where a value is not what its place wants."""
    path = values.get("path", "")
    folder = (posixpath.dirname(path.rstrip("/")) or "/") if path.startswith("/") else ""
    match cause, variant:
        case "library-missing", "package":
            return (command("python -m pip install {:name}", values.get("package", "")),)
        case "wrong-nic", "bridge":
            return (command("export NCCL_SOCKET_IFNAME=^lo,{:interface}", values.get("interface", "")),)
        case "program-error", "required-range":
            return (command("python -m pip install {}", values.get("wanted", "")),)
        case "master-unreachable", "ssh-name":
            return (command("getent ahosts {:host}", values.get("address", "")),)
        case "program-error", "path" if folder:
            return (command("ls -ld {} {}", path, folder),)
        case "disk-full", _ if folder:
            return (command("df -h {}", folder), command("df -i {}", folder))
    return ()
