"""Disks that are full or read-only, and folders, devices and users that are not there."""

import json
from pathlib import Path

import torch

from tests.attacks.faulty import CHECK, LINUX, checkpoint, faulty, names, one_line, snapshot
from tests.attacks.registry import attack, attacks

pytestmark = LINUX

EMPTY = "mount -t tmpfs none /mnt && mkdir /mnt/empty && mount --bind /mnt/empty "
"""And a folder, which then has nothing in it."""


# ---------------------------------------------------------------- disks


@attacks("faults", "size, fill, reason",
    ("a full disk", "the earlier one is lost", "size=8k", "head -c 9000 /dev/zero", "No space left"),
    ("a disk without inodes", "an earlier capture is lost", "nr_inodes=3", "echo", "No space left"), way="capture -o:",
)  # fmt: skip
def test_a_full_disk_keeps_what_was_there(size: str, fill: str, reason: str, tmp_path: Path) -> None:
    disk = f"mount -t tmpfs -o {size} none /mnt && echo old > /mnt/m.json; {fill} > /mnt/fill 2>/dev/null"
    after = f'"$@"; s=$?; cat /mnt/m.json > {tmp_path}/kept; ls -A /mnt > {tmp_path}/names; exit $s'
    done = faulty(f"{disk}; {after}", "capture", "--no-torch", "-o", "/mnt/m.json", unshare="-m")
    one_line(done, f"-o /mnt/m.json: {reason}", status=2)
    assert (tmp_path / "kept").read_text() == "old\n" and (tmp_path / "names").read_text() == "fill\nm.json\n"


READ_ONLY = "mount -t tmpfs none /mnt && echo old > /mnt/old && mount -o remount,ro /mnt"


@attack("faults", way="capture -o: a read-only file system", weakness="permissions are blamed")
def test_a_capture_onto_a_read_only_disk() -> None:
    for place in ("/mnt/new", "/mnt/old"):
        done = faulty(READ_ONLY, "capture", "-o", place, unshare="-m")
        one_line(done, f"-o {place}: its file system is mounted read-only", status=2)


@attack("faults", way="checkpoint --fix: a read-only file system", weakness="permissions are blamed")
def test_a_copy_onto_a_read_only_disk(tmp_path: Path) -> None:
    done = faulty(READ_ONLY, "checkpoint", str(checkpoint(tmp_path)), "--fix", "/mnt/out.pt", unshare="-m")
    one_line(done, "--fix /mnt/out.pt: its file system is mounted read-only in /mnt", status=2)


@attack("faults", way="checkpoint --fix: TMPDIR, /var/tmp and /dev/shm are full", weakness="a copy needs them")
def test_a_copy_needs_no_other_folder(tmp_path: Path) -> None:
    full = "mount -t tmpfs -o size=4k none /mnt && head -c 4096 /dev/zero > /mnt/x && export TMPDIR=/mnt"
    full += " && mount --bind /mnt /var/tmp && mount --bind /mnt /dev/shm"
    out = tmp_path / "out.pt"
    done = faulty(full, "checkpoint", str(checkpoint(tmp_path)), "--fix", str(out), unshare="-m")
    assert done.returncode == 0 and names(tmp_path) == ["model.pt", "out.pt"], done


@attack("faults", way="check: /dev/shm is full", weakness="a run that would die of it is called ready without a word")
def test_shared_memory_that_is_full() -> None:
    full = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/x"
    done = faulty(full, *CHECK, "--json", unshare="-m")
    outcomes = {result["check"]: result["outcome"] for result in json.loads(done.stdout)["results"]}
    assert outcomes["shm-too-small"] == "problem", [check for check in outcomes if "shm" in check]


@attack("faults", way="check: every file system is read-only", weakness="it needs to write, or does not say it")
def test_a_machine_that_is_read_only() -> None:
    read_only = "mount -o remount,ro,bind / && mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp"
    read_only += " && mount -t tmpfs -o ro none /dev/shm"
    done = faulty(read_only, *CHECK, "--json", unshare="-m")
    found = {each["check"] for each in json.loads(done.stdout)["results"] if each["outcome"] == "problem"}
    assert "path-unwritable" in found, done


# ---------------------------------------------------------------- /proc, /dev, /etc


@attack("faults", way="hang: /proc is an empty folder", weakness="no job is said to be there")
def test_hang_without_processes() -> None:
    done = faulty(EMPTY + "/proc", "hang", unshare="-m")
    one_line(done, "could not look for jobs", "/proc shows no process", status=3)


@attack("faults", way="hang: a PID namespace with a /proc of its own", weakness="no job is said to be there at all")
def test_hang_in_a_namespace() -> None:
    done = faulty("mount -t proc -o hidepid=2 proc /proc", "hang", unshare="-m -p -f")
    one_line(done, "not read: processes (processes outside this PID namespace are not visible", status=3)


