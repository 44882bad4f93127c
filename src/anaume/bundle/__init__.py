"""The directory on disk: fingerprints, the table of foreign names, reading and writing, and the Bundle facade."""
