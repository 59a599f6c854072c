"""Health of each NVIDIA GPU and of the links between them."""
