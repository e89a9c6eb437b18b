-- The store's clock.
SELECT clock()
