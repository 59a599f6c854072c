"""AMD, Intel and Google accelerators."""
