"""What batch schedulers take in the header of a script: forms of values, options that exclude each other."""
