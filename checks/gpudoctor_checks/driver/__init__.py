"""The NVIDIA kernel driver and its libraries."""
