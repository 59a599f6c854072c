"""Who wrote a checkpoint, and how it is loaded: what load_state_dict says as it is, and the lines that are right."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpudoctor.checkpoint import compare, wrappers
from gpudoctor.checkpoint.find import StateDict
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.report import Loading
from gpudoctor.checkpoint.unreadable import printable, quoted
from gpudoctor.checkpoint.values import Tensor
from gpudoctor.checkpoint.wrappers import Cleaned
from gpudoctor.command import command
from gpudoctor.knowledge.wording import listed

LONGEST_NAME = 300
Shapes = Mapping[str, tuple[int, ...]]


class Like(NamedTuple):
    """The model of another file, as that was saved."""

    shapes: Shapes
    names: Cleaned


def lightning(root: Any) -> str:
    """ "PyTorch Lightning 2.6.6" when Lightning wrote the file."""
    version = root.get("pytorch-lightning_version") if type(root) is dict else None
    return f"PyTorch Lightning {printable(version, 20)}" if isinstance(version, str) else ""


def writers(root: Any, chosen: StateDict | None, names: Cleaned | None) -> tuple[str, ...]:
    """Which programs and wrappers left their marks."""
    wrote = [lightning(root)]
    top = root if type(root) is dict else {}
    if "ds_version" in top or "ds_config" in top:
        version = top.get("ds_version")
        wrote.append(f"DeepSpeed {printable(version, 20)}" if isinstance(version, str) else "DeepSpeed")
    if "checkpoint_version" in top and ("args" in top or "iteration" in top):
        wrote.append("Megatron-LM")
    wrote += names.written_by if names else ()
    tensors = list(chosen.tensors.values()) if chosen else []
    if any(tensor.subclass.endswith("DTensor") for tensor in tensors):
        wrote.append("FSDP2 or tensor parallel (DTensor)")
    if chosen and chosen.what == "module object":
        wrote.append("torch.save(model), the whole object")
    return tuple(dict.fromkeys(word for word in wrote if word))


def loading(
    file: str, loaded: Loaded, chosen: StateDict, names: Cleaned, like: Like | None, like_name: str, refused: bool
) -> tuple[Loading, ...]:
    """What load_state_dict says as the file is, and the lines that are right."""
    given = {name: tensor.shape for name, tensor in chosen.tensors.items()}
    plain = {new: given[old] for old, new in names.names.items()}
    model = plain if like is None else like.shapes
    name = "a plain model" if like is None else like_name
    as_it_is = compare.difference(given, model, versions=loaded.format != "safetensors" and not loaded.is_index)
    take, put, fix_names = "", "", names.changed and not as_it_is.fits
    if (
        like is not None
        and fix_names
        and len(compare.difference(plain, model, versions=False).missing) > len(as_it_is.missing)
    ):
        fix_names = False  # the model has the wrapper's names itself
    after = plain if fix_names else given
    kept = not fix_names and loaded.format != "safetensors" and not loaded.is_index
    if like is not None and not compare.difference(after, model, versions=kept).fits:
        take, put = compare.prefix_between(after, model)
        if take or put:
            kept = False
            after = {put + each[len(take) :] if each.startswith(take) else each: shape for each, shape in after.items()}
    lines = load_lines(file, loaded, chosen, names if fix_names else None, take, put, refused)
    if like is not None and like.names.changed and not compare.difference(after, model, versions=kept).fits:
        own = {new: old for old, new in like.names.names.items()}
        meant = {own.get(new, new): given[old] for old, new in names.names.items()}
        if compare.difference(meant, model, versions=False).fits:
            after, kept = meant, False
            lines = lines_by_name(file, loaded, chosen, names, like.names, refused)
    complaint = compare.in_torch_words(as_it_is)
    return (
        Loading(
            model=name,
            error=complaint,
            missing=_names(as_it_is.missing),
            unexpected=_names(as_it_is.unexpected),
            mismatched=_names(mismatch[0] for mismatch in as_it_is.mismatched),
            lines=lines,
            error_after=compare.in_torch_words(compare.difference(after, model, versions=kept)),
            wrapper="" if like is None else _wrapper(names, like.names, like_name),
        ),
    )


def _wrapper(names: Cleaned, like: Cleaned, like_name: str) -> str:
    """ "other.pt was saved in its wrapper (DistributedDataParallel or DataParallel), this file was not"."""
    if like.written_by and not names.written_by:
        return f"{printable(like_name)} was saved in its wrapper ({listed(like.written_by)}), this file was not"
    if names.written_by and not like.written_by:
        return f"this file was saved in its wrapper ({listed(names.written_by)}), {printable(like_name)} was not"
    return ""


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(printable(name, LONGEST_NAME) for name, _ in zip(names, range(1000), strict=False))


def load_lines(
    file: str, loaded: Loaded, chosen: StateDict, names: Cleaned | None, take: str, put: str, refused: bool
) -> tuple[str, ...]:
    """Python that loads the state dict into `model`."""
    distributed = any(is_distributed(tensor) for tensor in chosen.tensors.values())
    if not loaded.is_index and (refused or distributed or chosen.what in ("module object", "nested state dict")):
        clean = os.path.splitext(os.path.basename(file))[0] + "-clean.pt"  # noqa: PTH119, PTH122 - a name, not a place
        return (
            f"# {command('gpudoctor checkpoint {:path} --fix {:path}', file, clean) or 'gpudoctor checkpoint --fix'}",
            f'model.load_state_dict(torch.load({quoted(clean)}, map_location="cpu", weights_only=True))',
        )
    lines = []
    text = quoted(file)
    if loaded.is_index:
        lines += _several(text, loaded.format == "safetensors")
    elif loaded.format == "safetensors":
        lines.append("from safetensors.torch import load_file")
        lines.append(f"state = load_file({text})")
    else:
        lines.append(f'state = torch.load({text}, map_location="cpu", weights_only=True){chosen.key}')
    code = wrappers.expression(names.wrappers) if names else "name"
    if take:
        code += f".removeprefix({quoted(take)})"
    if put:
        code = f"{quoted(put)} + {code}"
    dropped = f" if name not in {list(names.dropped)}" if names and names.dropped else ""
    if code != "name" or dropped:
        lines.append(f"state = {{{code}: tensor for name, tensor in state.items(){dropped}}}")
    lines.append("model.load_state_dict(state)")
    return tuple(lines)


def lines_by_name(
    file: str, loaded: Loaded, chosen: StateDict, names: Cleaned, like: Cleaned, refused: bool
) -> tuple[str, ...]:
    """Python that loads the state dict into a wrapped `model`, whose wrappers stand where no prefix can be put."""
    first = load_lines(file, loaded, chosen, names if names.changed else None, "", "", refused)[:-1]
    return (
        *first,
        f"own = {{{wrappers.expression(like.wrappers)}: name for name in model.state_dict()}}",
        "state = {own[name]: tensor for name, tensor in state.items()}",
        "model.load_state_dict(state)",
    )


def _several(index: str, safetensors: bool) -> list[str]:
    """Lines that load the files of an index into one state dict."""
    load = (
        "load_file(index.with_name(file))"
        if safetensors
        else ('torch.load(index.with_name(file), map_location="cpu", weights_only=True)')
    )
    return [
        *(["from safetensors.torch import load_file"] if safetensors else []),
        "import json, pathlib",
        f"index, state = pathlib.Path({index}), {{}}",
        'for file in set(json.loads(index.read_text())["weight_map"].values()): state.update(' + load + ")",
    ]


def is_distributed(tensor: Tensor) -> bool:
    return tensor.subclass.endswith(".DTensor")