@attacks("faults", "command, says",
    ("check: /dev has no null", "the interpreter is said to be missing", CHECK, "be run: /dev/null: No"),
    ("checkpoint: /dev has no null", "the file is said to be missing", ("checkpoint",), "/dev/null: No"),
)  # fmt: skip
def test_without_devices(command: tuple[str, ...], says: str, tmp_path: Path) -> None:
    more = (str(checkpoint(tmp_path)),) if command == ("checkpoint",) else ()
    one_line(faulty(EMPTY + "/dev", *command, *more, unshare="-m"), says, status=3 if more else 2)


@attack("faults", way="hang: /dev has no null", weakness="no job is said to be there")
def test_an_agent_without_devices() -> None:
    one_line(faulty(EMPTY + "/dev", "hang", unshare="-m"), "/dev/null", status=3)


@attack("faults", way="check: an empty /etc and /run", weakness="a name that is looked up there is a bug of ours")
def test_without_etc() -> None:
    done = faulty(f"{EMPTY}/etc && mount --bind /mnt/empty /run", *CHECK, "--json", unshare="-m")
    results = json.loads(done.stdout)["results"]
    assert not [each for each in results if each["outcome"] == "crashed"], done


@attack("faults", way="capture and hang: a user that no list knows, without HOME", weakness="a bug of ours")
def test_a_user_that_nobody_knows(tmp_path: Path) -> None:
    unknown = (
        "mount -t tmpfs none /mnt && : > /mnt/passwd && mount --bind /mnt/passwd /etc/passwd && unset HOME USER LOGNAME"
    )
    done = faulty(unknown, "capture", "--no-torch", "--timeout", "60", unshare="-m")
    assert done.returncode == 0 and json.loads(done.stdout)["schema"], done
    assert faulty(unknown, "hang", "--pid", str(2**22 + 1), unshare="-m").returncode == 2


# ---------------------------------------------------------------- the folder, the mask, the environment


@attack("faults", way="every command: the folder that it was started in is gone", weakness="a bug of ours is said")
def test_the_folder_is_gone(tmp_path: Path) -> None:
    file, model, gone = snapshot(tmp_path), checkpoint(tmp_path), tmp_path / "gone"
    prepare = f"mkdir {gone} && cd {gone} && rmdir {gone}"
    for command, status in (
        (("check", "--from", str(file)), 1),
        (("checkpoint", str(model)), 0),
        (("checkpoint", "model.pt"), 2),
        (("capture", "--no-torch", "-o", "m.json"), 2),
        (("checkpoint", str(model), "--fix", "out.pt"), 2),
    ):
        done = faulty(prepare, *command)
        assert done.returncode == status, done
        if status == 2:
            one_line(done, "gpudoctor: ", status=2)
    assert names(tmp_path) == ["machine.json", "model.pt"]


@attack("faults", way="capture -o: umask 0", weakness="everybody reads what it tells of the machine")
def test_an_open_mask(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    assert faulty("umask 0", "capture", "--no-torch", "-o", str(place)).returncode == 0
    assert place.stat().st_mode & 0o777 == 0o600


@attack("faults", way="checkpoint --fix: umask 0777", weakness="it cannot read its own copy, or leaves it")
def test_a_closed_mask(tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    done = faulty("umask 0777", "checkpoint", str(checkpoint(tmp_path)), "--fix", str(out))
    assert done.returncode == 0 and out.exists(), done
    assert out.stat().st_mode & 0o777 == 0


@attack("faults", way="check: an empty environment", weakness="a variable that everybody has is taken for given")
def test_without_an_environment() -> None:
    done = faulty('set -- env -i "$@"', *CHECK, "--nagios")
    assert done.stdout.startswith("GPUDOCTOR ") and done.returncode in (0, 1), done


@attack("faults", way="checkpoint -x.pt: a file whose name begins with a dash", weakness="no way to name it is told")
def test_a_name_with_a_dash(tmp_path: Path) -> None:
    torch.save({"module.w": torch.ones(2), "module.b": torch.ones(2)}, tmp_path / "-x.pt")
    one_line(faulty("", "checkpoint", "-x.pt", cwd=tmp_path), "the file of that name is ./-x.pt", status=2)
    for name in ("./-x.pt", "--"):
        done = faulty("", "checkpoint", *((name,) if name != "--" else ("--", "-x.pt")), cwd=tmp_path)
        lines = [line.strip() for line in done.stdout.splitlines() if "gpudoctor checkpoint" in line]
        assert lines and all("-- " in line or "./-x.pt" in line for line in lines), done
