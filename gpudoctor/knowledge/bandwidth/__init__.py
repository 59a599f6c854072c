"""What published runs reach over each kind of link, and which link limits a run."""
