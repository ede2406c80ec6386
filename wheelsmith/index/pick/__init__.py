"""For who installs: look at the machine, choose the wheel, give the command."""
