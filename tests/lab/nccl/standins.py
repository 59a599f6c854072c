"""What stands in for NVIDIA's libraries below the real NCCL and torch: compiled on first use, from tests/lab/fake_cuda.

    folder = for_nccl()                   # libcudart.so.13, libcuda.so.1, libnvidia-ml.so.1, libibverbs.so.1
    folder = for_torch(site)              # and what else torch's CUDA build is linked to

They go first on LD_LIBRARY_PATH; FAKE_NVIDIA_MACHINE names the machine (tests/lab/nvidia.py). What is built lies in
the wheels' cache, one folder for each state of the sources.
"""

import collections
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.lab.nccl.wheels import cache
from tests.lab.nvidia import SOURCES as NVIDIA, nvml_symbols
from tests.lab.requirements import require

SOURCES = Path(__file__).parent.parent / "fake_cuda"
FAULTY_VERBS = SOURCES.parent / "torch_nccl/faulty_verbs.c"
DRIVER = "580.95.05"
RUNTIME = "libcudart.so."
NEWEST_CUDA = 13
OPTIONS = ["-shared", "-fPIC", "-pthread", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{NVIDIA}"]
LIBRARIES = re.compile(r"lib(cu|nv)")
"""Of NVIDIA, among what torch's libraries need; the driver and NCCL, which is real, are not stubs."""
NO_STUBS = ("libcuda.so.1", RUNTIME)
"""How the names of libraries begin that are no stubs."""
UNVERSIONED = {
    "libcusparseLt": "cusparseLt",
    "libcufile": "cuFile",
    "libcurand": "curand",
    "libnvshmem_host": "nvshmem",
    "libcusolver": "cusolver",
}
"""Libraries whose symbols have no version by which they could be told: how theirs begin."""
ANSWERS = {
    "cudnnGetVersion": "long cudnnGetVersion(void) { return 92400; }",
    "cudnnGetCudartVersion": "long cudnnGetCudartVersion(void) { return CUDA * 1000; }",
    "cudnnGetProperty": "int cudnnGetProperty(int n, int *out) { *out = n == 0 ? 9 : n == 1 ? 24 : 0; return 0; }",
    "nvrtcVersion": "int nvrtcVersion(int *major, int *minor) { *major = CUDA, *minor = 0; return 0; }",
    # One algorithm was found: without, torch gives up. (It takes seven handles before these.)
    "cublasLtMatmulAlgoGetHeuristic": "int cublasLtMatmulAlgoGetHeuristic(void *a, void *b, void *c, void *d, void *e,"
    " void *f, void *g, int most, void *out, int *found) { __builtin_memset(out, 0, 96); *found = 1; return 0; }",
}
"""Functions of which an answer is used; all others return 0."""


class Wanted(NamedTuple):
    """A symbol that torch looks for in a library."""

    name: str
    version: str


@functools.cache
def for_nccl() -> Path:
    return built("nccl", None)


@functools.cache
def for_torch(site: Path) -> Path:
    return built(site.name, site)


def with_faulty_verbs(place: Path, folder: Path) -> Path:
    """The same libraries in a folder of their own, whose verbs do what FAKE_RDMA_FAULT says (faulty_verbs.c)."""
    own = folder / "libraries"
    shutil.copytree(place, own, symlinks=True)
    script = f"-Wl,--version-script={SOURCES / 'verbs.map'}"
    shared("gcc", own, "libibverbs.so.1", "libibverbs.so.1", [FAULTY_VERBS], script)
    return own


def built(name: str, site: Path | None) -> Path:
    """The folder of the libraries, compiled where these sources were not before."""
    compiler = shutil.which("gcc")
    require(compiler, "no C compiler: apt-get install gcc libc6-dev")
    texts = [path.read_bytes() for folder in (SOURCES, NVIDIA) for path in sorted(folder.glob("*"))]
    state = hashlib.sha256(b"\0".join([*texts, Path(__file__).read_bytes()])).hexdigest()[:12]
    place = cache() / "standins" / f"{name}-{state}"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place.parent))
        try:
            build(str(compiler), draft, site)
            draft.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def build(compiler: str, out: Path, site: Path | None) -> None:
    wanted = wanted_by_torch(site) if site else {}
    runtime_name = next((name for name in wanted if name.startswith(RUNTIME)), f"{RUNTIME}{NEWEST_CUDA}")
    cuda = f"-DCUDA={runtime_name.removeprefix(RUNTIME)}"
    runtime(compiler, out, runtime_name, cuda, wanted.get(runtime_name, set()))
    for library, symbols in wanted.items():
        if not library.startswith(NO_STUBS):
            stubs(compiler, out, library, cuda, symbols)
    weak = written(
        out / "weak.c", (f"__attribute__((weak)) int {each}(void) {{ return 3; }}" for each in nvml_symbols())
    )
    functions = [f"-L{out}", "-Wl,--no-as-needed", f"-l:{runtime_name}", "-Wl,-rpath,$ORIGIN"]  # the driver's are there
    shared(compiler, out, f"libcuda.so.{DRIVER}", "libcuda.so.1", [SOURCES / "driver.c"], *functions)
    shared(compiler, out, f"libnvidia-ml.so.{DRIVER}", "libnvidia-ml.so.1", [NVIDIA / "nvml.c", weak])
    for name in ("libcuda.so", "libnvidia-ml.so"):
        (out / f"{name}.1").symlink_to(f"{name}.{DRIVER}")
    verbs = SOURCES / "verbs.c"
    if verbs.exists():
        script = f"-Wl,--version-script={SOURCES / 'verbs.map'}"
        shared(compiler, out, "libibverbs.so.1", "libibverbs.so.1", [verbs], script)
    for rest in [*out.glob("*.c"), *out.glob("*.map"), *out.glob("*.o")]:
        rest.unlink()


