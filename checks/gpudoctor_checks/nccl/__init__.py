"""NCCL's configuration: what it reads, and what that does."""
