"""What `gpudoctor env` suggests for a machine, and why."""
