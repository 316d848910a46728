"""How one scheduler says "gang": one module per scheduler. Pure; ignorant of one another."""
