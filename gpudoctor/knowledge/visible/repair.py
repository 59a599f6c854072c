"""What a CUDA_VISIBLE_DEVICES that goes wrong was probably meant to say, on the machine at hand.

People write "cuda:0", "0-3", "[0,1]", "'0,1'", "0;1", a UUID without its prefix or in capitals, a PCI id; quotes,
commas and digits as word processors and East Asian keyboards set them. Whatever points at one device of this machine is
turned into the form that CUDA takes; the rest is left out, unless it holds the number of a device: no correction drops
a GPU.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from gpudoctor.knowledge.visible.order import Instance, Slot

HIDING = frozenset({"", "-1", "none", "void", "nodevfiles", "null", "nil", "false"})
"""Values by which people and schedulers hide every GPU ("NoDevFiles": old Slurm; "-1": TensorFlow's habit)."""
FEWEST_HEX_DIGITS = 4
"""Shorter text without a prefix is not taken for a UUID: `nvidia-smi -L` shows 32 digits, and people cut at 8."""
DECORATION = " \t\r\n\v\f\"'`[](){}<>"
ODD = str.maketrans({**dict.fromkeys("\u2032\u2033\u00b4", '"'), **dict.fromkeys("\u3001\u060c\u066b\u00b7", ",")})
"""Quotes and commas to people, and to Unicode's categories other punctuation."""
SAME_SIGN = ("<wide>", "<narrow>", "<small>", "<vertical>")
"""How Unicode marks what is another sign in its form only: a full-width comma, and no raised 2."""
IN_ASCII = {"Ps": '"', "Pe": '"', "Pi": '"', "Pf": '"', "Pd": "-", "Cf": "", "Zs": " "}
"""Brackets, quotes, dashes, signs without width and blanks, of any script, by Unicode's categories."""


class NamedDevice(NamedTuple):
    """A device that an entry points at; `ordinal` is None when it was named by UUID or PCI id."""

    slot: Slot
    instance: Instance | None
    ordinal: int | None


def repaired(value: str, slots: tuple[Slot, ...], *, several_mig: bool) -> str | None:
    """A value that selects what `value` seems to mean, or None where nothing can be made of it.

    `several_mig`: this driver lets a process have more than one MIG device.
    """
    given, value = value, plain(value)
    if value.strip(DECORATION).lower() in HIDING:
        return None
    if value.strip(DECORATION).lower() == "all":
        return ",".join(str(ordinal) for ordinal in range(len(slots))) or None
    if _means_all(_tokens(value), slots):
        return ",".join(str(ordinal) for ordinal in range(len(slots)))
    read = {token: _read(token, slots) for token in _tokens(value)}
    if any(not devices and _names_one(token, slots) for token, devices in read.items()):
        return None
    named = _distinct(device for devices in read.values() for device in devices)
    named = _within_mig_limits(named, several_mig)
    if not named:
        return None
    if all(device.ordinal is not None for device in named):
        meant = ",".join(str(device.ordinal) for device in named)
    else:
        names = [device.instance.uuid if device.instance else device.slot.uuid for device in named]
        if not all(names):
            return None
        meant = ",".join(names)
    return None if meant == given else meant


def plain(value: str) -> str:
    """In ASCII where that is plainly meant: its signs and digits in other widths, forms and scripts."""
    if value.isascii():
        return value
    return "".join(map(_in_ascii, value.translate(ODD)))


def _in_ascii(letter: str) -> str:
    if letter.isascii():
        return letter
    if unicodedata.decomposition(letter).startswith(SAME_SIGN):
        letter = unicodedata.normalize("NFKC", letter)
    category = unicodedata.category(letter) if len(letter) == 1 else ""
    return str(unicodedata.digit(letter)) if category == "Nd" else IN_ASCII.get(category, letter)


def _names_one(token: str, slots: tuple[Slot, ...]) -> bool:
    """Whether a text that nobody can read holds the number of a GPU all the same: "x3y", and no UUID or negative."""
    if not token.isascii() and any(letter.isdigit() for letter in token):
        return True
    numbers = re.findall(r"(?<![0-9-])[0-9]{1,4}(?![0-9])", token)
    return not re.match(r"(?i)gpu-|mig-|-", token) and "-" not in token and any(int(n) < len(slots) for n in numbers)


def _means_all(tokens: list[str], slots: tuple[Slot, ...]) -> bool:
    """Whether as many numbers are listed as there are GPUs, and one counts past the last: 1,2,3,4 of four."""
    numbers = {int(token) for token in tokens if re.fullmatch(r"[0-9]{1,4}", token)}
    whole = not any(slot.mig_mode for slot in slots)
    return whole and len(numbers) == len(tokens) == len(slots) and max(numbers, default=0) >= len(slots)


def looks_like_uuid(text: str, slots: tuple[Slot, ...]) -> bool:
    """Whether the text is the beginning of a GPU's UUID, without the prefix that CUDA wants."""
    digits = text.strip(DECORATION).lower()
    return _is_bare_uuid(digits) and any(slot.uuid.lower().startswith("gpu-" + digits) for slot in slots)


def _is_bare_uuid(text: str) -> bool:
    return len(text) >= FEWEST_HEX_DIGITS and re.fullmatch(r"[0-9a-f]+(-[0-9a-f]*)*", text) is not None


def _tokens(value: str) -> list[str]:
    tokens = (token.strip(DECORATION) for token in re.split(r"[,;|\s]+", value))
    return [token for token in tokens if token]


def _read(token: str, slots: tuple[Slot, ...]) -> list[NamedDevice]:
    count = len(slots)
    span = re.fullmatch(r"([0-9]{1,4})(?:-|\.\.)([0-9]{1,4})", token)
    if span:
        first, last = int(span[1]), int(span[2])
        return [_ordinal(number, slots) for number in range(first, last + 1)] if first <= last < count else []
    named = _by_name(token.lower(), slots)
    if named is not None:
        return [named]
    if looks_like_uuid(token.lower().removeprefix("gpu-"), slots):
        return []  # the beginning of several UUIDs
    labelled = re.fullmatch(r"(?:cuda|gpu|device|/dev/nvidia)[:#_ -]?([0-9]{1,2})", token, re.IGNORECASE)
    number = labelled or re.match(r"\+?([0-9]{1,4})(?![0-9])", token)
    if number and int(number[1]) < count:
        return [_ordinal(int(number[1]), slots)]
    return []


def _ordinal(number: int, slots: tuple[Slot, ...]) -> NamedDevice:
    slot = slots[number]
    return NamedDevice(slot, slot.instances[0] if slot.mig_mode and slot.instances else None, number)


def _by_name(text: str, slots: tuple[Slot, ...]) -> NamedDevice | None:
    """The one device whose UUID (or PCI id) this is, whole or shortened; None for none or several."""
    if re.fullmatch(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]", text):
        return _only([NamedDevice(slot, None, None) for slot in slots if not slot.mig_mode and slot.pci.endswith(text)])
    prefixed = text if text.startswith(("gpu-", "mig-")) else "gpu-" + text
    if not _is_bare_uuid(prefixed[4:]) and not prefixed.startswith("mig-gpu-"):
        return None
    if prefixed.startswith("gpu-"):
        return _only([NamedDevice(slot, None, None) for slot in slots if slot.uuid.lower().startswith(prefixed)])
    return _only(
        [
            NamedDevice(slot, instance, None)
            for slot in slots
            for instance in slot.instances
            if instance.uuid
            and (instance.uuid.lower().startswith(prefixed) or prefixed == tuple_form(slot, instance).lower())
        ]
    )


def tuple_form(slot: Slot, instance: Instance) -> str:
    """A MIG device's name for drivers before R470: "MIG-GPU-<uuid>/<gpu instance>/<compute instance>"."""
    return f"MIG-{slot.uuid}/{instance.gpu_instance}/{instance.compute_instance}"


def _only(devices: list[NamedDevice]) -> NamedDevice | None:
    return devices[0] if len(devices) == 1 else None


def _distinct(devices: Iterable[NamedDevice]) -> list[NamedDevice]:
    """Each device once, in the order of first mention."""
    kept: dict[tuple[str, str, str, int | None], NamedDevice] = {}
    for device in devices:
        slot, instance = device.slot, device.instance
        kept.setdefault((slot.uuid, slot.pci, instance.uuid if instance else "", slot.nvml), device)
    return list(kept.values())


def _within_mig_limits(devices: list[NamedDevice], several_mig: bool) -> list[NamedDevice]:
    if not several_mig:
        first = next((device for device in devices if device.instance), None)
        return [first] if first else devices
    kept: dict[tuple[str, int | None] | int, NamedDevice] = {}
    for place, device in enumerate(devices):
        instance = device.instance
        kept.setdefault((device.slot.uuid, instance.gpu_instance) if instance else place, device)
    return list(kept.values())
