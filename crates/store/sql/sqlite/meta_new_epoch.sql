-- Fences after a restore are larger than all that were ever given, also by the database that the copy was made of.
UPDATE meta SET fence = max(?1, ((fence >> ?2) + 1) << ?2)
