"""A static package index: storage, records, the choice of a wheel, pages and publishing."""
