-- Epochs after a restore are larger than all that were ever begun, also by the database that the copy was made of.
UPDATE roles SET epoch = max(?1, epoch + 1), node_id = NULL
