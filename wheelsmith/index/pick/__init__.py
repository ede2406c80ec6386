"""Choose a wheel for this machine and give the install command."""
