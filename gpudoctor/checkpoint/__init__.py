"""`gpudoctor checkpoint`: what is in a checkpoint, read without torch and without running anything that it holds."""
