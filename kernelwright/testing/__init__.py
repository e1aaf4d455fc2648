"""What tests and rehearsals put between the product and the world; the product never needs it."""
