"""Tables and pure rules of the field, each with its source. Imports nothing but `gpudoctor.snapshot`."""
