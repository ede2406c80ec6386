"""What is signed of wheels: statements of where they come from, their signatures, and who is believed."""
