"""The only code that touches this machine."""
