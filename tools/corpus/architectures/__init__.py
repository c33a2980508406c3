"""Models exported here, each module with its ``SUBJECTS``."""
