"""NCCL_NET_PLUGIN names a library that the loader would not find, or a file that is no library; or NCCL_NET the network
of a plugin, and none is here.

Why it matters: NCCL goes on with its own InfiniBand or TCP transport and says so at INFO only. On a fabric that needs
its plugin (EFA, Google Cloud) the job then runs over TCP, many times slower. Where NCCL_NET names the plugin's network,
NCCL does not start without it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import Setting, effective, evidence, where

NO_PLUGIN = ("none", "static_plugin")
OF_NCCL = ("", "ib", "socket")
"""Networks that it carries in itself; it compares names without regard to case."""


@check("nccl-plugin-missing", title="The network plugin that NCCL is told to load is there")
def nccl_plugin_missing(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_NET_PLUGIN")
    names = [name for name in setting.value.split(",") if name and name.lower() not in NO_PLUGIN] if setting else []
    network, plugins = effective(machine).get("NCCL_NET"), machine.network.net_plugins
    if network is not None and network.value.lower() not in OF_NCCL and not plugins.value:
        yield Problem(
            severity="error",
            summary=f"NCCL_NET={network.value[:80]}{where(network)}, and no network plugin (libnccl-net*.so) is here",
            meaning="A network that is neither IB nor Socket comes with a plugin. NCCL finds none and does not start.",
            fix=_install_or(network),
            evidence=evidence(machine, network, plugins),
        )
    if setting is None or not names:
        return
    for name in names:
        if not is_among(name, plugins.value):
            tried = name if "/" in name else f"{name} or libnccl-net-{name}.so"
            yield Problem(
                severity="warning",
                summary=f"NCCL_NET_PLUGIN={setting.value[:80]}{where(setting)}; the loader can load no {tried}",
                meaning="NCCL goes on without it, over its own InfiniBand or TCP transport, and says so at INFO only.",
                fix=_install_or(setting),
                evidence=evidence(machine, setting, plugins),
            )


def _install_or(setting: Setting) -> Fix:
    return Fix(
        "Install the plugin, add its folder to LD_LIBRARY_PATH, or take the variable out.",
        commands=(command("ldconfig -p | grep libnccl-net"), *take_out(setting)),
    )


def is_among(name: str, paths: tuple[str, ...]) -> bool:
    """Whether NCCL would find it: as it stands, or as libnccl-net-NAME.so (plugin_open.cc, 2.21 to 2.30.7)."""
    if "/" in name:
        return any(path == name or path.endswith("/" + name.removeprefix("./")) for path in paths)
    files = {path.rpartition("/")[2] for path in paths}
    return name in files or f"libnccl-net-{name}.so" in files
