"""What holds when nothing is said, for commands, library and wishes alike. Imports nothing: `--help` shows it."""

READ_SECONDS = 10.0
"""Deadline of each thing that is read of a machine."""
STALL_SECONDS = 60.0
"""A test of nodes is ended when it stands still so long; a reader of a checkpoint likewise."""
JOIN_SECONDS = 600.0
"""How long nodes have to join."""
DEVICE_SECONDS = 60.0
"""`amp`: of one device. On a crowded machine the import of torch alone takes ten seconds; a test of all dtypes takes
3 s on a CPU (measured with torch 2.13)."""
WATCH_SECONDS = 30.0
"""`hang --watch`: from look to look."""
EXPLAIN_SECONDS = 600.0
"""`explain` as a function: of all logs together."""
SMALLEST_SIZE = 8
"""Bytes, with which the bandwidth test begins."""
SIZE_FACTOR = 2
"""From size to size."""
COLLECTIVE = "all_reduce"
STEPS = 20
"""Training steps of a cell of `train-test`."""
PRECISIONS = "fp32,bf16"
DTYPES = "fp16,bf16,tf32,fp8"
PROGRAM = "train.py"
"""Stands for a script that nobody has named."""
