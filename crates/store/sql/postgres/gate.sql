-- Serializes transactions that change claims or waits, and allocates fencing tokens.
UPDATE gate SET fence = fence + $1 RETURNING fence, clock() AS now
