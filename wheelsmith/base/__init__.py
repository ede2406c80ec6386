"""The ground that all else stands on: errors, records, files, and words for people."""
