"""The child that writes a clean copy beside its place, reads it again, and compares every byte with the original."""

import hashlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from gpudoctor import programs
from gpudoctor.checkpoint import allowance, safetensors_writer, torch_writer
from gpudoctor.checkpoint.copied import Copied, CopyPlan, PlacedTensor, planned
from gpudoctor.checkpoint.examine import Beats, FileWish, answer, choose, cleaned_names, decoded
from gpudoctor.checkpoint.find import state_dicts
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.opened import opened
from gpudoctor.checkpoint.source import CHUNK, OpenFile, Region
from gpudoctor.checkpoint.unreadable import SWAPPED, BadFile, printable
from gpudoctor.checkpoint.values import ITEM_BYTES, Tensor
from gpudoctor.knowledge.wording import size as in_words
from gpudoctor.read.lifeline import end_with_the_doctor

MOST_GROWTH = 8
"""Times the file: a whole model of shared and packed tensors grows by less (our rule of thumb)."""
SMALL_BYTES = 1024 * 1024
"""A copy of this size never matters."""
HEADROOM_BYTES = 16 * 1024 * 1024
"""Kept free on the file system beyond the copy itself."""


def main(arguments: list[str]) -> None:
    """Entry point: a `FileWish` as JSON, and the temporary file, there and empty, with its device and inode."""
    end_with_the_doctor()
    programs.go_back()
    allowance.begin()
    wish = decoded(arguments[0])
    answer(lambda: {"copied": copied(wish, arguments[1], arguments[2])})
    sys.stdout.flush()
    os._exit(0)


def copied(wish: FileWish, temporary: str, identity: str = "") -> dict[str, Any]:
    """Write to `temporary`, the file of that device and inode ("2049:77"; empty: whichever). Raises `BadFile`."""
    with OpenFile(wish.file) as source:
        beats = Beats()
        loaded = opened(source, beats)
        chosen = choose(state_dicts(loaded.root), wish.key)
        names = cleaned_names(loaded, chosen)
        if chosen is None or names is None:
            raise BadFile("--fix: it holds no state dict that could be copied")
        plan = planned(loaded, chosen, names)
        as_safetensors = wish.out.endswith(".safetensors")
        if as_safetensors:
            safetensors_writer.check(plan, loaded.big_endian)
        check_growth(source, loaded, plan, wish)
        check_room(temporary, plan, as_safetensors)
        beats.total = 2 * plan.size
        try:
            with own(temporary, identity) as file:
                if as_safetensors:
                    safetensors_writer.write(file, plan, tensor_bytes(source, plan, beats))
                else:
                    torch_writer.write(file, plan, storage_bytes(source, plan, beats), loaded.big_endian)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadFile(f"--fix {printable(wish.out, 300)}: {error.strerror or error}") from None
        source.check_unchanged()
        with OpenFile(temporary) as copy:
            if identity and identity != "{}:{}".format(*copy.identity):
                raise BadFile(SWAPPED)
            compare(source, loaded, plan, copy, beats, as_safetensors)
            size = copy.size
        renamed = sum(old != new for old, new in names.names.items())
        return {
            "size_bytes": size,
            "tensors": len(plan.tensors),
            "renamed": renamed,
            "dropped": [printable(name, 300) for name in (*names.dropped, *sorted(chosen.others))][:100],
            "shared": shared_names(plan),
            "listing": listing(plan, as_safetensors),
        }


