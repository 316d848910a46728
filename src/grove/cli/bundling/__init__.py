"""What `grove bundle` is made of: what is collected, what is removed from it, and the file. Reads only."""
