"""The bandwidth test: plan, preflight, run on torchrun, grade, isolate.

`python -m gpudoctor.nccl` (`__main__`) is what a user's own torchrun starts.
"""
