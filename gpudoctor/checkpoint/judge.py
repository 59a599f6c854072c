"""What is wrong with a checkpoint, for somebody who wants to load it. Pure rules."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpudoctor.check import Fix
from gpudoctor.checkpoint.find import StateDict
from gpudoctor.checkpoint.imports import standing
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.loading import LONGEST_NAME, is_distributed
from gpudoctor.checkpoint.nonfinite import NotFinite
from gpudoctor.checkpoint.report import CheckpointFinding, Loading
from gpudoctor.checkpoint.unreadable import printable
from gpudoctor.checkpoint.values import Name, Object, Tensor
from gpudoctor.checkpoint.wrappers import Cleaned
from gpudoctor.command import Command, command
from gpudoctor.knowledge.wording import counted, listed, size

MOST_NAMED = 20
"""Tensors that a finding names."""
FLAT = ("flat_param", "_flat_param")
UNUSED_FACTOR = 2
UNUSED_MATTERS_BYTES = 16 * 1024 * 1024


def refused_names(names: Iterable[Name]) -> tuple[str, ...]:
    """What torch.load(weights_only=True) does not import."""
    return tuple(sorted({printable(name.full, 200) for name in names if standing(name) != "allowed"}))[:1000]


def findings(
    file: str,
    root: Any,
    loaded: Loaded,
    chosen: StateDict | None,
    names: Cleaned | None,
    counts: Mapping[str, NotFinite],
    damaged: Sequence[str],
    loadings: Sequence[Loading],
    like: bool,
) -> tuple[CheckpointFinding, ...]:
    """The worst first."""
    checkpoint_findings: list[CheckpointFinding | None] = [_damaged(damaged), _refused(file, loaded)]
    if chosen is None:
        checkpoint_findings.append(_no_state_dict(file, root))
    else:
        checkpoint_findings += [
            _distributed(chosen),
            _shards(chosen),
            _flat(chosen),
            _empty(root, chosen),
            _not_finite(chosen, counts),
        ]
        checkpoint_findings += [_whole_object(file, chosen, loaded), _collision(names), _unused(file, chosen, loaded)]
        checkpoint_findings.append(_differs(loadings) if like else _wrapped(file, chosen, names, loaded))
    order = ("error", "warning", "info")
    return tuple(
        sorted(
            (checkpoint_finding for checkpoint_finding in checkpoint_findings if checkpoint_finding is not None),
            key=lambda finding: order.index(finding.severity),
        )
    )


def _verb(names: Sequence[str], one: str, many: str) -> str:
    """ "1 tensor holds", "3 tensors hold"."""
    return f"{counted(len(names), 'tensor')} {one if len(names) == 1 else many}"


def _named(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(printable(name, LONGEST_NAME) for name in names[:MOST_NAMED])


def _damaged(names: Sequence[str]) -> CheckpointFinding | None:
    if not names:
        return None
    return CheckpointFinding(
        id="damaged-record",
        severity="error",
        summary=f"{_verb(names, 'fails its', 'fail their')} checksum: {listed(_named(names), 3)}",
        meaning="Bytes changed since the file was saved, by a disk, memory or a broken copy. torch.load does not look, "
        "and trains on with them.",
        fix=Fix("Copy the file again from where it was saved, and compare both; else use an older checkpoint."),
        tensors=_named(names),
    )


def _refused(file: str, loaded: Loaded) -> CheckpointFinding | None:
    names = refused_names(loaded.names)
    if not names:
        return None
    code = [name.full for name in loaded.names if standing(name) == "other code"]
    first = names[0]
    return CheckpointFinding(
        id="torch-load-refuses",
        severity="warning",
        summary=f"torch.load refuses it: besides tensors its pickle names {listed(names, 3)}",
        meaning=f'From torch 2.6 on, torch.load(FILE) ends with "Unsupported global: GLOBAL {first} was not an allowed '
        'global by default". '
        + (
            "With weights_only=False it runs whatever these names stand for, in the version that is installed."
            if code
            else "It is plain data; weights_only=False would load it, and would run anything else in the file too."
        ),
        fix=Fix(
            "Write the tensors alone to a clean file; or load it with weights_only=False where you know who made it.",
            _copy(file, loaded),
        ),
    )


def _copy(file: str, loaded: Loaded) -> tuple[Command, ...]:
    """The command that writes a clean copy; none for an index, which is not copied."""
    if loaded.is_index:
        return ()
    return (command("gpudoctor checkpoint {:path} --fix {:path}", file, _clean_name(file)),)


def _clean_name(file: str) -> str:
    stem, ending = os.path.splitext(os.path.basename(file))  # noqa: PTH119, PTH122 - a name, not a place
    return f"{stem}-clean{ending if ending == '.safetensors' else '.pt'}"


def _no_state_dict(file: str, root: Any) -> CheckpointFinding:
    from gpudoctor.checkpoint.find import is_optimizer

    if isinstance(root, Tensor):
        what, todo = "one tensor", "torch.load gives it back; it has no names to load by."
    elif is_optimizer(root):
        what, todo = "the state of an optimizer", "optimizer.load_state_dict takes it; the model is in another file."
    elif isinstance(root, Object):
        what = f"an object of {printable(root.of.full)}"
        todo = "It can be used where that class is installed only, and not as the weights of a model."
    else:
        what, todo = "no tensors under names", "The model is in another file, or was not saved."
    return CheckpointFinding(
        id="no-state-dict",
        severity="error",
        summary=f"It holds {what}, and no state dict of a model",
        meaning="model.load_state_dict has nothing to take from it.",
        fix=Fix(todo),
    )


def _shards(chosen: StateDict) -> CheckpointFinding | None:
    names = [name for name, tensor in chosen.tensors.items() if tensor.kind == "shard"]
    if not names:
        return None
    first = chosen.tensors[names[0]]
    return CheckpointFinding(
        id="one-rank-of-several",
        severity="error",
        summary=f"{_verb(names, 'is', 'are')} one rank's part: {printable(names[0])} has "
        f"{list(first.local_shape)} of {list(first.shape)} here ({first.placements or 'a shard'})",
        meaning="The other parts are in the files of the other ranks; this one alone is no model.",
        fix=Fix.of(
            "Save the whole model on rank 0, with the ranks of the run still there: get_model_state_dict gathers it.",
            command("from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict"),
            command("options = StateDictOptions(full_state_dict=True, cpu_offload=True)"),
            command("state = get_model_state_dict(model, options=options)"),
            command('if rank == 0: torch.save(state, "model.pt")'),
        ),
        tensors=_named(names),
    )


def _distributed(chosen: StateDict) -> CheckpointFinding | None:
    names = [name for name, tensor in chosen.tensors.items() if is_distributed(tensor) and tensor.kind != "shard"]
    if not names:
        return None
    return CheckpointFinding(
        id="distributed-tensors",
        severity="warning",
        summary=f"{_verb(names, 'is a DTensor', 'are DTensors')}, such as {printable(names[0])}; all is in this file",
        meaning="A plain model does not take them: load_state_dict mixes DTensor and Tensor and raises.",
        fix=Fix("Write plain tensors to a clean file."),
        tensors=_named(names),
    )


def _flat(chosen: StateDict) -> CheckpointFinding | None:
    names = [name for name in chosen.tensors if name.rpartition(".")[2] in FLAT]
    if not names:
        return None
    return CheckpointFinding(
        id="flat-parameters",
        severity="error",
        summary=f"{_verb(names, 'is a flat parameter', 'are flat parameters')} of FSDP, such as {printable(names[0])}",
        meaning="Many parameters lie in one vector, without their names and shapes: only the same FSDP model on as "
        "many ranks can take them.",
        fix=Fix(
            "Load it there, and save again with StateDictType.FULL_STATE_DICT, or by get_model_state_dict with "
            "full_state_dict=True."
        ),
        tensors=_named(names),
    )


def _empty(root: Any, chosen: StateDict) -> CheckpointFinding | None:
    empty = [name for name, tensor in chosen.tensors.items() if not tensor.elements]
    meta = [name for name, tensor in chosen.tensors.items() if tensor.kind == "meta"]
    if meta:
        return CheckpointFinding(
            id="without-numbers",
            severity="error",
            summary=f"{_verb(meta, 'has', 'have')} no numbers, such as {printable(meta[0])}: saved from the "
            "meta device",
            meaning="The model was saved before it had been given its weights.",
            fix=Fix("Save it after it was materialised (to_empty and loading, or without device='meta')."),
            tensors=_named(meta),
        )
    if len(empty) * 2 <= len(chosen.tensors):
        return None
    is_zero = type(root) is dict and ("ds_version" in root or "ds_config" in root)
    return CheckpointFinding(
        id="empty-tensors",
        severity="error",
        summary=f"{len(empty)} of {counted(len(chosen.tensors), 'tensor')} have no elements, such as "
        f"{printable(empty[0])}",
        meaning="DeepSpeed's ZeRO-3 keeps the weights in the files of the ranks, and none in this one."
        if is_zero
        else "The weights are elsewhere; ZeRO-3 and FSDP save such files when a rank saves its model alone.",
        fix=Fix(
            "Run DeepSpeed's own zero_to_fp32.py in the checkpoint's folder.",
            (command("python zero_to_fp32.py . fp32"),),
        )
        if is_zero
        else Fix("Save the gathered model."),
        tensors=_named(empty),
    )


def _not_finite(chosen: StateDict, counts: Mapping[str, NotFinite]) -> CheckpointFinding | None:
    names = [name for name in chosen.tensors if counts.get(name, NotFinite()) != NotFinite()]
    if not names:
        return None
    first = counts[names[0]]
    many = [
        words
        for number, words in ((first.nan, f"{first.nan} NaN"), (first.infinite, f"{first.infinite} inf"))
        if number
    ]
    total = chosen.tensors[names[0]].elements
    return CheckpointFinding(
        id="values-not-finite",
        severity="error",
        summary=f"{_verb(names, 'holds', 'hold')} NaN or infinity: {listed(_named(names), 3)} "
        f"({' and '.join(many)} of {total} elements{' in the first' if len(names) > 1 else ''})",
        meaning="The training had diverged when it was saved; whatever is computed from it is NaN too. Only masks and "
        "buffers hold infinity on purpose.",
        fix=Fix("Go back to an older checkpoint, and look for the step at which the loss became NaN."),
        tensors=_named(names),
    )


def _whole_object(file: str, chosen: StateDict, loaded: Loaded) -> CheckpointFinding | None:
    if chosen.what != "module object":
        return None
    return CheckpointFinding(
        id="whole-object",
        severity="warning",
        summary="The model itself was saved, and not its state dict: torch.save(model) instead of model.state_dict()",
        meaning="It loads where the same code lies in the same module only, with weights_only=False, and breaks with "
        "the next change of the class.",
        fix=Fix(
            "Write its state dict to a file of its own.",
            _copy(file, loaded),
        ),
    )


def _collision(names: Cleaned | None) -> CheckpointFinding | None:
    if names is None or not names.collision:
        return None
    return CheckpointFinding(
        id="names-collide",
        severity="warning",
        summary=f"Without a wrapper's prefix, two tensors would be named {printable(names.collision)}",
        meaning="The file holds a model with and without its wrapper, or two models in one; no prefix is taken off.",
        fix=Fix("Take the one that is wanted by its prefix."),
    )


def _unused(file: str, chosen: StateDict, loaded: Loaded) -> CheckpointFinding | None:
    stored: dict[str, int] = {}
    spans: dict[str, set[tuple[int, int]]] = {}
    for tensor in chosen.tensors.values():
        if tensor.storage is not None:
            stored[tensor.storage.key] = tensor.storage.size
            spans.setdefault(tensor.storage.key, set()).add((tensor.offset, tensor.span * tensor.item_bytes))
    total = sum(stored.values())
    used = sum(min(stored[key], sum(size for _, size in spans_of_key)) for key, spans_of_key in spans.items())
    if total - used < UNUSED_MATTERS_BYTES or total < UNUSED_FACTOR * used:
        return None
    return CheckpointFinding(
        id="storage-mostly-unused",
        severity="info",
        summary=f"{size(total)} are stored for tensors of {size(used)}: they are views of larger tensors",
        meaning="torch.save writes the whole storage that a view looks into.",
        fix=Fix(
            "A clean copy holds what is looked at; when saving, give it tensor.clone().",
            _copy(file, loaded),
        ),
    )


def _wrapped(file: str, chosen: StateDict, names: Cleaned | None, loaded: Loaded) -> CheckpointFinding | None:
    if names is None or not names.changed:
        return None
    prefixes = listed(f'"{prefix}"' for prefix in dict.fromkeys(names.wrappers)) or listed(names.dropped)
    by = listed(names.written_by) or "the attribute of the Lightning module that is the model"
    first = next((old for old, new in names.names.items() if old != new), next(iter(chosen.tensors)))
    return CheckpointFinding(
        id="wrapper-prefix",
        severity="warning",
        summary=f"Names carry {prefixes}, of {by}: {printable(first)} is {printable(names.names.get(first, first))} in "
        "a plain model",
        meaning="load_state_dict of a plain model misses these keys; with strict=False it loads nothing of them and "
        "says nothing. The model in its wrapper, and LightningModule.load_from_checkpoint, take them as they are.",
        fix=Fix(
            "Take the prefix off while loading (below), or write a clean copy.",
            _copy(file, loaded),
        ),
    )


def _differs(loadings: Sequence[Loading]) -> CheckpointFinding | None:
    loading = next(iter(loadings), None)
    if loading is None or not loading.error:
        return None
    numbers = [
        f"{len(names)} {word}"
        for names, word in (
            (loading.missing, "missing"),
            (loading.unexpected, "unexpected"),
            (loading.mismatched, "of other shape"),
        )
        if names
    ]
    repaired = not loading.error_after
    return CheckpointFinding(
        id="keys-differ",
        severity="warning" if repaired else "error",
        summary=f"The keys of {printable(loading.model)} differ: {', '.join(numbers)}"
        + (
            f"; the names differ only by a prefix{f': {loading.wrapper}' if loading.wrapper else ''}"
            if repaired
            else ""
        ),
        meaning="load_state_dict raises; with strict=False the missing ones keep their random weights.",
        fix=Fix(
            "The lines below load it."
            if repaired
            else "The models differ: build the one that was saved, or load with strict=False where that is meant."
        ),
    )
