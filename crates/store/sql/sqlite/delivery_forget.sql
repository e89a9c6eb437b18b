-- What was recorded of a channel that is gone.
DELETE FROM deliveries WHERE channel = ?1
