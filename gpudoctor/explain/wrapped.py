"""Exceptions that stand for another one, by the words with which they announce it."""

from gpudoctor.lazy import lazy_re

OF_A_SPAWNED = lazy_re(r"-- Process \d{1,6} terminated with the following error:$")
"""torch/multiprocessing/spawn.py, before the traceback of the process that it started: 1.0 to 1.7 raise it as a bare
`Exception`, later ones as ProcessRaisedException."""
WRAPPED = lazy_re(r"^backend='\w{1,40}' raised:$")
"""torch/_dynamo/exc.py, BackendCompilerFailed: what the backend raised stands in the next line."""

__all__ = ["OF_A_SPAWNED", "WRAPPED"]
