"""Two captures -> what differs, in words, most telling first."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.compare.facts import FACTS, OF_A_PROCESS
from gpudoctor.compare.judging import ComparedFact, Severity
from gpudoctor.compare.leaves import NONE, Spot, spots
from gpudoctor.compare.pairing import Pairing, is_redacted, place, shown_key
from gpudoctor.knowledge.wording import gpus, listed, ranges
from gpudoctor.severity import WORST_FIRST
from gpudoctor.snapshot import Change, Gpu, Missing, Reading, Snapshot, is_left_out

ORDER = {name: rank for rank, name in enumerate(FACTS)}
LAST = ("better", "new", "mended")
"""Nobody asks for these at three in the morning."""
LONGEST = 120
WHO = ("nvidia.gpus[].name",)
CALLED = {"RdmaPort": "port", "NvLink": "link", "MigDevice": "MIG device", "Gid": "GID"}


class ToldSpot(NamedTuple):
    """A change, with where it stands."""

    change: Change
    place: str
    items: tuple[tuple[Any, Any], ...]
    readings: tuple[Reading[Any] | None, Reading[Any] | None]


class DiffersIn(NamedTuple):
    """What two captures gave."""

    told: tuple[ToldSpot, ...]
    """Unfolded, and in no order."""
    unread: tuple[Spot, ...]
    """Places that count and were read in one of them only."""
    private: bool
    """What a redacted capture hides could not be compared."""


def compared(before: Snapshot, after: Snapshot, pairing: Pairing) -> DiffersIn:
    private = is_redacted(before) or is_redacted(after)
    told_spots: list[ToldSpot] = []
    unread: list[Spot] = []
    for spot in spots(before, after, pairing):
        fact = FACTS.get(spot.place)
        if isinstance(spot.before, Missing) or isinstance(spot.after, Missing):
            if fact is not None or any(name.startswith(spot.place) for name in FACTS):
                unread.append(spot)
        elif fact is not None and not (fact.of_machine and (private or pairing.kinship != "same")):
            told_spots += _judged(spot, fact)
    return DiffersIn(tuple(_without_echoes(told_spots, after)), tuple(unread), private)


def unread_gpus(unread: Iterable[Spot]) -> Iterator[ToldSpot]:
    """The GPUs that told who they are, and tell it no more."""
    for spot in unread:
        why = spot.after
        if spot.place in WHO and isinstance(why, Missing) and why.kind in ("lost", "timeout", "failed"):
            if spot.readings[1] is None or is_left_out(spot.readings[1]):
                continue
            change = Change("error", "unread", _subject(spot), "it", after=why.reason, gpus=_gpus(spot))
            yield ToldSpot(change, "nvidia.gpus[]", spot.items, spot.readings)


def _judged(spot: Spot, fact: ComparedFact) -> Iterator[ToldSpot]:
    """What a fact's rule says of it; nothing where there is no difference, or a file did not tell."""
    before, after = spot.before, spot.after
    gone, new = _is_none(after, fact), _is_none(before, fact)
    if spot.place == "environment{}" and OF_A_PROCESS.fullmatch(_key(spot)):
        return
    if spot.place.startswith("network.interfaces[]") and _is_virtual(spot):
        return
    if (gone or new) and not fact.none and not fact.takes_none and NONE not in (before, after):
        return  # a plain field that holds nothing was not told, as by an earlier version
    if gone or new:
        if gone and new:
            return
        kind: Any = "changed" if fact.none or not spot.place.endswith(("[]", "{}")) else "gone" if gone else "new"
        severity: Severity = fact.gone if gone else "info"
        kind = "worse" if kind == "changed" and severity != "info" else kind
    else:
        course = fact.judge(before, after)
        if course == "same":
            return
        kind = course
        severity = fact.severity if course == "worse" else "warning" if course == "downgrade" else "info"
    none = fact.none or NONE
    change = Change(
        severity=severity,
        kind=kind,
        subject=_subject(spot),
        fact=fact.words.format(key=_key(spot)),
        before="" if kind == "new" else none if new else _shown(before, fact),
        after="" if kind == "gone" else none if gone else _shown(after, fact),
        gpus=_gpus(spot),
    )
    yield ToldSpot(change, spot.place, spot.items, spot.readings)


def _key(spot: Spot) -> str:
    """Of a mapping."""
    return next((str(key) for key in spot.items[-1] if key is not None), "") if spot.place.endswith("{}") else ""


def _is_none(value: Any, fact: ComparedFact) -> bool:
    return value is NONE or (not fact.takes_none and (value is None or value == ""))


