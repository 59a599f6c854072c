"""`python -m gpudoctor`."""

import os
import sys

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

from gpudoctor.cli import main  # noqa: E402

main()
