"""What the training interpreter's files say: torch, packages, libraries. Nothing of them is imported.

Said in an order that keeps what was read when a later step hangs (a dead network file system) or crashes (the
last step loads libnccl to ask for its version).
"""

import ast
import ctypes
import importlib.util
import mmap
import os
import re
import struct
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

Say = Callable[[Dict[str, Any]], None]

# Distributions that decide whether and how a training runs, by normalised name.
RELEVANT = re.compile(
    r"torch|torchvision|torchaudio|torchtext|torchdata|torch-xla|torch-tensorrt|torchao|torchtitan|libtpu"
    r"|triton|pytorch-triton(-.*)?|intel-extension-for-pytorch|oneccl-bind-pt|nvidia-.*|pynvml|cuda-.*|cupy-.*"
    r"|numpy|lightning|pytorch-lightning|accelerate|transformers|deepspeed|apex|megatron-core|flash-attn|xformers"
    r"|bitsandbytes|transformer-engine|horovod|ray|vllm|netifaces|netifaces2|netifaces-plus|py-spy|pip"
)
# Of these, some are compiled against one torch and pin it.
PINNED_TO_TORCH = ("torchvision", "torchaudio", "torchtext", "xformers")
TORCH_PIN = re.compile(r"^Requires-Dist: torch ?\(?==(\d[\w.+]*)(?=[;,)\s]|$)", re.MULTILINE)

# The names under which the dynamic loader looks for them. Not `libcuda.so`: that one is for the linker.
SONAMES = (
    ("nccl", "libnccl.so.2"),
    ("cudnn", "libcudnn.so.9"),
    ("cudnn", "libcudnn.so.8"),
    ("cuda", "libcuda.so.1"),
)
LOADER_CACHE = "/etc/ld.so.cache"
DEFAULT_FOLDERS = (
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
)

# The whole name of a variable, at the end of a string: the linker merges a string with the tail of a longer one.
NCCL_NAME = re.compile(rb"(?<![A-Za-z0-9_])NCCL_[A-Z0-9_]{2,80}(?=\0)")
MAXIMUM_RODATA_BYTES = 64 * 1024 * 1024  # libnccl 2.27.5 has 173 kB of it; the rest of its 430 MB is code for GPUs
MAXIMUM_SECTIONS = 4096


def main(say: Say, arguments: List[str]) -> None:
    """Answers: `torch_files` (or `no_torch`, `torch_broken`), `packages`, `torch_pins`, `libraries`, `nccl_names`."""
    say({"doing": "the search for torch on sys.path"})
    root = torch_folder()
    if root is None:
        say({"no_torch": True})
    else:
        say({"doing": "reading " + os.path.join(root, "version.py")})
        say(torch_files(root))
    say({"doing": "listing the packages on sys.path"})
    folders = distribution_folders(sys.path)
    say({"packages": {name: version for name, (version, _) in folders.items()}})
    say({"torch_pins": torch_pins(folders)})
    if not sys.platform.startswith("linux"):
        say({"no_libraries": "the search order of shared libraries is known for Linux only", "complete": True})
        return
    say({"doing": "the search for libnccl, libcudnn and libcuda"})
    libraries_read = libraries(root, sys.path, os.environ)
    say({"libraries": libraries_read, "complete": True})
    first = next((library["path"] for library in libraries_read if library["name"] == "nccl"), None)
    if first is None:
        say({"no_nccl": True})
    else:
        say({"doing": "reading the names in " + first})
        say(names_of(first))
    for library in libraries_read:
        # Loading a file runs it: one of the folder that the user stands in may be anybody's.
        if library["name"] == "nccl" and not library["version"] and os.path.isabs(library["found_as"]):
            say({"doing": "ncclGetVersion of " + library["path"]})
            say({"library_version": [library["path"], nccl_version(library["path"])]})


