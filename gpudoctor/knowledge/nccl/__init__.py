"""What NCCL reads and what it does with it."""
