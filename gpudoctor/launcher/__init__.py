"""What a launcher's file in `gpudoctor/launchers/` is written against, and what reads command lines by these files."""
