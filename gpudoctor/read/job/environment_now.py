"""The environment that a process has now, from its memory: what it has set itself does not reach /proc/PID/environ.

Ray's workers, functions of torch.multiprocessing.spawn and notebooks put RANK and MASTER_ADDR into os.environ, which
hands them to putenv(3); and what a process's title has been written over is gone from /proc/PID/environ altogether. The
C library's variable `environ` is found as the dynamic linker finds it: by the hash table of the library, or of the
program where that has a copy of the variable (ELF, gabi 4.1, and the GNU hash table as glibc's dl-lookup.c reads it).

Read from /proc/PID/mem, which stops nobody and needs the rights of a debugger; not to be asked of a process in state D.
Whatever is not as expected gives nothing: memory may change while it is read, or be hostile. Pages of a file on a dead
mount never come, so it is read in a thread with a deadline.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from gpudoctor import crowded
from gpudoctor.launcher import command_lines as commands
from gpudoctor.lazy import lazy_re
from gpudoctor.read.system import System, within

STRONG = lazy_re(rb"(?:^|\0)(?:RANK|OMPI_COMM_WORLD_RANK|PMI_RANK|TORCHELASTIC_RUN_ID)=")
WEAK = lazy_re(rb"(?:^|\0)(?:LOCAL_RANK|NODE_RANK|GROUP_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_PROCID)=[^\0]")
"""Variables that an image, a shell or an allocation may have set for everything: they count for a Python with torch."""
TORCH = lazy_re(rb"/libtorch[\w]*\.so|/libc10\.so|/jaxlib/|/libtensorflow_\w+\.so|/mpi4py/")
"""Libraries of distributed programs: torch's, and those of what stands beside it."""
MAXIMUM_MAPS = 16 * 1024 * 1024
MOST_VARIABLES = 4096
LONGEST = 64 * 1024
"""Bytes of a variable that are read; a longer one is left out."""
MOST_BYTES = 1024 * 1024
SECONDS = 1.0
"""It takes a thousandth of one."""
MOST_IMAGES = 4
MOST_STEPS = 4096
"""Along one chain of a hash table, and over the entries of a dynamic section."""
C_LIBRARY = lazy_re(r"/(?:libc\.so\.6|libc-2\.\d+\.so|ld-musl-[\w.]+|libc\.musl-[\w.]+)$")
NAMES = (b"environ", b"__environ")
PAGE = 4096
_LOAD, _DYNAMIC = 1, 2
_HASH, _STRINGS, _SYMBOLS = 0x6FFFFEF5, 5, 6


def as_set(system: System, pid: int, name: str, told: bytes, most: int = MAXIMUM_MAPS) -> bytes:
    """The environment of a process: what it was told at its start (`told`), or what it is now, of a Python with torch
    that was not told its rank. `most`: bytes that may be read. Raises `TimeoutError` where its memory never comes."""
    if STRONG.search(told) or commands.PYTHON.search(name.lower()) is None or not most:
        return told
    try:
        maps = system.raw(f"/proc/{pid}/maps", most)
    except OSError:
        return told
    if TORCH.search(maps) is None:
        return told
    text = maps.decode("utf-8", "replace")
    now = within(SECONDS * crowded.slowdown(), f"memory of pid {pid}", lambda: environment_now(system, pid, text))
    return now if STRONG.search(now) or WEAK.search(now) else told


