"""Files that are given to torch.load and are no checkpoints: named by their first bytes, with what to do."""

import re

from gpudoctor.checkpoint.unreadable import printable
from gpudoctor.lazy import lazy_re

STARTS: tuple[tuple[bytes, str], ...] = (
    (
        b"version https://git-lfs.github.com/spec/",
        "it is a git-lfs pointer, a text in the place of the file: git lfs pull --include=NAME fetches the file itself",
    ),
    (b"\x93NUMPY", "it is a numpy array (.npy): numpy.load(FILE) reads it, and torch.from_numpy makes a tensor"),
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file (Keras .h5): keras.saving.load_model or h5py reads it"),
    (b"GGUF", "it is a GGUF file of llama.cpp: llama.cpp runs it, and transformers reads it with gguf_file=NAME"),
    (b"ggml", "it is a GGML file of llama.cpp, which convert-hf-to-gguf has replaced: get the original weights"),
    (b"ggjt", "it is a GGML file of llama.cpp, which convert-hf-to-gguf has replaced: get the original weights"),
    (b"lmgg", "it is a GGML file of llama.cpp, which convert-hf-to-gguf has replaced: get the original weights"),
    (b"tjgg", "it is a GGML file of llama.cpp, which convert-hf-to-gguf has replaced: get the original weights"),
    (b"\x1f\x8b", "it is packed by gzip: unpack it first (gunzip, or tar xzf when it is a .tar.gz)"),
    (b"\x28\xb5\x2f\xfd", "it is packed by zstd: unpack it first (zstd -d)"),
    (b"\xfd7zXZ\x00", "it is packed by xz: unpack it first (xz -d, or tar xJf)"),
    (b"BZh", "it is packed by bzip2: unpack it first (bunzip2, or tar xjf)"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive: unpack it first (7z x)"),
    (b"Rar!", "it is a rar archive: unpack it first (unrar x)"),
    (b"\x7fELF", "it is a program or library (ELF), perhaps a compiled model of torch's AOTInductor"),
    (b"ftrt", "it is a TensorRT engine, built for one GPU: the TensorRT runtime reads it"),
    (b"ptrt", "it is a TensorRT engine, built for one GPU: the TensorRT runtime reads it"),
    (b"%PDF", "it is a PDF"),
    (b"\x89PNG", "it is a PNG picture"),
    (b"#!", "it is a script"),
)
OPENS_JSON = lazy_re(r"[\[{]\s{0,80}(?:[\"{\[\]}]|-?\d{1,20}(?:\.\d{1,20})?\s{0,80}[,\]]|true|false|null|$)")
"""And no time in brackets, with which lines of a log begin."""
TAR_MAGIC_AT = 257
PROTOBUF_ONNX = lazy_re(rb"\x08[\x01-\x14]\x12.", re.DOTALL)
"""ir_version, then producer_name (onnx.proto)."""


def what_it_is(head: bytes, size: int, name: str) -> str:
    """What a file is that is no checkpoint, with what to do; `head` is its first 4 KiB or so."""
    if not size:
        return "it is empty: the save or download did not get as far as the first byte; save or fetch it again"
    for start, said in STARTS:
        if head.startswith(start):
            return said
    if not head.strip(b"\0"):
        return (
            "it begins with zeros only: the disk was full or the machine went down while it was saved; use an older one"
        )
    if head[4:8] == b"TFL3":
        return "it is a TensorFlow Lite model"
    if head[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar":
        return (
            "it is a tar archive: unpack it first (tar xf); a checkpoint of torch before 0.1.10 is one too, which "
            "torch.load(FILE, weights_only=False) reads"
        )
    if PROTOBUF_ONNX.match(head) or b"onnx" in head[:256] or (head[:1] == b"\x08" and b"pytorch" in head[:64]):
        return "it is an ONNX model: onnx.load or onnxruntime reads it; it has no state dict"
    if b"saved_model" in head or name.endswith(("saved_model.pb", ".pb")):
        return "it is a TensorFlow model (protobuf): tf.saved_model.load reads its folder"
    if re.search(r"\.data-\d{5}-of-\d{5}$|\.ckpt\.(index|meta)$", name):
        return "it is a part of a TensorFlow checkpoint: tf.train.load_checkpoint takes the name before .data or .index"
    return _text(head, size, name)


def _text(head: bytes, size: int, name: str) -> str:
    """A text, or nothing that is known."""
    try:
        text = head[:1024].decode("utf-8", "ignore" if len(head) > 1000 else "strict")
    except UnicodeDecodeError:
        text = ""
    if not text or not all(letter.isprintable() or letter in "\r\n\t\ufeff" for letter in text):
        return f"it is no checkpoint that is known here: it begins with bytes {head[:8].hex(' ')}"
    low = text.lstrip("\ufeff \t\r\n").lower()
    if low.startswith(("<!doctype html", "<html", "<head")):
        title = re.search(r"<title[^>]*>([^<]{1,80})", text, re.IGNORECASE)
        remark = f' ("{printable(" ".join(title[1].split()))}")' if title else ""
        return (
            f"it is a web page{remark} that was saved in the place of the file: a login, an error, or the wrong address"
        )
    if low.startswith(("<?xml", "<error")):
        code = re.search(r"<Code>([A-Za-z]{1,60})", text)
        remark = f" ({printable(code[1])})" if code else ""
        return (
            f"it is an XML answer of a storage server{remark} that was saved in the place of the file: fetch it again"
        )
    first = printable(text.strip().splitlines()[0] if text.strip() else "", 60)
    if OPENS_JSON.match(text.strip()):
        return f'it is a JSON text of {size} bytes, and no checkpoint ("{first}")'
    return f'it is a text of {size} bytes, and no checkpoint ("{first}")'
