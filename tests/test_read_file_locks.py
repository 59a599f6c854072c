"""Locks on files, of a real process: who holds one, and who waits for it."""

import fcntl
import subprocess
import sys
import time
from pathlib import Path

from gpudoctor.read.job import files
from gpudoctor.read.system import System

WAITS = "import fcntl, sys; f = open(sys.argv[1]); print('opened', flush=True); fcntl.flock(f, fcntl.LOCK_EX)"


def test_who_holds_a_lock_and_who_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "index.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", WAITS, str(path)], stdout=subprocess.PIPE) as other:
            try:
                assert other.stdout is not None
                other.stdout.readline()
                until = time.monotonic() + 20
                while (found := files.open_files(System(), other.pid).awaited) is None and time.monotonic() < until:
                    time.sleep(0.02)
                holder = int(Path("/proc/self").readlink().name)
                own = files.open_files(System(), holder)
            finally:
                other.kill()
        assert found is not None
        assert (found.holder, found.file) == (holder, str(path))
        assert own.locked == (str(path),)
        fcntl.flock(file, fcntl.LOCK_UN)
        assert files.open_files(System(), holder).locked == ()
