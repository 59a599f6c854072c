"""gpudoctor: is this machine ready to train?"""

from gpudoctor.armed import Armed as Armed
from gpudoctor.armed import arm as arm

__version__ = "0.1.0"