def shared(compiler: str, out: Path, name: str, soname: str, sources: list[Path], *options: str) -> None:
    run(compiler, *OPTIONS, f"-Wl,-soname,{soname}", *options, "-o", str(out / name), *map(str, sources), "-ldl")


def runtime(compiler: str, out: Path, name: str, cuda: str, wanted: set[Wanted]) -> None:
    """The runtime; what torch looks for in it and it has not says so when it is called."""
    made = out / "runtime.o"
    run(compiler, *OPTIONS[1:], cuda, "-c", "-o", str(made), str(SOURCES / "runtime.c"))
    have = {line.split()[2] for line in run("nm", str(made)).splitlines() if line.split()[1] == "T"}
    absent = sorted({symbol.name for symbol in wanted} - have)
    lines = [f"int {each}(void) {{ return not_there(__func__); }}" for each in absent]
    head = (
        "#include <stdio.h>\n#include <stdlib.h>\nstatic inline int not_there(const char *name) {\n"
        '    if (getenv("FAKE_CUDA_DEBUG")) fprintf(stderr, "fake cuda: not there: %s\\n", name);\n    return 801;\n}'
    )
    rest = written(out / "absent.c", [head, *lines])
    script = written(out / "runtime.map", [f"{name} {{ cuda*; __cuda*; }};"])
    shared(compiler, out, name, name, [made, rest], f"-Wl,--version-script={script}")


def stubs(compiler: str, out: Path, library: str, cuda: str, symbols: set[Wanted]) -> None:
    """A library whose functions return 0."""
    names = sorted({symbol.name for symbol in symbols})
    code = written(out / "stub.c", (ANSWERS.get(name) or stub(name) for name in names))
    versions = collections.defaultdict(list)
    for symbol in sorted(symbols):
        if symbol.version:
            versions[symbol.version].append(symbol.name)
    script = written(out / "stub.map", (f"{version} {{ {'; '.join(of)}; }};" for version, of in versions.items()))
    shared(
        compiler, out, library, library, [code], "-w", cuda, *([f"-Wl,--version-script={script}"] if versions else [])
    )


def stub(name: str) -> str:
    if re.search("String|ErrorName|StatusName", name):
        return f'const char *{name}(void) {{ return "a stub"; }}'
    return f"long {name}(void) {{ return 0; }}"


def wanted_by_torch(site: Path) -> dict[str, set[Wanted]]:
    """The symbols that torch's libraries look for in NVIDIA's, by library."""
    libraries = sorted((site / "torch/lib").glob("*.so"))
    needed: set[str] = set()
    for library in libraries:
        found = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-dW", str(library)))
        needed |= {name for name in found if LIBRARIES.match(name)}
    wanted: dict[str, set[Wanted]] = {name: set() for name in needed}
    for library in libraries:
        of = library_of_version(library)
        for line in run("nm", "-D", "--undefined-only", str(library)).splitlines():
            name, _, version = line.split()[-1].partition("@")
            version = version.lstrip("@")
            at = of.get(version) if version else unversioned(name, needed)
            if at in wanted:
                wanted[at].add(Wanted(name, version))
    return wanted


def library_of_version(library: Path) -> dict[str, str]:
    """Which library each version of a symbol is looked for in."""
    of, file = {}, ""
    for line in run("readelf", "-VW", str(library)).splitlines():
        if found := re.search(r"File: (\S+)", line):
            file = found[1]
        elif (found := re.search(r"Name: (\S+)", line)) and file:
            of[found[1]] = file
    return of


def unversioned(name: str, needed: set[str]) -> str:
    for library, prefix in UNVERSIONED.items():
        if name.startswith(prefix):
            return next((each for each in needed if each.startswith(f"{library}.")), "")
    return ""


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
