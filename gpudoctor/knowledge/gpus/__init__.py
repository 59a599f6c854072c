"""NVIDIA GPUs and their driver: names, error numbers, comparing with peers."""
