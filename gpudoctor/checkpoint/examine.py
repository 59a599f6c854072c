"""The child that reads a checkpoint: one that is damaged, endless or on a dead file system costs this process only."""

import json
import os
import sys
import time
from dataclasses import replace
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec

from gpudoctor import programs
from gpudoctor.checkpoint import allowance, folders, judge, loading, wrappers
from gpudoctor.checkpoint.find import StateDict, parts, state_dicts
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.nonfinite import NotFinite, counts as can_be_nan
from gpudoctor.checkpoint.opened import opened
from gpudoctor.checkpoint.place import check_place
from gpudoctor.checkpoint.report import LARGEST, MOST_LISTED, CheckpointReport, TensorEntry
from gpudoctor.checkpoint.scan import Scanned, scan
from gpudoctor.checkpoint.source import OpenFile
from gpudoctor.checkpoint.unreadable import TOO_MUCH_MEMORY, BadFile, printable
from gpudoctor.checkpoint.values import Tensor
from gpudoctor.checkpoint.wrappers import Cleaned
from gpudoctor.marked import MARK
from gpudoctor.read.lifeline import end_with_the_doctor

SECONDS_BETWEEN_BEATS = 0.3
LONGEST_NAME = 500


class FileWish(msgspec.Struct, frozen=True):
    """What is asked of the child."""

    file: str
    like: str = ""
    key: str = ""
    values: bool = True
    out: str = ""
    """Where the clean copy goes; empty: none is wanted."""
    force: bool = False
    """Write it though it is many times larger than the file."""


def decoded(text: str) -> FileWish:
    return FileWish(**json.loads(text))


