"""cgroup v1, v2 and both at once, seen from a host, a container, and a container without a cgroup namespace."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read import mounts
from gpudoctor.read.cgroup import amount, cpus, memberships, read_cgroup, statistic
from gpudoctor.snapshot import Cgroup, Reading
from tests.fake_tree import Link, Refusing, fake

GIB = 1024**3
TOP = "/sys/fs/cgroup"
V1_NO_LIMIT = "9223372036854771712"


def v2_mount(root: str = "/") -> str:
    return f"31 23 0:28 {root} {TOP} ro,nosuid shared:9 - cgroup2 cgroup rw,nsdelegate\n"


def v1_mount(controllers: str, root: str = "/") -> str:
    return f"35 31 0:32 {root} {TOP}/{controllers} rw - cgroup cgroup rw,{controllers}\n"


def cgroup(tmp_path: Path, files: dict[str, str]) -> Reading[Cgroup]:
    links: dict[str, str | bytes | Link] = dict(files)
    reading: Reading[Cgroup] = read_cgroup(fake(tmp_path, links))["host.cgroup"]
    return reading


def test_v2_takes_the_tightest_limit_of_all_ancestors(tmp_path: Path) -> None:
    own = f"{TOP}/user.slice/job.scope"
    found = cgroup(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/user.slice/job.scope\n",
            "/proc/self/mountinfo": v2_mount(),
            f"{own}/memory.max": "max\n",
            f"{own}/memory.current": f"{1 * GIB}\n",
            f"{own}/cpu.max": "400000 100000\n",
            f"{own}/pids.max": "1000\n",
            f"{own}/pids.current": "12\n",
            f"{TOP}/user.slice/memory.max": f"{8 * GIB}\n",
            f"{TOP}/user.slice/memory.current": f"{5 * GIB}\n",
            f"{TOP}/user.slice/memory.stat": f"anon 1\ninactive_file {2 * GIB}\n",
            f"{TOP}/user.slice/cpu.max": "150000 100000\n",
            f"{TOP}/user.slice/pids.max": "max\n",
        },
    )
    assert found.value == Cgroup(2, 8 * GIB, 3 * GIB, 1.5, 1000, 12)


def test_v2_without_limits(tmp_path: Path) -> None:
    own = f"{TOP}/user.slice"
    files = {
        "/proc/self/cgroup": "0::/user.slice\n",
        "/proc/self/mountinfo": v2_mount(),
        f"{own}/memory.max": "max\n",
        f"{own}/memory.current": "4096\n",
        f"{own}/memory.stat": "anon 4096\n",
        f"{own}/cpu.max": "max 100000\n",
    }
    assert cgroup(tmp_path, files).value == Cgroup(2, None, 4096)


def test_v2_at_the_root_of_a_host_has_no_files_and_no_limits(tmp_path: Path) -> None:
    files = {"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": v2_mount(), f"{TOP}/cgroup.procs": "1\n"}
    assert cgroup(tmp_path, files).value == Cgroup(2)


def test_v2_in_a_container_with_a_cgroup_namespace(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "0::/\n",
        "/proc/self/mountinfo": v2_mount(),
        f"{TOP}/memory.max": f"{4 * GIB}\n",
        f"{TOP}/memory.current": f"{GIB}\n",
        f"{TOP}/memory.stat": "inactive_file 0\n",
    }
    assert cgroup(tmp_path, files).value == Cgroup(2, 4 * GIB, GIB)


@pytest.mark.parametrize(
    ("path", "root"),
    [
        # Without a cgroup namespace the mount shows the container's cgroup, and paths are the host's.
        ("/docker/abc", "/docker/abc"),
        # A mount that was made outside of the namespace in which it is seen.
        ("/", "/../../system.slice/docker-abc.scope"),
        # A process moved to a cgroup outside of its namespace.
        ("/../other", "/"),
        ("/docker/abc", "/docker/other"),
    ],
)
def test_v2_where_path_and_mount_disagree_the_mount_point_is_the_own_cgroup(
    tmp_path: Path, path: str, root: str
) -> None:
    files = {
        "/proc/self/cgroup": f"0::{path}\n",
        "/proc/self/mountinfo": v2_mount(root),
        f"{TOP}/memory.max": f"{4 * GIB}\n",
        f"{TOP}/memory.current": f"{GIB}\n",
        f"{TOP}/memory.stat": "",
    }
    assert cgroup(tmp_path, files).value.memory_limit_bytes == 4 * GIB


def test_v1(tmp_path: Path) -> None:
    memory, cpu, pids = (f"{TOP}/{name}/docker/abc" for name in ("memory", "cpu,cpuacct", "pids"))
    found = cgroup(
        tmp_path,
        {
            "/proc/self/cgroup": "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:pids:/docker/abc\n",
            "/proc/self/mountinfo": v1_mount("memory") + v1_mount("cpu,cpuacct") + v1_mount("pids"),
            f"{memory}/memory.limit_in_bytes": f"{2 * GIB}\n",
            f"{memory}/memory.usage_in_bytes": f"{GIB}\n",
            f"{memory}/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB // 2}\n",
            f"{TOP}/memory/memory.limit_in_bytes": f"{V1_NO_LIMIT}\n",
            f"{cpu}/cpu.cfs_quota_us": "-1\n",
            f"{cpu}/cpu.cfs_period_us": "100000\n",
            f"{pids}/pids.max": "max\n",
            f"{pids}/pids.current": "3\n",
        },
    )
    assert found.value == Cgroup(1, 2 * GIB, GIB // 2, None, None, 3)


def test_hybrid_takes_controllers_from_where_they_are(tmp_path: Path) -> None:
    files = {
        "/proc/self/cgroup": "4:memory:/job\n1:name=systemd:/\n0::/job\n",
        "/proc/self/mountinfo": v1_mount("memory") + v2_mount().replace(TOP, f"{TOP}/unified"),
        f"{TOP}/memory/job/memory.limit_in_bytes": f"{2 * GIB}\n",
        f"{TOP}/memory/job/memory.usage_in_bytes": "0\n",
        f"{TOP}/memory/job/memory.stat": "",
        f"{TOP}/unified/job/pids.max": "77\n",
        f"{TOP}/unified/job/pids.current": "7\n",
    }
    assert cgroup(tmp_path, files).value == Cgroup(1, 2 * GIB, 0, None, 77, 7)


def test_a_kernel_without_cgroups_is_absent(tmp_path: Path) -> None:
    assert cgroup(tmp_path, {"/proc/self/mountinfo": ""}).missing_kind == "absent"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": "22 27 0:21 / /proc rw - proc proc rw\n"},
        {"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": v2_mount(), f"{TOP}/memory.max": "lots\n"},
    ],
)
def test_what_cannot_be_read_is_not_unlimited(tmp_path: Path, files: dict[str, str]) -> None:
    assert cgroup(tmp_path, files).missing_kind == "failed"


def test_a_denied_limit_is_not_unlimited(tmp_path: Path) -> None:
    files = {"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": v2_mount(), f"{TOP}/memory.max": "max\n"}
    links: dict[str, str | bytes | Link] = dict(files)
    reading = read_cgroup(Refusing(fake(tmp_path, links), f"{TOP}/memory.max"))["host.cgroup"]
    assert reading.missing_kind == "denied"


def test_mount_points_with_blanks() -> None:
    (mount,) = mounts.parse("1 2 0:3 /a\\040b /mnt/my\\040disk\\134 rw shared:1 master:2 - ext4 /dev/sda1 rw\n")
    assert (mount.root, mount.point) == ("/a b", "/mnt/my disk\\")


def test_a_path_lies_on_the_deepest_mount_and_of_equals_the_last() -> None:
    lines = (("/", "ext4"), ("/data", "xfs"), ("/data", "nfs4"), ("/database", "zfs"))
    parsed = mounts.parse("".join(f"1 2 0:3 / {point} rw - {kind} x rw\n" for point, kind in lines))
    found = [mounts.holding(parsed, path) for path in ("/data/set", "/datasets", "/database")]
    assert [mount.filesystem for mount in found if mount] == ["nfs4", "ext4", "zfs"]


@given(st.text())
def test_parsers_raise_nothing_but_value_error(text: str) -> None:
    memberships(text)
    mounts.parse(text)
    statistic(text, "inactive_file")
    for parse in (amount, lambda word: cpus(word, word)):
        try:
            parse(text)
        except ValueError:
            pass


@given(st.text(alphabet="0123456789:/,\nabcé. -"), st.text(alphabet="0123456789:/ -\ncgroup2rw.,"))
def test_no_content_of_proc_makes_the_reader_raise(
    tmp_path_factory: pytest.TempPathFactory, membership: str, mountinfo: str
) -> None:
    files: dict[str, str | bytes | Link] = {"/proc/self/cgroup": membership, "/proc/self/mountinfo": mountinfo}
    read_cgroup(fake(tmp_path_factory.mktemp("tree"), files))
