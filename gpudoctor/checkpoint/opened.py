"""Opens a checkpoint of any format. Nothing is imported or run, whatever the file says."""

from gpudoctor.checkpoint import safetensors, torch_legacy, torch_zip
from gpudoctor.checkpoint.foreign import what_it_is
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.pickles import Beat
from gpudoctor.checkpoint.source import OpenFile
from gpudoctor.checkpoint.unreadable import TOO_MUCH_MEMORY, BadFile, DamagedFile

HEAD = 4096


def opened(source: OpenFile, beat: Beat) -> Loaded:
    """Raises `BadFile`, nothing else, whatever the bytes are."""
    head = source.read(0, min(HEAD, source.size)) if source.size else b""
    if source.path.endswith(".distcp"):
        raise BadFile("it is one rank's part of a torch.distributed.checkpoint; name its folder to see what reads it")
    try:
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return torch_zip.load(source, beat)
        if head[:1] == b"\x80" and head[1:2] in (b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"):
            return torch_legacy.load(source, beat)
        if safetensors.looks_like_it(head, source.size):
            return safetensors.load(source)
    except MemoryError:
        raise BadFile(TOO_MUCH_MEMORY) from None
    kind = BadFile if head.strip(b"\0") else DamagedFile  # nothing, or what a full disk leaves
    raise kind(what_it_is(head, source.size, source.path))
