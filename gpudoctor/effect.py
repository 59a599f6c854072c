"""What a line to paste does, told by the program in it: where it runs, and what it risks.

A line that no row names only looks. tests/test_fixes.py goes over every line of every fix and holds that against the
programs that are known to only look.
"""

from typing import Literal, NamedTuple

Where = Literal[
    "",
    "this shell",
    "the host as root",
    "the job script",
    "the training program",
    "the training environment",
    "the container's start",
    "the provider",
]
"""Where a fix is done; "": its sentences say so, or there is nothing to do."""

HOST: Where = "the host as root"
SHELL: Where = "this shell"


class Effect(NamedTuple):
    """Of a line that changes something."""

    where: Where
    risk: str = ""
    """What else it may cost, as a short phrase; "": nothing."""


_PACKAGES = Effect(HOST, "changes packages of the machine, for all its users")
_PIP = Effect("the training environment", "changes packages that other programs of this environment use")
_BOOT = Effect(HOST, "changes how the machine boots; it takes effect with the next restart")
_SERVICE = Effect(HOST, "changes a service of the machine")
_RESTARTED = Effect(HOST, "what the service serves is interrupted")
_ACCEPTS = Effect(HOST, "opens this machine to whoever can send from there")
_FILE = Effect(SHELL, "changes the file")

EFFECTS: tuple[tuple[str, Effect], ...] = (
    ("--gpu-reset", Effect(HOST, "refused while a program uses the GPU; a busy board may need all GPUs reset")),
    ("gpudoctor capture", Effect("the provider")),
    ("sudo reboot", Effect(HOST, "ends everything that runs on the machine")),
    ("rmmod ", Effect(HOST, "refused while a program uses a GPU; while it runs no GPU is there")),
    ("kill -CONT ", Effect(SHELL)),
    ("kill ", Effect(SHELL, "ends the process; what it has not saved is lost")),
    ("chown ", Effect(HOST, "changes who owns these folders")),
    ("chmod ", Effect(HOST, "weakens the machine: every local user may then use the device")),
    ("setfacl ", Effect(HOST, "this user may then use the device")),
    ("--add-source", _ACCEPTS),
    ("-j ACCEPT", _ACCEPTS),
    ("ufw allow", _ACCEPTS),
    ("ECAP_ACS", Effect(HOST, "weakens the machine: devices behind the port can reach each other's memory")),
    ("nvidia-modprobe ", Effect(HOST)),
    ("modprobe.d/", _BOOT),
    ("modules-load.d/", _BOOT),
    ("grub.d/", _BOOT),
    ("modprobe ", Effect(HOST)),
    ("sudo sed -i", Effect(HOST, "changes a file of the machine")),
    ("update-initramfs", _BOOT),
    ("update-grub", _BOOT),
    ("dracut ", _BOOT),
    ("grubby ", _BOOT),
    ("tee -a /etc/hosts", Effect(HOST, "every program on this machine then takes the name for that address")),
    ("sudo tee /etc/", Effect(HOST, "changes a file of the machine")),
    ("scaling_governor", Effect(HOST, "more power is drawn, until the next restart")),
    ("remount,size=", Effect(HOST, "what lies in it may fill the machine's memory")),
    ("makestep", Effect(HOST, "time jumps for every program that runs")),
    ("systemctl restart", _RESTARTED),
    ("systemctl enable", _SERVICE),
    ("systemctl start", _SERVICE),
    ("systemctl disable", Effect(HOST, "stops a service of the machine, also after the next restart")),
    ("scontrol reconfigure", Effect(HOST, "all nodes of the cluster read their configuration again")),
    ("mokutil --import", Effect(HOST, "modules signed by that key may then be loaded")),
    ("sudo sysctl ", Effect(HOST)),
    ("set-ntp", _SERVICE),
    ("sudo ldconfig", Effect(HOST)),
    ("sudo apt", _PACKAGES),
    ("sudo dnf", _PACKAGES),
    ("sudo zypper", _PACKAGES),
    ("sudo pacman", _PACKAGES),
    ("ubuntu-drivers", _PACKAGES),
    ("efa_installer", _PACKAGES),
    ("curl -O", Effect(SHELL)),
    ("sudo nvidia-ctk", Effect(HOST, "changes how containers of this machine start")),
    ("pip install", _PIP),
    ("conda install", _PIP),
    ("-m venv", Effect(SHELL)),
    ("git lfs", Effect(SHELL)),
    ("pip uninstall", _PIP),
    ("usermod ", Effect(HOST, "the group opens more than this device; log in again")),
    (" -mig ", Effect(HOST, "the GPU must be idle; instances on it are lost")),
    (" -pm 1", Effect(HOST)),
    (" -pl ", Effect(HOST, "more power is drawn, and more heat made")),
    (" -c DEFAULT", Effect(HOST, "several users' programs may then share a GPU")),
    (" -e 1", Effect(HOST)),
    (" -e 0", Effect(HOST)),
    (" -re", Effect(HOST, "the counts so far are lost")),
    ("cma_roce_mode", Effect(HOST)),
    (" mtu ", Effect(HOST, "frames are lost where a switch or a node does not carry it")),
    ("ip link set", Effect(HOST)),
    ("nvidia-cuda-mps-control -d", Effect(SHELL)),
    ("sudo tee ", Effect(HOST, "changes a setting of the running kernel")),
    ("rm -f ", Effect(SHELL, "removes the files")),
    ("mkdir -p", Effect(SHELL)),
    ("sed -i", _FILE),
    (" >> ", _FILE),
    ("ssh-copy-id", Effect(SHELL, "your key then opens the other machine")),
    ("ssh-keygen -t", Effect(SHELL)),
    ("ssh-keygen -R", Effect(SHELL, "the machine's next key is believed unseen")),
    ("docker run --rm", Effect(HOST)),
    ("podman run --rm", Effect(HOST)),
    ("docker system prune", Effect(SHELL, "removes stopped containers, unused networks and images without a name")),
    ("srun ", Effect("the job script")),
    ("torchrun ", Effect("the job script")),
    ("ulimit -n ", Effect(SHELL)),
    ("ulimit -u ", Effect(SHELL)),
    ("ulimit -l unlimited", Effect(SHELL)),
    ("taskset ", Effect(SHELL)),
    ("export ", Effect(SHELL)),
    ("unset ", Effect(SHELL)),
    ("printf ", _FILE),
)
"""A text of a line -> what the line does; the first that fits."""


def effect_of(line: str) -> Effect | None:
    """What a line changes, or None for one that only looks."""
    return next((effect for text, effect in EFFECTS if text in line), None)


def where_looked(line: str) -> Where:
    """Where a line that only looks is pasted."""
    return HOST if line.startswith("sudo ") or " sudo " in line else SHELL