def torch_folder() -> Optional[str]:
    """Where `import torch` would take it from; None when there is none, or a namespace package (a stray folder)."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        return None
    return os.path.dirname(spec.origin)


def torch_files(root: str) -> Dict[str, Any]:
    """`torch_files` from torch/version.py, which is parsed and not run; `torch_broken` when it cannot be."""
    path = os.path.join(root, "version.py")
    try:
        with open(path, encoding="utf-8") as file:
            values = dict(constants(file.read()))
    except OSError as error:
        return {"torch_broken": f"{path}: {error.strerror or error}"}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"torch_broken": f"{path}: {error}"}
    version = values.get("__version__")
    if version is None:
        return {"torch_broken": path + " names no version"}
    wanted = {name: values.get(name) for name in ("cuda", "hip", "xpu")}
    return {"torch_files": dict(wanted, version=version, path=root)}


def constants(source: str) -> Iterator[Tuple[str, str]]:
    """Names to which a module's text assigns a string: `cuda: Optional[str] = '13.0'`. Raises `SyntaxError`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            targets = node.targets  # type: List[ast.expr]
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value.value


def distribution_folders(search_path: List[str]) -> Dict[str, Tuple[str, str]]:
    """Normalised name -> (version, its metadata folder) of the relevant distributions; the first on the path wins.

    By folder names only: opening every METADATA file takes a second in a large environment.
    """
    folders = {}  # type: Dict[str, Tuple[str, str]]
    for folder in search_path:
        try:
            entries = sorted(os.listdir(folder or "."))
        except OSError:
            continue
        for entry in entries:
            stem, ending = os.path.splitext(entry)
            if ending in (".dist-info", ".egg-info") and "-" in stem:
                name, version = stem.split("-")[:2]
                normalised = re.sub(r"[-_.]+", "-", name).lower()
                if normalised not in folders and RELEVANT.fullmatch(normalised):
                    folders[normalised] = (version, os.path.join(folder, entry))
    return folders


def torch_pins(folders: Dict[str, Tuple[str, str]]) -> Dict[str, str]:
    """Distribution -> the only torch version that it is made for."""
    pins = {}
    for name in PINNED_TO_TORCH:
        if name in folders:
            try:
                with open(os.path.join(folders[name][1], "METADATA"), encoding="utf-8", errors="replace") as file:
                    pin = TORCH_PIN.search(file.read().partition("\n\n")[0])
            except OSError:
                continue
            if pin:
                pins[name] = pin.group(1)
    return pins


def libraries(root: Optional[str], search_path: List[str], environment: Any) -> List[Dict[str, str]]:
    """Every libnccl, libcudnn and libcuda that the loader could pick, in its order of search, each file once."""
    by_name = {}  # type: Dict[str, Dict[str, str]]
    here = environment.get("GPUDOCTOR_FOLDER", "")  # where the user stands; we ourselves stand elsewhere
    for name, soname, origin, place in candidates(root, search_path, environment):
        path = os.path.realpath(os.path.join(here, place))
        if os.path.exists(path):
            library = {"name": name, "path": path, "origin": origin, "found_as": place}
            by_name.setdefault(path, dict(library, version=version_in_name(path, soname)))
    return list(by_name.values())


def candidates(root: Optional[str], search_path: List[str], environment: Any) -> Iterator[Tuple[str, str, str, str]]:
    """(name, soname, origin, path) of what the loader tries: LD_PRELOAD, LD_LIBRARY_PATH, torch's own, the system."""
    for entry in re.split(r"[:\s]+", environment.get("LD_PRELOAD", "")):
        for name, soname in SONAMES:
            if os.path.basename(entry).startswith(soname.rpartition(".")[0]):
                yield name, soname, "LD_PRELOAD", entry
    folders = []  # type: List[Tuple[str, str]]
    if environment.get("LD_LIBRARY_PATH"):
        # An empty entry means the working directory, to the loader too.
        entries = re.split("[:;]", environment["LD_LIBRARY_PATH"])
        folders += [("LD_LIBRARY_PATH", entry or ".") for entry in entries]
    sites = [os.path.dirname(root)] if root else []
    if root:
        folders.append(("torch", os.path.join(root, "lib")))
    for site in sites + [entry for entry in search_path if entry and entry not in sites]:
        parent = os.path.join(site, "nvidia")
        try:
            parts = sorted(os.listdir(parent))
        except OSError:
            continue
        folders += [("package", os.path.join(parent, part, "lib")) for part in parts]
    for origin, folder in folders:
        for name, soname in SONAMES:
            yield name, soname, origin, os.path.join(folder, soname)
    for path in cached_by_the_loader() + [os.path.join(f, soname) for f in DEFAULT_FOLDERS for _, soname in SONAMES]:
        for name, soname in SONAMES:
            if os.path.basename(path) == soname:
                yield name, soname, "system", path