def _shown(value: Any, fact: ComparedFact) -> str:
    if isinstance(value, Gpu):
        text = value.name.value_or("")
    elif isinstance(value, Struct):
        text = getattr(value, "model", getattr(value, "version", ""))
    else:
        text = " ".join(fact.shown(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _is_virtual(spot: Spot) -> bool:
    """Interfaces of containers and bridges come and go with them."""
    return all(each is None or each.kind not in ("ethernet", "ipoib", "bond", "vlan") for each in spot.items[0])


# ---------------------------------------------------------------- what it is about


def _subject(spot: Spot) -> str:
    """ "GPU 5 (0000:6b:00.0)", "mlx5_3 port 1": the last thing with a name that leads there."""
    words = [_called(old, new) for old, new in spot.items if isinstance(old, Struct) or isinstance(new, Struct)]
    return " ".join(word for word in words if word)


def _called(old: Any, new: Any) -> str:
    item = new if new is not None else old
    if isinstance(item, Gpu):
        known = [each for each in (new, old) if each is not None]
        slot = next((place(gpu.pci_bus_id.value) for gpu in known if gpu.pci_bus_id.is_read), "")
        uuid = next((gpu.uuid.value for gpu in known if gpu.uuid.is_read), "")
        inside = ", ".join(part for part in (slot, uuid if old is None or new is None else "") if part)
        number = item.index if old is None or new is None or old.index == new.index else f"{old.index}, now {new.index}"
        return f"GPU {number}" + (f" ({inside})" if inside else "")
    kind = type(item).__name__
    if kind in CALLED:
        return f"{CALLED[kind]} {shown_key(item)}"
    if kind in ("PeerAccess", "TopologyLevel"):
        return f"GPUs {shown_key(item).replace(' ', ' and ')}"
    return place(shown_key(item))


def _gpus(spot: Spot) -> tuple[int, ...]:
    return tuple((new if new is not None else old).index for old, new in spot.items if isinstance(old or new, Gpu))


# ---------------------------------------------------------------- one trouble once


def _without_echoes(told_spots: Sequence[ToldSpot], after: Snapshot) -> Iterator[ToldSpot]:
    """Without what follows from a GPU that is gone or new, and what several places tell alike."""
    slots, number = set(), False
    for each in told_spots:
        if each.place == "nvidia.gpus[]":
            number = True
            gpu = each.items[0][0] or each.items[0][1]
            slots.add(place(gpu.pci_bus_id.value_or("")))
    bus = {place(device.bus_id) for device in after.accelerators.pci.value_or(())}
    seen: set[tuple[str, str]] = set()
    for each in sorted(told_spots, key=lambda told_spot: ORDER[told_spot.place]):
        key = (each.change.subject, each.change.fact)
        if FACTS[each.place].of_gpus and number:
            continue
        if each.place == "accelerators.pci[]" and key[0] in slots:
            continue
        if key in seen and each.place.startswith(("nvidia.kernel", "training.", "cuda.")):
            continue
        seen.add(key)
        if each.place == "nvidia.gpus[]" and each.change.kind == "gone" and after.accelerators.pci.is_read:
            gpu = each.items[0][0]
            where = "still on the PCI bus" if place(gpu.pci_bus_id.value_or("")) in bus else "not on the PCI bus either"
            each = each._replace(change=replace(each.change, before=f"{each.change.before}; {where}"))
        yield each


def folded(told_spots: Iterable[ToldSpot]) -> tuple[Change, ...]:
    """What is alike of many things in one line; errors first, then as the table of facts goes."""
    groups: dict[tuple[Any, ...], list[ToldSpot]] = {}
    for told_spot in told_spots:
        change = told_spot.change
        own = (
            ()
            if change.kind not in ("gone", "new")
            else (change.subject if told_spot.place == "nvidia.gpus[]" else "",)
        )
        key = (told_spot.place, change.fact, change.before, change.after, change.kind, change.severity, own)
        groups.setdefault(key, []).append(told_spot)
    lines = [(members[0].place, _one(members)) for members in groups.values()]
    lines.sort(key=lambda line: (WORST_FIRST[line[1].severity], line[1].kind in LAST, ORDER.get(line[0], len(ORDER))))
    return tuple(change for _, change in lines)


def _one(members: Sequence[ToldSpot]) -> Change:
    first = members[0].change
    if len(members) == 1:
        return first
    subjects = list(dict.fromkeys(member.change.subject for member in members))
    numbers = tuple(dict.fromkeys(index for member in members for index in member.change.gpus))
    last = [member.items[-1] for member in members]
    if numbers and len(numbers) == len(members) and all(len(member.items) == 1 for member in members):
        subject = gpus(sorted(numbers))
    elif all(type(new or old).__name__ == "NvLink" for old, new in last):
        links = ranges((new or old).link for old, new in last)
        subject = f"{gpus(sorted(numbers))} links {links}"
    else:
        subject = listed(subjects)
    checks = tuple(dict.fromkeys(id for member in members for id in member.change.checks))
    return replace(first, subject=subject, gpus=numbers, checks=checks)
