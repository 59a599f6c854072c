"""gpudoctor's own checks: one file, one check; the folder is the check's group."""
