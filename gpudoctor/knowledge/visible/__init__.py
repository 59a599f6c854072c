"""Which devices a CUDA program gets: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER."""
