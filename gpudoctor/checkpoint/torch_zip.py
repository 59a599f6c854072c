"""The format of torch.save since 1.6: a zip file with a pickle, and one stored entry for each storage."""

from gpudoctor.checkpoint import archive
from gpudoctor.checkpoint.allowance import for_listing
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.pickles import Beat, Machine
from gpudoctor.checkpoint.source import OpenFile, Region
from gpudoctor.checkpoint.unreadable import BadFile, DamagedFile, printable
from gpudoctor.checkpoint.values import Storage

MOST_PICKLE_BYTES = 512 * 1024 * 1024
"""A tensor takes 200 bytes of it; more is arrays and lists inside the pickle."""


def load(source: OpenFile, beat: Beat) -> Loaded:
    """Raises `BadFile`."""
    entries = archive.entries(source)
    root = _root(entries)
    entry = entries[f"{root}data.pkl"]
    if entry.size > MOST_PICKLE_BYTES:
        raise BadFile(f"its pickle has {entry.size} bytes beside the tensors, more than is read")
    for_listing(entry.size)
    machine = Machine(source.whole(archive.region(source, entry)), beat=beat)
    value = machine.next_value()
    order = _small(source, entries, f"{root}byteorder")
    if order not in (b"", b"little", b"big"):
        raise BadFile(f"its byte order is told as {printable(order.decode('latin-1'))}")

    def region(storage: Storage) -> Region:
        name = f"{root}data/{storage.key}"
        record = entries.get(name)
        if record is None:
            raise DamagedFile(f"it has no entry {printable(name)}, where the numbers of a tensor should lie")
        if record.size < storage.size:
            raise BadFile(f"its entry {printable(name)} has {record.size} bytes, and its tensor {storage.size}")
        return archive.region(source, record)._replace(size=record.size)

    return Loaded(
        "torch zip",
        value,
        region,
        names=machine.names,
        called=machine.called,
        big_endian=order == b"big",
        checks_crc=_has_checksums(source, entry),
    )


def _root(entries: dict[str, archive.ArchiveEntry]) -> str:
    """The folder in which everything lies: "archive/"."""
    roots = [name[: -len("data.pkl")] for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(roots) == 1:
        root = roots[0]
        if f"{root}constants.pkl" in entries or any(name.startswith(f"{root}code/") for name in entries):
            raise BadFile(
                "it is a TorchScript program (torch.jit.save), which holds code: torch.jit.load reads it, and "
                "torch.jit.load(FILE).state_dict() gives its tensors"
            )
        return root
    if len(roots) > 1:
        raise BadFile("it holds more than one pickle of tensors, so that readers would not agree: do not load it")
    raise BadFile(_other_zip(entries))


def _other_zip(entries: dict[str, archive.ArchiveEntry]) -> str:
    names = list(entries)
    if any(name.endswith(".npy") for name in names):
        return "it is a numpy archive (.npz): numpy.load(FILE) reads it, and torch.from_numpy makes tensors"
    if "model.weights.h5" in names or ("config.json" in names and "metadata.json" in names):
        return "it is a Keras model (.keras): keras.saving.load_model reads it"
    if any(name.endswith(("archive_format", "models/model.json")) for name in names):
        return "it is a program of torch.export (.pt2): torch.export.load reads it"
    if any(name.endswith("data.pkl") for name in names):
        return "its pickle lies deeper than torch.save puts it: it is a torch.package, or was packed again by hand"
    inner = [name for name in names if name.endswith((".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pkl"))]
    if inner:
        return f"it is a zip file with checkpoints in it ({printable(inner[0])}): unpack it, and name one of them"
    return f"it is a zip file without data.pkl, and none of torch.save ({printable(', '.join(names[:3]))})"


def _small(source: OpenFile, entries: dict[str, archive.ArchiveEntry], name: str) -> bytes:
    entry = entries.get(name)
    return source.whole(archive.region(source, entry)) if entry is not None and entry.size <= 64 else b""


def _has_checksums(source: OpenFile, entry: archive.ArchiveEntry) -> bool:
    """torch.serialization.set_crc32_options(False) writes none that fit; the pickle's own shows which it is."""
    import zlib

    return zlib.crc32(source.whole(archive.region(source, entry))) == entry.crc
