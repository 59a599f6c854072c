"""What the notes on a CUDA_VISIBLE_DEVICES mean for the run, and what to type instead."""

from gpudoctor.command import Command, command
from gpudoctor.knowledge.visible.devices import ORDER_VARIABLE, VARIABLE
from gpudoctor.knowledge.visible.entries import shown
from gpudoctor.knowledge.visible.order import PCI_BUS_ID
from gpudoctor.knowledge.visible.selection import Note, Selection

NAMED_ENTRIES = 4
"""More entries than this are counted in a message, not named."""

ASSUMED = "NVIDIA does not document what CUDA does with it; most likely: "


def meaning(note: Note, selection: Selection) -> str:
    """What CUDA does because of it, and so what the program gets."""
    gets = f"the program gets {got(selection)}"
    match note.kind:
        case "empty" | "hides-all":
            text = "Every GPU is hidden: CUDA programs find no device, torch.cuda.is_available() is False."
        case "duplicate":
            text = f"A device named twice makes CUDA drop the whole list: {gets}."
        case "ignored-text":
            text = f"CUDA reads a number and ignores what follows it, ranges too: {gets}."
        case "missing-prefix" if not note.lost:
            text = f"CUDA takes the digits at its beginning for an index: {gets}, whichever was meant."
        case "number-format":
            text = f"Read as a decimal number, {gets}."
        case "mig-parent":
            text = f"Which MIG device a GPU's own index or UUID selects is not documented: {gets}."
        case "mig-limit":
            text = f"{_listed(note.lost)} {'stays' if len(note.lost) == 1 else 'stay'} hidden: {gets}."
        case "order-guess" | "order-invalid":
            text = "CUDA's device numbers can differ from nvidia-smi's, so a number may select another card than meant."
        case _:
            select = "selects" if len(note.lost) == 1 else "select"
            lost = f"{_listed(note.lost)} {select} nothing"
            text = f"The list ends at the first entry that is not valid: {lost}, and {gets}."
    if note.certain or note.kind in ("number-format", "mig-parent", "order-guess", "order-invalid"):
        return text
    return ASSUMED + text[0].lower() + text[1:]


def advice(note: Note, selection: Selection) -> str:
    """What to do, as a sentence; `line_to_paste` has the line to paste."""
    match note.kind:
        case "empty" | "hides-all":
            return f"Unset {VARIABLE}, unless this process is meant to run without a GPU."
        case "order-guess" if selection.enumeration.order == PCI_BUS_ID:
            return "Name GPUs and MIG devices by UUID."
        case "order-guess" | "order-invalid":
            return f"Number the GPUs as nvidia-smi does, with {ORDER_VARIABLE}=PCI_BUS_ID, or name them by UUID."
        case "ambiguous-uuid":
            return f"Give more of the UUID, to tell apart {_listed(note.candidates)}."
        case "mig-parent":
            return "Name the MIG device by its own UUID; `nvidia-smi -L` lists them."
        case "mig-limit":
            return "Start one process for each MIG device, each with its own UUID in the variable."
        case "number-format":
            return "Write the number in plain decimal digits, without leading zeros."
    if selection.suggested is not None:
        return "Set the variable to what was probably meant on this machine."
    return f"Name GPUs by index or UUID, separated by commas; CUDA has {_have(selection)}."


def line_to_paste(note: Note, selection: Selection) -> Command | None:
    """The line to paste, None when what was meant cannot be told."""
    if note.kind in ("empty", "hides-all"):
        return command("unset {:variable}", VARIABLE)
    if note.kind == "order-guess" and selection.enumeration.order == PCI_BUS_ID:
        return command("nvidia-smi -L")
    if note.kind in ("order-guess", "order-invalid"):
        return command("export {:variable}=PCI_BUS_ID", ORDER_VARIABLE)
    if note.kind == "mig-parent":  # what is suggested for another entry still names the parent
        return command("nvidia-smi -L")
    if note.kind in ("ambiguous-uuid", "unknown-uuid") and selection.suggested is None:
        return command("nvidia-smi -L")
    if selection.suggested is None:
        return None
    return command("export {:variable}={:name}", VARIABLE, selection.suggested)


def got(selection: Selection) -> str:
    """ "no GPU", "1 of 8 GPUs", "2 MIG devices"."""
    devices, slots = selection.devices, selection.enumeration.slots
    if not devices:
        return "no GPU"
    if any(device.mig is not None for device in devices):
        return f"{len(devices)} device{'s' * (len(devices) > 1)}"
    return f"{len(devices)} of {len(slots)} GPU{'s' * (len(slots) > 1)}"


def _have(selection: Selection) -> str:
    count = len(selection.enumeration.slots)
    return {0: "none here", 1: "one here, number 0"}.get(count, f"{count} here, 0 to {count - 1}")


def _listed(texts: tuple[str, ...]) -> str:
    named = ", ".join(shown(text) for text in texts[:NAMED_ENTRIES])
    more = len(texts) - NAMED_ENTRIES
    return f"{named} and {more} more" if more > 0 else named
