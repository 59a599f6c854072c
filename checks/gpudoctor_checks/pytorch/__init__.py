"""The training interpreter: torch, its CUDA build and libraries."""
