"""Recording: what a core takes in and gives out goes to files and to those who ask for it."""