def say(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(MARK + msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


class Beats:
    """Tells the doctor now and then that there is progress."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.done = 0
        self._last = 0.0

    def __call__(self, count: int = 0) -> None:
        self.done += count
        allowance.for_numbers(count)
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_BEATS:
            self._last = now
            say({"done": self.done, "of": self.total})


def main(arguments: list[str]) -> None:
    """Entry point: `arguments` is a `FileWish` as JSON."""
    end_with_the_doctor()
    programs.go_back()
    allowance.begin()
    wish = decoded(arguments[0])
    answer(lambda: {"report": msgspec.to_builtins(examined(wish))})
    os._exit(0)


def answer(work: Any) -> None:
    """Say what it gives, or why it gives nothing."""
    try:
        said = work()
    except BadFile as error:
        said = {"unreadable": str(error), "status": error.status}
    except MemoryError:
        said = {"unreadable": TOO_MUCH_MEMORY}
    except RecursionError:
        said = {"unreadable": "its values are nested deeper than a checkpoint's"}
    say(said)


def examined(wish: FileWish) -> CheckpointReport:
    """Raises `BadFile`."""
    if wish.out:
        check_place(wish.file, wish.out)
    like = like_shapes(wish.like) if wish.like else None
    with OpenFile(wish.file) if not is_folder(wish.file) else refuse_folder(wish.file) as source:
        beats = Beats(source.size)
        beats()
        if folders.is_index(source):
            return examined_index(wish, source, like, beats)
        read = read_file(source, wish.key, wish.values, beats)
        return report(wish, source.size, read, like)


class ReadFile(NamedTuple):
    """What one file holds."""

    loaded: Loaded
    dicts: list[StateDict]
    chosen: StateDict | None
    names: Cleaned | None
    counts: dict[int, NotFinite]
    damaged: frozenset[str]


def is_folder(file: str) -> bool:
    return os.path.isdir(file)  # noqa: PTH112 - a text as the user gave it


def refuse_folder(file: str) -> NoReturn:
    raise BadFile(folders.folder(file))


def read_file(source: OpenFile, key: str, values: bool, beats: Beats) -> ReadFile:
    """List a file, and read its numbers where that is wanted."""
    if values:
        source.check_written()
    loaded = opened(source, beats)
    dicts = state_dicts(loaded.root)
    chosen = choose(dicts, key)
    scanned = Scanned({}, frozenset())
    if values:
        scanned = scan(source, loaded, list(chosen.tensors.values()) if chosen else _loose(loaded), beats)
    else:
        _all_there(loaded, chosen)
    source.check_unchanged()
    return ReadFile(loaded, dicts, chosen, cleaned_names(loaded, chosen), scanned.counts, scanned.damaged)


def examined_index(wish: FileWish, source: OpenFile, like: loading.Like | None, beats: Beats) -> CheckpointReport:
    """All files of an index as one state dict. Raises `BadFile`, also for a file that is missing."""
    if wish.out:
        raise BadFile("--fix copies one file, and this is an index of several; name one of them")
    where = folders.shards(wish.file, source.read(0, min(source.size, folders.MOST_INDEX_BYTES)))
    tensors: dict[str, Tensor] = {}
    counts: dict[int, NotFinite] = {}
    damaged: set[str] = set()
    first: Loaded | None = None
    total_size = 0
    for number, file in enumerate(dict.fromkeys(where.values())):
        try:
            folders.check_link(file)
            with OpenFile(file) as shard:
                beats.total += shard.size
                read = read_file(shard, "", wish.values, beats)
                total_size += shard.size
        except BadFile as error:
            raise BadFile(f"its file {printable(os.path.basename(file))}: {error}") from None  # noqa: PTH119
        first = first or read.loaded
        first.names.update(read.loaded.names)
        for name, tensor in (read.chosen.tensors if read.chosen else {}).items():
            for part in (tensor, *tensor.parts):
                if part.storage is not None:  # keys are each file's own
                    part.storage = replace(part.storage, key=f"{number}/{part.storage.key}")
            if where.get(name) == file:
                tensors[name] = tensor
        counts.update(read.counts)
        damaged |= {f"{number}/{key}" for key in read.damaged}
    absent = [name for name in where if name not in tensors]
    if absent or first is None:
        first_absent = printable(absent[0]) if absent else "nothing"
        raise BadFile(
            f"it names {first_absent}, which is not in its file; {len(absent)} of {len(where)} tensors are missing"
        )
    chosen = StateDict("", "", {name: tensors[name] for name in where})
    first.is_index = True
    read = ReadFile(first, [chosen], chosen, cleaned_names(first, chosen), counts, frozenset(damaged))
    kind: Literal["safetensors index", "torch index"] = (
        "safetensors index" if first.format == "safetensors" else "torch index"
    )
    return replace_format(report(wish, total_size, read, like), kind)


def replace_format(
    checkpoint_report: CheckpointReport, kind: Literal["safetensors index", "torch index"]
) -> CheckpointReport:
    return msgspec.structs.replace(checkpoint_report, format=kind)


def _loose(loaded: Loaded) -> list[Tensor]:
    from gpudoctor.checkpoint.walk import tensors

    return list(tensors(loaded.root))


def _all_there(loaded: Loaded, chosen: StateDict | None) -> None:
    """Every storage lies within the file, though nothing of it is read."""
    seen: set[str] = set()
    for tensor in chosen.tensors.values() if chosen else _loose(loaded):
        if tensor.storage is not None and tensor.storage.key not in seen:
            seen.add(tensor.storage.key)
            loaded.region(tensor.storage)


def choose(dicts: list[StateDict], key: str) -> StateDict | None:
    """The state dict of `key`, or the model's. Raises `BadFile` when there is none of that key."""
    if not key:
        return dicts[0] if dicts else None
    for state_dict in dicts:
        if key in (state_dict.key, state_dict.last):
            return state_dict
    there = ", ".join(printable(state_dict.last or "(the file itself)", 60) for state_dict in dicts[:8]) or "none"
    raise BadFile(f"it has no state dict under {printable(key)}; it has: {there}")


def cleaned_names(loaded: Loaded, chosen: StateDict | None) -> Cleaned | None:
    if chosen is None:
        return None
    return wrappers.cleaned(list(chosen.tensors), attribute=bool(loading.lightning(loaded.root)))


def like_shapes(file: str) -> loading.Like:
    """Names and shapes of another file's model, as it was saved. Raises `BadFile` that names it."""
    try:
        with OpenFile(file) if not is_folder(file) else refuse_folder(file) as source:
            if folders.is_index(source):
                raise BadFile("it is an index of several files; name a file that has the whole model")
            loaded = opened(source, Beats())
            chosen = choose(state_dicts(loaded.root), "")
            names = cleaned_names(loaded, chosen)
    except BadFile as error:
        raise BadFile(f"--like {printable(file, 200)}: {error}") from None
    if chosen is None or names is None:
        raise BadFile(f"--like {printable(file, 200)}: it holds no state dict")
    return loading.Like({name: tensor.shape for name, tensor in chosen.tensors.items()}, names)


def as_text(path: str) -> str:
    """A path for a reader; its bytes need not be text."""
    return os.fsencode(path).decode("utf-8", "replace")


def report(wish: FileWish, size: int, read: ReadFile, like: loading.Like | None) -> CheckpointReport:
    loaded, chosen, names = read.loaded, read.chosen, read.names
    file = as_text(wish.file)
    tensors = chosen.tensors if chosen else {}
    counts = {name: total(tensor, read.counts) for name, tensor in tensors.items()}
    damaged = [
        name
        for name, tensor in tensors.items()
        if any(part.storage and part.storage.key in read.damaged for part in (tensor, *tensor.parts))
    ]
    refused = judge.refused_names(loaded.names)
    loadings = (
        loading.loading(file, loaded, chosen, names, like, as_text(os.path.basename(wish.like)), bool(refused))  # noqa: PTH119
        if chosen and names
        else ()
    )
    groups = shared(tensors)
    first = {name: group[0] for group in groups for name in group[1:]}
    dtypes: dict[str, int] = {}
    prefixes: dict[str, int] = {}
    for name, tensor in tensors.items():
        dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + 1
        top = printable(name.partition(".")[0], LONGEST_NAME)
        if top in prefixes or len(prefixes) < 1000:
            prefixes[top] = prefixes.get(top, 0) + 1
    own = [tensor for name, tensor in tensors.items() if name not in first]
    return CheckpointReport(
        file=file,
        size_bytes=size,
        format=loaded.format,
        written_by=loading.writers(loaded.root, chosen, names),
        chosen=printable(chosen.key, LONGEST_NAME) if chosen else "",
        parts=parts(loaded.root, read.dicts),
        tensors=tuple(
            entry(name, tensor, first.get(name, ""), counts[name])
            for (name, tensor), _ in zip(tensors.items(), range(MOST_LISTED), strict=False)
        ),
        tensor_count=len(tensors),
        parameters=min(LARGEST, sum(tensor.elements for tensor in own)),
        tensor_bytes=min(LARGEST, sum(tensor.elements * tensor.item_bytes for tensor in own)),
        dtypes=dict(sorted(dtypes.items(), key=lambda item: -item[1])),
        prefixes=prefixes,
        wrappers=tuple(dict.fromkeys(names.wrappers)) if names else (),
        shared=tuple(tuple(printable(name, LONGEST_NAME) for name in group[:100]) for group in groups[:1000]),
        refused=refused,
        values_read=wish.values and all(count is not None for count in counts.values()),
        loading=loadings,
        problems=judge.findings(
            file,
            loaded.root,
            loaded,
            chosen,
            names,
            {name: count for name, count in counts.items() if count is not None},
            damaged,
            loadings,
            like is not None,
        ),
    )


def total(tensor: Tensor, counts: dict[int, NotFinite]) -> NotFinite | None:
    """Of a tensor and its parts; None when something of it was not counted."""
    not_finite = NotFinite()
    for part in (tensor, *tensor.parts):
        if part.storage is None or not part.elements or not can_be_nan(part.dtype):
            continue
        own = counts.get(id(part))
        if own is None:
            return None
        not_finite += own
    return not_finite


def shared(tensors: dict[str, Tensor]) -> list[tuple[str, ...]]:
    """Groups of names whose tensors look at the same numbers."""
    by_key: dict[str, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        if tensor.storage is not None and tensor.elements:
            begin = tensor.storage.view * tensor.storage.item_bytes + tensor.offset * tensor.item_bytes
            by_key.setdefault(tensor.storage.key, []).append((begin, begin + tensor.span * tensor.item_bytes, name))
    order = {name: number for number, name in enumerate(tensors)}
    groups: list[tuple[str, ...]] = []
    for users in by_key.values():
        if len(users) < 2:
            continue
        reach = -1
        group: list[str] = []
        for begin, end, name in sorted(users):
            if begin >= reach and group:
                groups.append(tuple(sorted(group, key=order.__getitem__)))
                group = []
            group.append(name)
            reach = max(reach, end)
        groups.append(tuple(sorted(group, key=order.__getitem__)))
    return [group for group in groups if len(group) > 1]


def entry(name: str, tensor: Tensor, same_as: str, count: NotFinite | None) -> TensorEntry:
    counted = count is not None and can_be_nan(tensor.dtype)
    storage = tensor.storage or next((part.storage for part in tensor.parts if part.storage), None)
    return TensorEntry(
        name=printable(name, LONGEST_NAME),
        dtype=tensor.dtype,
        shape=tensor.shape,
        size_bytes=min(LARGEST, tensor.elements * tensor.item_bytes),
        kind=tensor.kind,
        device=storage.location if storage else "",
        shared_with=printable(same_as, LONGEST_NAME),
        nan=count.nan if count is not None and counted else None,
        infinite=count.infinite if count is not None and counted else None,
    )
