-- How often identity has changed.
SELECT generation FROM identity_generation
