"""A folder of a run, or of what several commands have written, put together: `gpudoctor report`."""
