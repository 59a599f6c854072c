"""Against nccl-tests on the same GPUs: bus bandwidth within 3% of its in-place column, from 64 MiB on.

    NCCL_TESTS_SOURCE=/path/to/nccl-tests pytest tests/gpu/test_nccl_agreement.py -rs -s

Needs two GPUs, nvcc and make. nccl-tests is built in a copy of the folder, against the NCCL that torch brings (the
package nvidia-nccl), or the system's. Both run three times, in turn; the medians are compared.
"""

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.nccl.plan import measurements
from tests.gpu.nccl_ranks import need_nccl, run

pytestmark = pytest.mark.timeout(1800)
SIZES = (64 << 20, 256 << 20, 1 << 30)
WITHIN = 0.03
TURNS = 3
PROGRAMS = {"all_reduce": "all_reduce_perf", "all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf"}


def in_place_column(output: str) -> dict[int, float]:
    """Size -> bus bandwidth of the in-place run.

    A line: size count type redop root, then time algbw busbw #wrong, out of place and in place.
    """
    lines = (line.split() for line in output.splitlines())
    return {int(words[0]): float(words[11]) for words in lines if len(words) == 13 and words[0].isdigit()}


def nccl_of_torch(folder: Path) -> Path | None:
    """A folder laid out as NCCL_HOME, made of torch's own NCCL; None when that is not a package."""
    code = "import importlib.util as u; s = u.find_spec('nvidia.nccl'); print(s.submodule_search_locations[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    package = Path(done.stdout.strip())
    library = package / "lib" / "libnccl.so.2"
    if done.returncode or not library.exists() or not (package / "include" / "nccl.h").exists():
        return None
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(package / "include")
    for name in ("libnccl.so", "libnccl.so.2"):  # the linker looks for the first, which the package lacks
        (folder / "lib" / name).symlink_to(library)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder of nccl-tests' programs, and what they need in their environment."""
    source = os.environ.get("NCCL_TESTS_SOURCE", "")
    if not source:
        pytest.skip("NCCL_TESTS_SOURCE names no source of nccl-tests")
    if need_nccl() < 2:
        pytest.skip("one GPU has nobody to talk to")
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None or shutil.which("make") is None:
        pytest.skip("no nvcc or no make")
    folder = tmp_path_factory.mktemp("nccl-tests")
    shutil.copytree(source, folder / "source")
    home = nccl_of_torch(folder / "nccl")
    given = [f"NCCL_HOME={home}"] if home else []
    cuda = Path(nvcc).resolve().parent.parent
    command = ["make", "-C", str(folder / "source"), "-j8", f"CUDA_HOME={cuda}", f"BUILDDIR={folder / 'build'}", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    paths = [str(home / "lib")] if home else []
    paths += [str(cuda / "lib64"), os.environ.get("LD_LIBRARY_PATH", "")]
    return folder / "build", {"LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def test_the_parser_takes_the_in_place_column() -> None:
    output = (
        "# size count type redop root | time algbw busbw #wrong | time algbw busbw #wrong\n"
        "  67108864  16777216  float  sum  -1  364.7  184.01  322.02  N/A  361.1  185.85  325.2  N/A\n"
        "# Avg bus bandwidth    : 323.6\n"
    )
    assert in_place_column(output) == {67108864: 325.2}


@pytest.mark.parametrize("collective", list(PROGRAMS))
def test_bus_bandwidth_is_that_of_nccl_tests(
    collective: str, built: tuple[Path, dict[str, str]], environment: dict[str, str]
) -> None:
    folder, paths = built
    gpus = need_nccl()
    theirs: dict[int, list[float]] = {}
    ours: dict[int, list[float]] = {}
    # -a 3: the slowest rank's time, as ours; one step factor from the first size to the last.
    options = f"-b {SIZES[0]} -e {SIZES[-1]} -f 4 -w 5 -n 20 -a 3 -c 0 -g {gpus}".split()
    for _ in range(TURNS):
        done = subprocess.run(
            [str(folder / PROGRAMS[collective]), *options],
            capture_output=True,
            text=True,
            timeout=600,
            env={**environment, **paths},
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        for size, bandwidth in in_place_column(done.stdout).items():
            theirs.setdefault(size, []).append(bandwidth)
        ran = run(gpus, measurements([collective], SIZES), environment, check=False, rank_logs=False)
        assert ran.status == 0, ran.why
        for row in ran.rows:
            ours.setdefault(row.size_bytes, []).append(row.bus_bandwidth)
    assert sorted(theirs) == sorted(ours)
    ratios = {size: statistics.median(ours[size]) / statistics.median(theirs[size]) for size in theirs}
    print(collective, {size: round(ratio, 4) for size, ratio in ratios.items()})
    assert all(abs(ratio - 1) <= WITHIN for ratio in ratios.values()), (ratios, ours, theirs)
