"""`gpudoctor` and `python -m gpudoctor`."""

import gc
import os
import sys

TYPE_CHECKING = False  # that of typing, which would be imported before Ctrl-C is minded
if TYPE_CHECKING:
    from typing import NoReturn

# -m puts the working directory first on the module path: a doctor that runs as root must not import what lies in the
# folder it was started in. Unless gpudoctor itself is run from there, as a source tree that is not installed.
# A folder that is gone is not on the path.
_home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib imports much
try:
    _here = os.getcwd()  # noqa: PTH109
except OSError:
    _here = ""
if not getattr(sys.flags, "safe_path", False) and sys.path[0] == _here != _home:
    del sys.path[0]

INTERRUPTED = 130


def main() -> "NoReturn":
    """Ctrl-C while everything is still being imported, or once more while the first is answered, is one line too."""
    # what is imported makes some 60,000 objects that stay; looking through them after each 700 took 0.02 s a command
    gc.set_threshold(100_000, 20, 20)
    try:
        from gpudoctor.cli import main as command

        command()
    except KeyboardInterrupt:
        try:
            os.write(2, b"gpudoctor: interrupted\n")
        finally:
            os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