def cached_by_the_loader() -> List[str]:
    """The paths of our libraries in ldconfig's cache; its strings end with NUL, and nothing else in it matters."""
    try:
        with open(LOADER_CACHE, "rb") as file:
            strings = re.findall(rb"/[^\0]*/lib(?:nccl|cudnn|cuda)\.so[^\0]*", file.read())
    except OSError:
        return []
    return [os.fsdecode(path) for path in strings]


def version_in_name(path: str, soname: str) -> str:
    """ "2.29.7" of libnccl.so.2.29.7; empty when the name holds no more than the soname's number."""
    _, _, number = os.path.basename(path).partition(".so.")
    return number if re.fullmatch(r"\d+(\.\d+)+", number) and not soname.endswith(".so." + number) else ""


def nccl_version(path: str) -> str:
    """What ncclGetVersion of this file says ("2.29.7"); empty when it cannot be loaded or asked."""
    number = ctypes.c_int()
    try:
        if ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number)) != 0:
            return ""
    except (OSError, AttributeError):
        return ""
    # nccl.h, NCCL_VERSION: the scheme changed with 2.9.
    thousand = 1000 if number.value < 10000 else 10000
    return f"{number.value // thousand}.{number.value % thousand // 100}.{number.value % 100}"


def names_of(path: str) -> Dict[str, Any]:
    """`nccl_names` of a libnccl with its path, or `nccl_names_unread` with the reason."""
    try:
        return {"nccl_names": [path, names_in_library(path)]}
    except (OSError, ValueError, struct.error) as error:
        return {"nccl_names_unread": [path, str(error)]}


def names_in_library(path: str) -> List[str]:
    """The NCCL_* names among an ELF file's constant strings, sorted. Raises `OSError`, `ValueError`, `struct.error`.

    The file is neither loaded nor read as a whole: most of its hundreds of megabytes are code for GPUs, and only the
    pages of .rodata are touched.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        start, size = rodata(image)
        end = start + min(size, MAXIMUM_RODATA_BYTES)
        return sorted({match.group().decode("ascii") for match in NCCL_NAME.finditer(image, start, end)})


def rodata(image: Any) -> Tuple[int, int]:
    """Offset and size of an ELF file's .rodata section (elf.h). Raises `ValueError` or `struct.error`."""
    if image[:5] != b"\x7fELF\x02" or image[5:6] not in (b"\1", b"\2"):
        raise ValueError("no 64-bit ELF file")
    order = "<" if image[5:6] == b"\1" else ">"
    (table,) = struct.unpack_from(order + "Q", image, 40)
    entry_size, count, names_index = struct.unpack_from(order + "HHH", image, 58)
    if entry_size < 64 or not 0 <= names_index < count <= MAXIMUM_SECTIONS:
        raise ValueError("no section headers")

    def section(index: int) -> Tuple[int, int, int]:
        """(position of the name, offset, size)"""
        fields = struct.unpack_from(order + "II4Q", image, table + index * entry_size)
        return fields[0], fields[4], fields[5]

    _, names, _ = section(names_index)
    for index in range(count):
        name, offset, size = section(index)
        if image[names + name : names + name + 8] == b".rodata\0":
            if offset + size > len(image):
                raise ValueError(".rodata ends past the file's end")
            return offset, size
    raise ValueError("no .rodata section")