def environment_now(system: System, pid: int, maps: str) -> bytes:
    """As /proc/PID/environ would be: NAME=VALUE, each ended by a zero byte; empty where it cannot be told.

    `maps`: the text of /proc/PID/maps."""
    try:
        program = system.link_or_empty(f"/proc/{pid}/exe")
        with system.at(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for base in islice(_images(maps, program), MOST_IMAGES):
                pointer = _address_of_environ(memory, base)
                if pointer and (variables := b"".join(_strings(memory, pointer))):
                    return variables
    except (OSError, ValueError, OverflowError, struct.error):
        pass
    return b""


def _images(maps: str, program: str) -> Iterator[int]:
    """Where the program and the C library begin; the program's copy of a variable is the one that counts."""
    first: dict[str, int] = {}
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[2].strip("0") == "" and fields[5] not in first:
            first[fields[5]] = int(fields[0].partition("-")[0], 16)
    if program in first:
        yield first[program]
    yield from (base for path, base in first.items() if C_LIBRARY.search(path))


def _at(memory: BinaryIO, address: int, size: int) -> bytes:
    """Raises `ValueError` where that much is not there."""
    memory.seek(address)
    content = memory.read(size)
    if len(content) != size:
        raise ValueError(address)
    return content


def _words(memory: BinaryIO, address: int, form: str) -> tuple[int, ...]:
    numbers: tuple[int, ...] = struct.unpack(form, _at(memory, address, struct.calcsize(form)))
    return numbers


def _address_of_environ(memory: BinaryIO, base: int) -> int:
    """Of the variable `environ` in the image that begins at `base`; 0 where it has none."""
    header = _at(memory, base, 64)
    if header[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian: what GPUs are driven by
        return 0
    offset, size, number = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
    bias, dynamic = base, 0
    for index in range(min(number, 64)):
        kind, _, _, address = _words(memory, base + offset + index * size, "<IIQQ")
        if kind == _LOAD and _words(memory, base + offset + index * size + 8, "<Q")[0] == 0:
            bias = base - address
        elif kind == _DYNAMIC:
            dynamic = address
    tables: dict[int, int] = {}
    for index in range(MOST_STEPS if dynamic else 0):
        tag, value = _words(memory, bias + dynamic + index * 16, "<QQ")
        if tag == 0:
            break
        tables[tag] = value if value >= base else value + bias  # the linker has made addresses of offsets, mostly
    if not {_HASH, _STRINGS, _SYMBOLS} <= set(tables):
        return 0
    return next(filter(None, (_looked_up(memory, tables, name, bias) for name in NAMES)), 0)


def _looked_up(memory: BinaryIO, tables: dict[int, int], name: bytes, bias: int) -> int:
    """The address of a symbol that is defined here."""
    table = tables[_HASH]
    buckets, first, bloom, _ = _words(memory, table, "<IIII")
    if not buckets:
        return 0
    wanted = 5381
    for letter in name:
        wanted = (wanted * 33 + letter) & 0xFFFFFFFF
    begin = table + 16 + bloom * 8
    (index,) = _words(memory, begin + wanted % buckets * 4, "<I")
    for _ in range(MOST_STEPS if index >= first else 0):
        (value,) = _words(memory, begin + buckets * 4 + (index - first) * 4, "<I")
        if value | 1 == wanted | 1:
            text, _, section, address = _words(memory, tables[_SYMBOLS] + index * 24, "<IHHQ")
            if section and _at(memory, tables[_STRINGS] + text, len(name) + 1) == name + b"\0":
                return address + bias
        if value & 1:
            break
        index += 1
    return 0


def _strings(memory: BinaryIO, variable: int) -> Iterator[bytes]:
    (table,) = _words(memory, variable, "<Q")
    left = MOST_BYTES
    for index in range(MOST_VARIABLES if table else 0):
        (address,) = _words(memory, table + index * 8, "<Q")
        if not address:
            return
        try:
            text = _until_zero(memory, address)
        except (OSError, ValueError):  # it was set anew meanwhile
            left -= PAGE
            continue
        left -= len(text)
        if left < 0:
            return
        if b"=" in text:
            yield text


def _until_zero(memory: BinaryIO, address: int) -> bytes:
    """With its zero byte; read to the end of a page each time, behind which there may be nothing."""
    text = bytearray()
    while len(text) < LONGEST:
        memory.seek(address + len(text))
        part = memory.read(PAGE - (address + len(text)) % PAGE)
        if not part:
            raise ValueError(address)
        end = part.find(0)
        if end >= 0:
            return bytes(text + part[: end + 1])
        text += part
    raise ValueError(address)
