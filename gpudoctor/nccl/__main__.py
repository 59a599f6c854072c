"""`torchrun ... -m gpudoctor.nccl OPTIONS`: `gpudoctor nccl-test OPTIONS` in every rank of the user's own launcher."""

import runpy
import sys

sys.argv = ["gpudoctor", "nccl-test", *sys.argv[1:]]
runpy.run_module("gpudoctor", run_name="__main__", alter_sys=False)
