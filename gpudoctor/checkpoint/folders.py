"""Checkpoints of several files: what the folder or its index is, what belongs to it, and what reads it."""

import os
import stat
from pathlib import Path

import msgspec

from gpudoctor.checkpoint.allowance import for_listing
from gpudoctor.checkpoint.source import OpenFile
from gpudoctor.checkpoint.unreadable import BadFile, printable

MOST_INDEX_BYTES = 64 * 1024 * 1024
MOST_FILES = 10_000


class Index(msgspec.Struct):
    """model.safetensors.index.json, pytorch_model.bin.index.json (transformers)."""

    weight_map: dict[str, str]


def folder(path: str) -> str:
    """What a folder is, with what to do. Raises `BadFile` when it cannot be read."""
    try:
        with os.scandir(path) as iterator:
            names = sorted(entry.name for entry, _ in zip(iterator, range(MOST_FILES), strict=False))
    except OSError as error:
        raise BadFile(f"it cannot be read: {error.strerror or error}") from None
    known = set(names)
    place = printable(path, 300).rstrip("/")
    if ".metadata" in known and any(name.endswith(".distcp") for name in names):
        return (
            "it is a folder of torch.distributed.checkpoint (FSDP, DCP), one part a rank: "
            f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {place} OUT.pt makes one file of it"
        )
    if any(name.endswith(".distcp") for name in names):
        return "it is a folder of torch.distributed.checkpoint without its .metadata: rank 0 did not finish the save"
    if "zero_to_fp32.py" in known or ("latest" in known and any(name.startswith("global_step") for name in names)):
        return f"it is a folder of DeepSpeed: python {place}/zero_to_fp32.py {place} OUT makes plain weights of it"
    for name in names:
        if name.endswith((".safetensors.index.json", ".bin.index.json")):
            return f"it is a folder of several files: name its index, {place}/{printable(name)}"
    files = [name for name in names if name.endswith((".safetensors", ".pt", ".pth", ".bin", ".ckpt"))]
    if files:
        return f"it is a folder: name a file in it, such as {place}/{printable(files[0])}"
    return "it is a folder without a checkpoint in it"


def check_link(path: str) -> None:
    """Refuse a file of an index that is another user's link to somebody else's file: its beginning would be shown to
    root. Links of one's own (as the cache of huggingface_hub has) are followed. Raises `BadFile`."""
    try:
        link, target = os.lstat(path), os.stat(path)  # noqa: PTH116 - of names that need not be text
    except (OSError, ValueError):
        return  # said when it is opened
    own = getattr(os, "geteuid", lambda: link.st_uid)()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (own, 0, target.st_uid):
        raise BadFile("it is a link that another user has made, to a file that is not that user's: not followed")


def is_index(source: OpenFile) -> bool:
    """Whether a file is a JSON text with a weight_map."""
    if not 0 < source.size <= MOST_INDEX_BYTES or source.read(0, 1) not in (b"{", b" ", b"\n"):
        return False
    return source.path.endswith(".json") and b'"weight_map"' in source.read(0, source.size)


def shards(path: str, raw: bytes) -> dict[str, str]:
    """Names of tensors -> paths of the files that an index tells. Raises `BadFile`."""
    for_listing(len(raw))
    try:
        index = msgspec.json.decode(raw, type=Index)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BadFile("it is a JSON text, and no index of a checkpoint: it has no weight_map") from None
    here = Path(path).parent
    files_by_name: dict[str, str] = {}
    for name, file in index.weight_map.items():
        if not file or file in (".", "..") or "/" in file or "\\" in file or "\0" in file:
            raise BadFile(f"it names the file {printable(file)}, which is not beside it: do not load it")
        files_by_name[name] = str(here / file)
    if len(set(files_by_name.values())) > MOST_FILES:
        raise BadFile(f"it names more than {MOST_FILES} files")
    return files_by_name
