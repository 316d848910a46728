"""How gangs are expressed for each scheduler: a folder per scheduler. Pure; no folder imports another."""