def own(temporary: str, identity: str) -> IO[bytes]:
    """The file that the doctor has made, and no other that somebody has put in its place since. Raises `BadFile`."""
    number = os.open(temporary, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    about = os.fstat(number)
    if identity and identity != f"{about.st_dev}:{about.st_ino}":
        os.close(number)
        raise BadFile(SWAPPED)
    return os.fdopen(number, "r+b")


def size_of_copy(plan: CopyPlan, as_safetensors: bool) -> int:
    """Bytes, to within a few for each name."""
    wanted = sum(map(safetensors_writer.size_of, plan.tensors)) if as_safetensors else plan.size
    return wanted + 300 * (len(plan.tensors) + len(plan.storages))


def check_growth(source: OpenFile, loaded: Loaded, plan: CopyPlan, wish: FileWish) -> None:
    """Refuse a copy many times larger than its file, before anything is written. Raises `BadFile`."""
    as_safetensors = wish.out.endswith(".safetensors")
    wanted = size_of_copy(plan, as_safetensors)
    if wish.force or wanted <= max(MOST_GROWTH * source.size, SMALL_BYTES):
        return
    why = "because its entries are packed"
    if as_safetensors and plan.size < wanted // 2:
        shared = shared_names(plan)
        why = f"because {shared} tensors that share numbers are written one by one (with .pt they stay shared)"
    raise BadFile(
        f"--fix {printable(wish.out, 300)}: the copy would have {in_words(wanted)}, {wanted // source.size} times the "
        f"{in_words(source.size)} of the file, {why}; nothing was written; --force writes it"
    )


def check_room(temporary: str, plan: CopyPlan, as_safetensors: bool) -> None:
    wanted = size_of_copy(plan, as_safetensors)
    try:
        about = os.statvfs(temporary)
    except (OSError, AttributeError):  # AttributeError: Windows
        return
    room = about.f_bavail * about.f_frsize
    if room < wanted + HEADROOM_BYTES:
        raise BadFile(f"--fix: the copy takes {in_words(wanted)}, and {in_words(room)} are free where it goes")


def shared_names(plan: CopyPlan) -> int:
    """Tensors whose storage another one has too."""
    users: dict[int, int] = {}
    for tensor in plan.tensors:
        users[tensor.storage] = users.get(tensor.storage, 0) + 1
    return sum(count for count in users.values() if count > 1)


def part(source: OpenFile, region: Region, begin: int, end: int) -> Iterator[bytes]:
    """Bytes of a region."""
    if region.packed is None:
        yield from source.chunks(Region(region.offset + begin, end - begin))
        return
    at = 0
    for piece in source.chunks(region):
        after = at + len(piece)
        if after > begin and at < end:
            yield piece[max(begin - at, 0) : end - at]
        at = after


def _watched(pieces: Iterator[bytes], beats: Beats) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        beats(len(piece))


def storage_bytes(source: OpenFile, plan: CopyPlan, beats: Beats) -> Iterator[tuple[int, Iterator[bytes]]]:
    for number, storage in enumerate(plan.storages):
        yield number, _watched(part(source, storage.region, storage.begin, storage.end), beats)


def tensor_bytes(source: OpenFile, plan: CopyPlan, beats: Beats) -> Iterator[Iterator[bytes]]:
    for tensor in safetensors_writer.order(plan):
        storage = plan.storages[tensor.storage]
        begin, end = _within(tensor, storage)
        yield _watched(part(source, storage.region, begin, end), beats)


def _within(tensor: PlacedTensor, storage: Copied) -> tuple[int, int]:
    begin = storage.begin + tensor.offset * ITEM_BYTES[tensor.dtype]
    return begin, begin + safetensors_writer.size_of(tensor)


def compare(
    source: OpenFile, loaded: Loaded, plan: CopyPlan, copy: OpenFile, beats: Beats, as_safetensors: bool
) -> None:
    """Read the copy as any checkpoint is read, and compare it with the original. Raises `BadFile`."""
    read = opened(copy, beats)
    root = read.root
    if type(root) is not dict or list(root) != _names(plan, as_safetensors):
        raise BadFile("--fix: the copy does not have the names that were written; it was thrown away")
    if read.big_endian != loaded.big_endian:
        raise BadFile("--fix: the copy has another byte order; it was thrown away")
    compared: set[str] = set()
    for tensor in plan.tensors:
        own = root[tensor.name]
        if type(own) is not Tensor or (own.dtype, own.shape) != (tensor.dtype, tensor.shape) or own.storage is None:
            raise BadFile(f"--fix: {printable(tensor.name)} is another tensor in the copy; it was thrown away")
        if not as_safetensors and (own.stride, own.offset) != (tensor.stride, tensor.offset):
            raise BadFile(f"--fix: {printable(tensor.name)} is another tensor in the copy; it was thrown away")
        if own.storage.key in compared:
            continue
        compared.add(own.storage.key)
        storage = plan.storages[tensor.storage]
        begin, end = _within(tensor, storage) if as_safetensors else (storage.begin, storage.end)
        here = copy.chunks(read.region(own.storage))
        same = _same(part(source, storage.region, begin, end), _watched(here, beats))
        if not same:
            raise BadFile(f"--fix: the numbers of {printable(tensor.name)} differ in the copy; it was thrown away")


def _names(plan: CopyPlan, as_safetensors: bool) -> list[str]:
    return [tensor.name for tensor in (safetensors_writer.order(plan) if as_safetensors else plan.tensors)]


def _same(one: Iterator[bytes], other: Iterator[bytes]) -> bool:
    """Whether two runs of pieces are the same bytes, wherever they are cut."""
    left = right = b""
    while True:
        left = left or next(one, b"")
        right = right or next(other, b"")
        if not left or not right:
            return not left and not right
        count = min(len(left), len(right), CHUNK)
        if left[:count] != right[:count]:
            return False
        left, right = left[count:], right[count:]


def listing(plan: CopyPlan, as_safetensors: bool) -> str:
    """A fingerprint of names, types, shapes and strides, which torch's own reading of the copy must give too."""
    digest = hashlib.sha256()
    for tensor in sorted(plan.tensors, key=lambda tensor: tensor.name):
        stride = "" if as_safetensors else ",".join(map(str, tensor.stride))
        shape = ",".join(map(str, tensor.shape))
        line = f"{tensor.name}\t{tensor.dtype}\t{shape}\t{stride}\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
