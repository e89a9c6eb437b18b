-- Identity changes.
UPDATE identity_generation SET generation = generation + 1
