"""Which devices a CUDA program gets: CUDA_VISIBLE_DEVICES and its relatives."""
