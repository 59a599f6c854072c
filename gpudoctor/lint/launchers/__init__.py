"""One module a launcher: its table of options, and where the program begins.

`understand` is asked for every invocation of a text. What only starts another invocation (srun, mpirun, ssh, `bash -c`)
gives None: the inner invocation has it in `within` and becomes the launch.
"""

from gpudoctor.lint.model import Invocation, Launch


def understand(invocation: Invocation) -> Launch | None:
    """The start of training that this is; None when it is none (`hostname`, `pip install`). Never raises.

    A python program under srun or mpirun is Launch(launcher="srun" or "mpirun"): `invocation` is the program's, `options`
    are those of srun or mpirun, and `around` holds what stands outside of that. Otherwise `around` holds every srun and
    mpirun around the launcher.
    """
    return None
